"""The contract of sequence mixers as a tool: `check_mixer` checks any layer against it."""

from decision_rnn.testing.check import ContractError, Report, check_mixer

__all__ = ["ContractError", "Report", "check_mixer"]

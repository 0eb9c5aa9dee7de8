"""The contract of sequence mixers as a tool: `check_mixer` checks any layer against it."""

from decision_rnn.testing.check import Report, check_mixer

__all__ = ["Report", "check_mixer"]

"""The law of a sequence mixer as a tool: `check_mixer` tests any layer against it."""

from decision_rnn.testing.check import check_mixer
from decision_rnn.testing.report import Finding, LawBrokenError, Report

__all__ = ["Finding", "LawBrokenError", "Report", "check_mixer"]

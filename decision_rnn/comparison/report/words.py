"""Formatting of numbers, names and targets in reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from decision_rnn.evaluation.report import describe_range
from decision_rnn.evaluation.statistics import SeedDifference, SeedScores
from decision_rnn.utils.parsing import AUTO, format_target

if TYPE_CHECKING:
    from decision_rnn.comparison.record import Target


def listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = [*names] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def capitalised(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def describe_targets(targets: Sequence[Target]) -> str:
    """Targets and where they are relative to the data: `target 3600, beyond the data`."""
    if not targets or targets[0].target_return is None:
        return "no target"
    named = (
        (
            format_target(of.target_return or 0.0),
            describe_range(of.in_range, "best" in of.roles and of.target_return != AUTO),
        )
        for of in targets
    )
    return f"target {' or '.join(', '.join(filter(None, names)) for names in named)}"


def format_spread(scores: SeedScores, number: Callable[[float], str] = "{:.1f}".format) -> str:
    """`95% interval 77.1 to 82.3`, or the range of few seeds; empty for a single seed."""
    if scores.spread is None:
        return ""
    low, high = (number(end) for end in (scores.low, scores.high) if end is not None)
    return f"{'range of seeds' if scores.spread == 'range' else scores.spread} {low} to {high}"


def describe_difference(difference: SeedDifference, number: Callable[[float], str] = "{:+.1f}".format) -> str:
    """The difference of the means with its interval and verdict: `+4.1 [+1.0, +7.2], better`."""
    text = number(difference.difference)
    if difference.low is None or difference.high is None:
        return f"{text}, too few seeds"
    return f"{text} [{number(difference.low)}, {number(difference.high)}], {difference.verdict}"

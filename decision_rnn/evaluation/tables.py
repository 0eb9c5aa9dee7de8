"""Formatting of scores and results as text, from plain values."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from decision_rnn.data.spec import DatasetSpec
from decision_rnn.evaluation.statistics import share_interval
from decision_rnn.utils.parsing import AUTO, format_target


def describe_range(in_range: bool | None, best: bool = False) -> str:
    """Whether a target return is inside the data's range, beyond it, or the data's best; empty if unknown."""
    if best:
        return "the data's best"
    return "" if in_range is None else "inside the data" if in_range else "beyond the data"


def format_number(value: float) -> str:
    """A value of unknown magnitude, with four digits, or as a whole number if it is larger."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def format_return(value: float, data: DatasetSpec, least: int = 0) -> str:
    """A return with as many decimals as the range of the data's returns asks for, at least `least`: none for returns in
    the thousands, two between 0 and 1."""
    spread = data.return_max - data.return_min
    places = max(least, 2 - math.floor(math.log10(spread))) if spread > 0 else least
    return f"{value:.{places}f}"


def name_target(target_return: float | None) -> str:
    """A target return as users write it, or `BC` for behaviour cloning."""
    return "BC" if target_return is None else format_target(target_return)


def format_result(
    title: str, targets: Sequence[Mapping[str, Any]], data: DatasetSpec, metrics: Sequence[str], notes: Iterable[str]
) -> str:
    """A result as a table for the terminal.

    Args:
        title: The first line.
        targets: The rows, as from `Result.rows`.
        data: The data that the agent was trained on, whose mean is the last row.
        metrics: Names of the metrics.
        notes: Lines below the table.
    """
    spread = targets[0]["episodes"] > 1

    def cell(row: Mapping[str, Any], name: str, format_value: Any) -> str:
        return format_value(row[name]) + (f" ± {format_value(row[f'{name}_sd'])}" if spread else "")

    rows = [("target", "return", "normalised score", "length", *metrics, "")]
    for row in targets:
        target = row["target_return"]
        rows.append(
            (
                name_target(target),
                cell(row, "return", lambda value: format_return(value, data, least=1)),
                cell(row, "score", "{:.1f}".format),
                f"{row['length']:.0f}",
                *(cell(row, metric, format_number) for metric in metrics),
                describe_range(row["in_range"], target == data.return_max),
            )
        )
    mean = format_return(data.return_mean, data, least=1)
    rows.append(("(the data)", mean, f"{data.score_mean:.1f}", *[""] * (len(metrics) + 2)))
    scale = f"{'± is one standard deviation over episodes; ' * spread}score {data.score_meaning}"
    return "\n".join([title, *align(rows), scale, *notes])


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: columns on the right, except for the last."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]


def describe_tasks(target_return: float | None, scores: Sequence[float]) -> str:
    """The scores of the environment's tasks: `auto: tasks 1 to 5 score 82.0, 84.0, ...`; empty where it has one."""
    formatted = ", ".join(f"{score:.1f}" for score in scores)
    return f"{name_target(target_return)}: tasks 1 to {len(scores)} score {formatted}" if scores else ""


def describe_success(target_return: float | None, returns: Sequence[float], data: DatasetSpec) -> str:
    """How many episodes score 100, with Wilson's interval, where all others score 0; empty elsewhere."""
    count = len(returns)
    if count == 1 or not {data.reference_min, data.reference_max}.issuperset(returns):
        return ""
    successes = returns.count(data.reference_max)
    low, high = share_interval(successes / count, count)
    return (
        f"{name_target(target_return)}: {successes}/{count} episodes score 100, the others 0 (95% Wilson interval "
        f"{100 * low:.1f} to {100 * high:.1f} for this agent; variation between seeds is larger)"
    )


def describe_limit(target_return: float | None, limited: float | None, initial_return_to_go: float | None) -> str:
    """How often the condition's limit lowered the return-to-go, and what it was at first; empty if it never did."""
    if not limited or target_return is None or initial_return_to_go is None:
        return ""
    steps = "every step" if target_return == AUTO else f"{limited:.0%} of the steps"
    return (
        f"{format_target(target_return)}: return-to-go limited in {steps}, at first to {initial_return_to_go:,.4g} on "
        "average"
    )

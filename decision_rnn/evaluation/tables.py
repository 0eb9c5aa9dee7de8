"""Formatting of scores and returns as text."""

import math
from collections.abc import Sequence

from decision_rnn.data.spec import DatasetSpec


def format_number(value: float) -> str:
    """A value of unknown magnitude, with four digits, or as a whole number if it is larger."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def format_return(value: float, data: DatasetSpec, least: int = 0) -> str:
    """A return with as many decimals as the range of the data's returns asks for, at least `least`: none for returns in
    the thousands, two between 0 and 1."""
    spread = data.return_max - data.return_min
    places = max(least, 2 - math.floor(math.log10(spread))) if spread > 0 else least
    return f"{value:.{places}f}"


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: columns on the right, except for the last."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]

"""Helpers for the axes of charts."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from decision_rnn.comparison.page.style import GRID, MUTED, Mark
from decision_rnn.comparison.page.words import shortened

LINE = 15
"""Distance of labels in pixels."""


def tidy(axes: Axes, x: str, y: str) -> None:
    """Set labels, few ticks and grid lines."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "linear":
            axis.set_major_locator(MaxNLocator(5))
            axis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))


def log_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic, with limits around positive values and plain numbers at the ticks: powers of ten
    over many decades, otherwise steps such as 1, 2 and 5."""
    low, high = min(values) / 1.3, max(values) * 1.3
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1,) if np.log10(high / low) > 2 else (1, 2, 5) if np.log10(high / low) > 0.5 else (1, 1.5, 2, 3, 5, 7)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))


def log_y(axes: Axes) -> None:
    """Make the y axis logarithmic, with plain numbers at 1, 2 and 5."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))


def compact(value: float) -> str:
    """A number short enough for a tick: `1.5k`, `2M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}".replace("-", "\N{MINUS SIGN}")
    return f"{value:.6g}".replace("-", "\N{MINUS SIGN}")


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Move places in [0, 1] as little as possible so that any two are `gap` apart, or less if there is no room."""
    order = np.argsort(places, kind="stable")
    gap = min(gap, 1 / max(len(places) - 1, 1))
    moved = np.clip(np.asarray(places, np.float64), 0, 1)[order]
    blocks: list[list[float]] = []  # touching neighbours: position of the first, sum of the wanted positions, count
    for place in moved:
        blocks.append([place, place, 1])
        while len(blocks) > 1 and blocks[-2][0] + blocks[-2][2] * gap > blocks[-1][0]:
            _, total, count = blocks.pop()
            _, before, size = blocks.pop()
            # A block starts at the mean of its members' wanted positions, each minus its offset in the block.
            total = before + total - count * size * gap
            size += count
            blocks.append([min(max(total / size, 0.0), 1 - (size - 1) * gap), total, size])
    result = np.empty(len(places))
    result[order] = [first + i * gap for first, _, size in blocks for i in range(int(size))]
    return [float(place) for place in np.clip(result, 0, 1)]


def label_points(axes: Axes, points: dict[str, tuple[float, float]], marks: dict[str, Mark], height: int) -> None:
    """Write the labels of points to the right of the axes without overlap, with thin lines to the points.

    Args:
        axes: Axes with their final limits.
        points: Label to (x, y).
        marks: Marks of the variants.
        height: Approximate height of the axes in pixels.
    """
    if not points:
        return
    to_axes = axes.transData + axes.transAxes.inverted()
    wishes = [float(to_axes.transform(point)[1]) for point in points.values()]
    for (label, point), place in zip(points.items(), spread_out(wishes, LINE / height), strict=True):
        axes.annotate(
            shortened(label), point, xytext=(1.06, place), textcoords="axes fraction", va="center", fontsize=11,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": marks[label].colour, "linewidth": 0.8, "shrinkA": 2,
                        "shrinkB": 4, "relpos": (0, 0.5)},
        )  # fmt: skip


def vertical(axes: Axes, x: float, text: str) -> None:
    """Draw a dotted line at x with a text beside it."""
    axes.axvline(x, color=MUTED, linestyle=":", linewidth=1.2)
    axes.annotate(
        text, (x, 0.03), xycoords=("data", "axes fraction"), xytext=(-2, 0), textcoords="offset points",
        rotation=90, fontsize=10, color=MUTED, ha="right", va="bottom",
    )  # fmt: skip

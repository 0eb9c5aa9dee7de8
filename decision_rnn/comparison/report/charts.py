"""The charts of a report, and the tables of the numbers behind them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from decision_rnn.comparison.report.parts import Chart, Findings, Table
from decision_rnn.comparison.report.svg import DOT, END, LINE, Axis, Plot
from decision_rnn.evaluation.report import format_scores
from decision_rnn.evaluation.statistics import SeedScores

POINTS, ROWS = 12, 25
"""The largest numbers of points of a curve: those marked and described, and those in the table behind the chart."""


@dataclass(frozen=True)
class Curves:
    """The curves of one variant over the same x.

    Attributes:
        x: (points,), at least one.
        y: By name, each (points,): the main one comes first; `seed ...` are those of seeds.
        band: Lower and upper end around the main curve, each (points,), or None.
    """

    x: np.ndarray
    y: Mapping[str, np.ndarray]
    band: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def main(self) -> np.ndarray:
        return next(iter(self.y.values()))

    def shown(self, most: int) -> list[int]:
        """The indices of at most so many points, the first and the last among them."""
        return sorted(set(np.linspace(0, len(self.x) - 1, most).round().astype(int).tolist()))


Number = Callable[[float], str]


def numbers(title: str, x: str, curves: Mapping[str, Curves], number: Number) -> Table:
    """The table behind a chart: a row for each variant and x, and a column for each curve."""
    names = dict.fromkeys(name for of in curves.values() for name in of.y)
    rows = []
    for label, of in curves.items():
        for i in of.shown(ROWS):
            values = (number(of.y[name][i]) if name in of.y else "" for name in names)
            rows.append([label, f"{of.x[i]:,.6g}", *values, " to ".join(number(end[i]) for end in of.band or ())])
    return Table(title, ["variant", x, *names, "band"], rows, behind_chart=True)


def plots(
    findings: Findings,
    title: str,
    axes: tuple[str, str],
    curves: Mapping[str, Curves],
    number: Number,
    panels: bool = False,
    log: str = "",
    guide: Callable[[Plot], None] = lambda plot: None,
) -> list[Chart]:
    """One chart of the variants' curves, labelled at their ends; none if there are no curves.

    Args:
        findings: What is reported.
        title: What is shown.
        axes: Labels of x and y.
        curves: The curves by variant.
        number: Formats a value of y.
        panels: Draw a chart for each variant, with the main curves of the others in grey.
        log: `x` for a logarithmic x axis, `y` for such a y axis if all values are positive.
        guide: Draws what is below the curves.
    """
    if not curves:
        return []
    every = [np.stack([of.x, values]) for of in curves.values() for values in (*of.y.values(), *(of.band or ()))]
    x, y = np.concatenate(every, axis=1)
    spaces = Axis.around(axes[0], x, "x" in log), Axis.around(axes[1], y, "y" in log and y.min() > 0)
    charts = []
    for front in [[label] for label in curves] if panels else [list(curves)]:
        described = [
            f"{axes[0]} {of.x[i]:,.6g}: {number(of.main[i])}"
            if panels
            else f"{label} {number(of.main[i])} at {of.x[i]:,.6g}"
            for label, of in ((label, curves[label]) for label in front)
            for i in (of.shown(POINTS) if panels else [-1])
        ]
        named = f"{front[0]}: {title}" if panels else title
        plot = Plot(named, "; ".join(described), *spaces, max(170, LINE * len(front)), () if panels else front)
        guide(plot)
        if not panels:
            plot.labels({label: (of.x[-1], of.main[-1]) for label, of in curves.items()}, findings.marks)
        for of in (of for label, of in curves.items() if label not in front):
            plot.line(of.x, of.main, "grey")
        for of, mark in ((curves[label], findings.marks[label]) for label in front):
            if of.band:
                plot.band(of.x, *of.band, mark.css)
            for name, values in [*of.y.items()][::-1]:  # the main one is on top
                kind = "" if values is of.main else " thin" if name.startswith("seed") else " dotted"
                plot.line(of.x, values, mark.css + kind)
            if len(of.x) <= POINTS:
                plot.marks(of.x, of.main, mark.css, mark.shape)
        charts.append(Chart(front[0] if panels else title, plot.svg()))
    return charts


def dots(
    findings: Findings,
    title: str,
    unit: str,
    rows: Mapping[str, SeedScores],
    reference: tuple[float, str],
    seeds: Mapping[str, Sequence[float]] | None = None,
    aims: Sequence[float] = (),
) -> Chart:
    """A row for every variant: a large mark at its value, a line for the spread, and a small dot for each of its seeds.

    `reference` is the position of a dashed line and the label above it; `aims` are those of dotted lines at the target.
    """
    described = "; ".join(f"{label} {format_scores(of)}" for label, of in rows.items())
    seeds = seeds or dict.fromkeys(rows, ())
    values = [value for label, of in rows.items() for value in (of.score, of.low, of.high, *seeds[label])]
    x = Axis.around(unit, [value for value in (reference[0], *aims, *values) if value is not None])
    y = Axis("", len(rows) - 0.4, -0.6, names=tuple(rows))
    plot = Plot(title, f"{described}; {reference[1]} {reference[0]:.3g}", x, y, 18 + 25 * len(rows))
    plot.vertical(*reference)
    for aim in aims:
        plot.vertical(aim, "the target", dotted=True)
    for row, (label, of) in enumerate(rows.items()):
        mark = findings.marks[label]
        plot.marks(seeds[label], [row + 0.28] * len(seeds[label]), f"{mark.css} seed", DOT)
        if of.low is not None and of.high is not None:
            plot.line([of.low, of.high], [row, row], mark.css)
            if of.spread == "95% interval":
                plot.marks([of.low, of.high], [row, row], f"{mark.css} end", END)
        plot.marks([of.score], [row], mark.css, mark.shape)
    return Chart(title, plot.svg())

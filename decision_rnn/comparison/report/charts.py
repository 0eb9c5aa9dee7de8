"""The charts of a report."""

from collections.abc import Mapping, Sequence

import numpy as np

from decision_rnn.comparison.report.parts import Chart
from decision_rnn.comparison.report.svg import DOT, END, LINE, Axis, Mark, Plot, Point, room_for
from decision_rnn.comparison.report.words import listed
from decision_rnn.evaluation.report import format_scores
from decision_rnn.evaluation.statistics import SeedScores

Rows = Mapping[str, tuple[SeedScores, Sequence[float]]]
"""By variant: a value with its spread, and the values of its seeds."""


def dots(
    title: str,
    unit: str,
    rows: Rows,
    marks: Mapping[str, Mark],
    reference: tuple[float, str],
    aim: tuple[float, str] | None = None,
) -> Chart:
    """A row for every variant: a large mark at its value, a line for the spread, and a small dot for each seed.

    Args:
        title: Title of the chart.
        unit: Label of the x axis.
        rows: The rows, from the top.
        marks: Marks of the variants.
        reference: Position of a dashed line, and the label above it.
        aim: Position of a dotted line, and the label along it.
    """
    described = "; ".join(f"{label} {format_scores(of)}" for label, (of, _) in rows.items())
    values = [reference[0], *([aim[0]] if aim else [])]
    values += [
        value for of, seeds in rows.values() for value in (of.score, of.low, of.high, *seeds) if value is not None
    ]
    y = Axis("", len(rows) - 0.4, -0.6, names=tuple(rows))
    plot = Plot(
        title, f"{described}; {reference[1]} {reference[0]:.3g}", Axis.around(unit, values), y, 18 + 25 * len(rows)
    )
    plot.vertical(*reference)
    if aim is not None:
        plot.vertical(*aim, dotted=True)
    for row, (label, (of, seeds)) in enumerate(rows.items()):
        mark = marks[label]
        plot.marks(seeds, [row + 0.28] * len(seeds), f"{mark.css} seed", DOT)
        if of.low is not None and of.high is not None:
            plot.line([of.low, of.high], [row, row], mark.css)
            if of.spread == "95% interval":
                plot.marks([of.low, of.high], [row, row], f"{mark.css} end", END)
        plot.marks([of.score], [row], mark.css, mark.shape)
    return Chart(title, plot.svg())


def overlay(
    title: str, x: str, y: str, curves: Mapping[str, Sequence[Point]], marks: Mapping[str, Mark], log: str = ""
) -> list[Chart]:
    """All variants' curves in one chart, labelled at their ends; none without points. `log` names logarithmic axes."""
    curves = {label: points for label, points in curves.items() if len(points)}
    if not curves:
        return []
    every = np.array([point for points in curves.values() for point in points])
    described = "; ".join(f"{label} ends at {points[-1][1]:.4g}" for label, points in curves.items())
    axes = (Axis.around(x, every[:, 0], "x" in log), Axis.around(y, every[:, 1], "y" in log and every[:, 1].min() > 0))
    plot = Plot(title, f"{y} over {x}: {described}", *axes, max(170, LINE * len(curves)), room_for(tuple(curves)))
    for label, points in curves.items():
        x_values, y_values = zip(*points, strict=True)
        plot.line(x_values, y_values, marks[label].css)
        if len(points) <= 12:
            plot.marks(x_values, y_values, marks[label].css, marks[label].shape)
    plot.labels({label: points[-1] for label, points in curves.items()}, marks)
    return [Chart(title, plot.svg())]


def cost_chart(title: str, x: str, costs: Mapping[str, Point], marks: Mapping[str, Mark]) -> list[Chart]:
    """Scores over a cost: label to (cost, score). Costs of 0 cannot be shown on the logarithmic axis; none if no cost
    can."""
    points = {label: (cost, score) for label, (cost, score) in costs.items() if cost > 0}
    if not points:
        return []
    described = "; ".join(f"{label}: {cost:,.0f}, score {score:.1f}" for label, (cost, score) in points.items())
    places = np.array(list(points.values()))
    axes = (Axis.around(x, places[:, 0], log=True), Axis.around("normalised score", places[:, 1]))
    height, right = max(170, LINE * len(points)), room_for(tuple(points))
    plot = Plot(f"Score over {title.lower()}", described, *axes, height, right)
    plot.labels(points, marks)
    for label, (cost, score) in points.items():
        plot.marks([cost], [score], marks[label].css, marks[label].shape)
    free = [label for label in costs if label not in points]
    return [Chart(title, plot.svg(), f"Not shown, as its cost is 0: {listed(free)}." if free else "")]

"""The charts of one dataset."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from decision_rnn.comparison.page.axes import LINE, label_points, log_ticks, log_y, tidy, vertical
from decision_rnn.comparison.page.parts import Chart
from decision_rnn.comparison.page.style import GRID, INK, MUTED, Mark
from decision_rnn.comparison.page.svg import FRAME, Canvas
from decision_rnn.comparison.page.words import describe_target, listed, plural
from decision_rnn.comparison.record import ComparedDataset, Trial
from decision_rnn.comparison.summary import VariantSummary

Summaries = Sequence[VariantSummary]
Marks = dict[str, Mark]
Point = tuple[float, float]


def obedience_panels(canvas: Canvas, dataset: ComparedDataset, found: Summaries, marks: Marks) -> list[Chart]:
    """Achieved against target return, one panel per variant, all with the same axes."""
    curves = {
        summary.variant: sorted(
            (of.target.target_return, of.return_median, of.return_p10, of.return_p90)
            for of in summary.targets
            if of.target.target_return is not None
        )
        for summary in found
    }
    curves = {label: curve for label, curve in curves.items() if curve}
    if not curves:
        return []
    points = np.array([point for curve in curves.values() for point in curve])
    x_limits, y_limits = _limits(points[:, 0]), _limits(points)
    charts = []
    for label, curve in curves.items():
        asked, middle, low, high = np.array(curve).T
        described = "; ".join(
            f"target {a:.0f}, median {m:.0f}, 10% to 90% {lo:.0f} to {hi:.0f}" for a, m, lo, hi in curve
        )
        with canvas.panel(f"{label}: achieved over target return", described) as (axes, drawn):
            colour = marks[label].colour
            axes.axline((0, 0), slope=1, color=MUTED, linestyle="--", linewidth=1.2)
            if dataset.data.return_max is not None:
                vertical(axes, dataset.data.return_max, "best in the data")
            axes.fill_between(asked, low, high, color=colour, alpha=0.22, linewidth=0)
            axes.plot(asked, middle, "-", marker=marks[label].marker, color=colour, markersize=5, linewidth=1.8)
            axes.set(xlim=x_limits, ylim=y_limits)
            tidy(axes, "target return", "achieved return")
        charts.append(Chart(label, drawn[0]))
    return charts


def seed_medians(cells: Sequence[Trial]) -> dict[int, list[Point]]:
    """By seed: target returns, each with the median return of its episodes."""
    return {
        cell.seed: sorted(
            (target.target_return, float(np.median(target.returns)))
            for target in cell.targets
            if target.target_return is not None and target.returns
        )
        for cell in cells
    }


def calibration_panels(
    canvas: Canvas, dataset: ComparedDataset, cells: dict[str, Sequence[Trial]], marks: Marks
) -> list[Chart]:
    """How far each seed's median return is from the target, one panel per variant, all with the same axes."""
    medians = {label: {s: points for s, points in seed_medians(of).items() if points} for label, of in cells.items()}
    medians = {label: by_seed for label, by_seed in medians.items() if by_seed}
    if not medians:
        return []
    every = np.array([point for by_seed in medians.values() for points in by_seed.values() for point in points])
    x_limits, y_limits = _limits(every[:, 0]), _limits(np.append(every[:, 1] - every[:, 0], 0))
    charts = []
    for label, by_seed in medians.items():
        described = "; ".join(
            f"seed {seed}: " + ", ".join(f"target {a:.0f}, off by {m - a:+.0f}" for a, m in points)
            for seed, points in by_seed.items()
        )
        with canvas.panel(f"{label}: achieved minus target return, per seed", described) as (axes, drawn):
            axes.axhline(0, color=MUTED, linestyle="--", linewidth=1.2)
            if dataset.data.return_max is not None:
                axes.axvline(dataset.data.return_max, color=MUTED, linestyle=":", linewidth=1.2)
            for points in by_seed.values():
                asked, median = np.array(points).T
                axes.plot(asked, median - asked, "o-", color=marks[label].colour, markersize=3, linewidth=1.2)
            axes.set(xlim=x_limits, ylim=y_limits)
            tidy(axes, "target return", "achieved minus target")
        charts.append(Chart(f"{label}, {plural(len(by_seed), 'seed')}", drawn[0]))
    return charts


def learning_panels(canvas: Canvas, found: Summaries, marks: Marks) -> list[Chart]:
    """Scores of the checkpoints over steps, one panel per variant, with the means of the others in grey behind it."""
    curves = {summary.variant: summary.curves for summary in found if summary.curves and summary.curves[0].steps}
    if not curves:
        return []
    ends = [value for of in curves.values() for curve in of for seed in curve.per_seed for value in seed]
    y_limits = _limits(np.array(ends))
    charts = []
    for label, of in curves.items():
        described = "; ".join(
            f"{describe_target(curve.target)}: "
            + ", ".join(f"step {step:,} {score:.1f}" for step, score in zip(curve.steps, curve.mean, strict=True))
            for curve in of
        )
        with canvas.panel(f"{label}: score over steps", described) as (axes, drawn):
            for other, (curve, *_) in curves.items():
                if other != label:
                    axes.plot(curve.steps, curve.mean, "-", color=GRID, linewidth=1.5)
            for seed in of[0].per_seed:
                axes.plot(of[0].steps, seed, "-", color=marks[label].colour, linewidth=0.9, alpha=0.5)
            for curve, line in [(of[0], "-"), *((curve, ":") for curve in of[1:] if "best" in curve.target.roles)]:
                axes.plot(curve.steps, curve.mean, line, marker=marks[label].marker, color=marks[label].colour,
                          linewidth=2, markersize=5)  # fmt: skip
            axes.set_ylim(*y_limits)
            tidy(axes, "training steps", "normalised score")
        charts.append(Chart(label, drawn[0]))
    return charts


def overlay(
    canvas: Canvas, title: str, x: str, y: str, curves: Mapping[str, Sequence[Point]], marks: Marks, log: str = ""
) -> Chart | None:
    """Curves of all variants in one chart, labelled at their ends.

    Args:
        canvas: Canvas of the page.
        title: Title of the chart.
        x: Label of the x axis.
        y: Label of the y axis.
        curves: Curves by label; those without points are left out.
        marks: Marks of the variants.
        log: The logarithmic axes: `x`, `y`, `xy` or none.
    """
    curves = {label: points for label, points in curves.items() if len(points)}
    if not curves:
        return None
    ends = "; ".join(f"{label} ends at {points[-1][1]:.4g}" for label, points in curves.items())
    height = FRAME + max(190, LINE * len(curves))
    with canvas.panel(title, f"{y} over {x}: {ends}", height) as (axes, drawn):
        for label, points in curves.items():
            steps, values = np.array(points).T
            dots: Any = {"marker": marks[label].marker, "markersize": 4} if len(points) <= 12 else {}
            axes.plot(steps, values, marks[label].line, color=marks[label].colour, linewidth=1.6, **dots)
        if "x" in log:
            log_ticks(axes, [step for points in curves.values() for step, _ in points])
        if "y" in log and all(value > 0 for points in curves.values() for _, value in points):
            log_y(axes)
        tidy(axes, x, y)
        label_points(axes, {label: points[-1] for label, points in curves.items()}, marks, height - FRAME)
    return Chart(title, drawn[0])


def cost_chart(canvas: Canvas, title: str, x: str, costs: dict[str, Point], marks: Marks) -> Chart | None:
    """Scores over a cost: label to (cost, score). Costs of 0 cannot be shown on the logarithmic axis."""
    free = [label for label, (cost, _) in costs.items() if cost <= 0]
    costs = {label: point for label, point in costs.items() if label not in free}
    if not costs:
        return None
    described = "; ".join(f"{label}: {cost:,.0f}, score {score:.1f}" for label, (cost, score) in costs.items())
    height = FRAME + max(170, LINE * len(costs))
    with canvas.panel(f"Score over {title.lower()}", described, height) as (axes, drawn):
        for label, (cost, score) in costs.items():
            axes.plot(cost, score, marks[label].marker, color=marks[label].colour, markerfacecolor=marks[label].face,
                      markersize=8, markeredgecolor=marks[label].colour)  # fmt: skip
        log_ticks(axes, [cost for cost, _ in costs.values()])
        scores = [score for _, score in costs.values()]
        axes.set_ylim(*_limits(np.array(scores)))
        tidy(axes, x, "normalised score")
        axes.spines["bottom"].set_color(INK)
        label_points(axes, costs, marks, height - FRAME)
    return Chart(title, drawn[0], f"Not shown, as its cost is 0: {listed(free)}." if free else "")


def _limits(values: np.ndarray) -> tuple[float, float]:
    """Limits of an axis around values, with a margin."""
    low, high = float(np.min(values)), float(np.max(values))
    air = 0.07 * (high - low) or max(1.0, 0.05 * abs(high))
    return low - air, high + air

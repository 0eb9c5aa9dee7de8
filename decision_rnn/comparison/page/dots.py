"""A chart with a row for every variant: its value, an interval or range, and its seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

from decision_rnn.comparison.page.axes import tidy, vertical
from decision_rnn.comparison.page.parts import Chart
from decision_rnn.comparison.page.style import GRID, MUTED, Mark
from decision_rnn.comparison.page.svg import FRAME, Canvas
from decision_rnn.comparison.page.words import describe_target, score_of, score_of_return, shortened
from decision_rnn.comparison.record import ComparedDataset, Target
from decision_rnn.comparison.summary import VariantSummary
from decision_rnn.evaluation.report import format_scores


@dataclass(frozen=True)
class DotRow:
    """A row of the chart.

    Attributes:
        label: Label of the variant.
        value: Position of the large mark.
        low: Left end of the line; None for no line.
        high: Right end of the line; None for no line.
        interval: Whether the line is a confidence interval, whose ends are marked.
        seeds: Positions of the small dots below.
    """

    label: str
    value: float
    low: float | None
    high: float | None
    interval: bool = True
    seeds: Sequence[float] = ()


def row_dots(
    canvas: Canvas,
    title: str,
    described: str,
    x: str,
    rows: Sequence[DotRow],
    marks: dict[str, Mark],
    reference: tuple[float, str],
    aim: tuple[float, str] | None = None,
) -> Chart:
    """A chart of rows of dots.

    Args:
        canvas: Canvas of the page.
        title: Title of the chart.
        described: Description of the chart, for screen readers.
        x: Label of the x axis.
        rows: The rows, from the top.
        marks: Marks of the variants.
        reference: Position of a dashed line, and the label above it.
        aim: Position of a dotted line, and the label beside it.
    """
    with canvas.panel(title, described, FRAME + 18 + 25 * len(rows)) as (axes, drawn):
        axes.axvline(reference[0], color=MUTED, linestyle="--", linewidth=1.2)
        axes.annotate(
            reference[1], (reference[0], 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3),
            textcoords="offset points", fontsize=10, color=MUTED, ha="center", va="bottom",
        )  # fmt: skip
        if aim is not None:
            vertical(axes, *aim)
        for y, row in enumerate(rows):
            mark = marks[row.label]
            axes.plot(row.seeds, [y + 0.28] * len(row.seeds), "o", color=mark.colour, markersize=3.5, alpha=0.7,
                      markeredgewidth=0)  # fmt: skip
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [y, y], mark.line, color=mark.colour, linewidth=2)
                if row.interval:
                    axes.plot([row.low, row.high], [y, y], "|", color=mark.colour, markersize=8)
            axes.plot(row.value, y, mark.marker, color=mark.colour, markerfacecolor=mark.face, markersize=7)
        tidy(axes, x, "")
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        axes.grid(visible=False, axis="y")
        axes.set_yticks(range(len(rows)), [shortened(row.label) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
    return Chart(title, drawn[0])


def score_dots(
    canvas: Canvas,
    dataset: ComparedDataset,
    target: Target | None,
    found: Sequence[VariantSummary],
    marks: dict[str, Mark],
) -> Chart:
    """The scores and seeds of all variants for one target."""
    results = [(summary.variant, of) for summary in found if (of := score_of(summary, target)) is not None]
    described = "; ".join(f"{label} {format_scores(of.scores)}" for label, of in results)
    rows = [
        DotRow(label, of.scores.score, of.scores.low, of.scores.high, of.scores.spread == "95% interval", of.per_seed)
        for label, of in results
    ]
    aim = None
    if target is not None and target.in_range and target.target_return is not None:
        aim = (score_of_return(dataset, target.target_return), "the target")
    mean = dataset.data.score_mean
    return row_dots(
        canvas,
        "Scores, no target" if target is None else f"Scores, {describe_target(target)}",
        f"{described}; mean of the data {mean:.1f}",
        "normalised score",
        rows,
        marks,
        (mean, "mean of the data"),
        aim,
    )

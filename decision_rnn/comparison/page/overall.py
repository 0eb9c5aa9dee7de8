"""The variants over several datasets (Agarwal et al., "Deep RL at the Edge of the Statistical Precipice", 2021):
interquartile means, probabilities of improvement and performance profiles."""

from collections.abc import Sequence

import numpy as np

from decision_rnn.comparison.page.axes import tidy
from decision_rnn.comparison.page.dots import DotRow, row_dots
from decision_rnn.comparison.page.parts import Chart, Group, Section, Table
from decision_rnn.comparison.page.style import GRID, Mark
from decision_rnn.comparison.page.svg import Canvas
from decision_rnn.comparison.page.words import listed
from decision_rnn.comparison.record import Comparison, Role
from decision_rnn.comparison.verdicts import NOTHING_SHARED, Overall
from decision_rnn.evaluation.aggregate import (
    AGGREGATE,
    AGGREGATE_NOTE,
    IMPROVEMENT,
    IMPROVEMENT_NOTE,
    PROFILE_NOTE,
    AggregateScore,
    Improvement,
    PerformanceProfile,
    performance_profile,
)

THRESHOLDS = 61
"""Number of scores at which a profile is drawn."""
FEW = 10
"""Number of these scores in its table."""
TITLES: dict[Role, str] = {
    "paper": "At the first target of each task",
    "best": "At the best return of each dataset",
    "bc": "Without a target",
}


def overall_findings(results: Sequence[Overall], controls: set[str]) -> list[str]:
    """The findings over all datasets in words, one paragraph for each role."""
    if not results:
        return [NOTHING_SHARED]
    paragraphs = []
    for of in results:
        best, improvements = of.best, _improvements(of)
        name = f"the control {best}" if best in controls else best
        text = _of_aggregate(of.aggregates[best])
        sentences = [f"{TITLES[of.role]}, {name} has the highest interquartile mean, {text}."]
        even = [label for label, improvement in improvements.items() if (improvement.low or 0) <= 0.5]
        known = all(improvement.low is not None for improvement in improvements.values())
        if not known:
            sentences.append("With fewer than five seeds per dataset this cannot be told from chance.")
        elif even:
            sentences.append(
                f"It is tied with {listed(even, 6)}: the intervals of its probability of improvement on them reach 0.5."
            )
        elif improvements:
            sentences.append(
                "It improves on each of the others with a probability whose 95% interval lies above 0.5, each interval "
                "by itself. It was picked by the same scores, for which these intervals are not adjusted."
            )
        paragraphs.append(" ".join(sentences))
    return paragraphs


def overall_section(
    canvas: Canvas, comparison: Comparison, results: Sequence[Overall], marks: dict[str, Mark]
) -> Section:
    """The section over all datasets."""
    given = any(aggregate.low is not None for of in results for aggregate in of.aggregates.values())
    known = any(improvement.low is not None for of in results for improvement in _improvements(of).values())
    text = (
        f"Runs of all datasets together. The aggregate is the {AGGREGATE_NOTE if given else AGGREGATE}: the mean of "
        "the middle half of the runs' scores, with an interval where there are enough runs for one that holds. The "
        f"improvement of the best aggregate on another variant is the {IMPROVEMENT_NOTE if known else IMPROVEMENT}: at "
        f"0.5 they are even. A profile is the {PROFILE_NOTE}; the other variants are grey behind it.",
    )
    means = {dataset.data.name: dataset.data.score_mean for dataset in comparison.datasets}
    groups = (_group(canvas, of, float(np.mean([means[name] for name in of.datasets])), marks) for of in results)
    return Section("overall", "Over all datasets", text, tuple(groups))


def _improvements(of: Overall) -> dict[str, Improvement]:
    """Improvement of the best variant on every other one."""
    return {label: of.improvement(of.best, label) for label in of.scores if label != of.best}


def _group(canvas: Canvas, of: Overall, data_mean: float, marks: dict[str, Mark]) -> Group:
    text = [f"Over {listed(of.datasets)}.", *([of.omissions] if of.omissions else [])]
    made = [
        _aggregate_parts(canvas, of, data_mean, marks),
        _improvement_parts(canvas, of, marks),
        _profile_parts(canvas, of, marks),
    ]
    charts, tables = zip(*made, strict=True)
    return Group(TITLES[of.role], tuple(text), tuple(chart for part in charts for chart in part), tuple(tables))


def _aggregate_parts(
    canvas: Canvas, overall: Overall, data_mean: float, marks: dict[str, Mark]
) -> tuple[list[Chart], Table]:
    found = overall.aggregates
    rows = [DotRow(label, of.score, of.low, of.high) for label, of in found.items()]
    described = "; ".join(f"{label} {_of_aggregate(of)}" for label, of in found.items())
    data = (data_mean, "mean of the data")
    chart = row_dots(canvas, "Interquartile mean", described, "normalised score", rows, marks, data)
    table = Table.of(
        "Interquartile means over all datasets",
        ("variant", "score [95% interval]", "runs"),
        [[label, _of_aggregate(of), f"{sum(of.runs.values())}"] for label, of in found.items()],
    )
    return [chart], table


def _improvement_parts(canvas: Canvas, overall: Overall, marks: dict[str, Mark]) -> tuple[list[Chart], Table]:
    found = _improvements(overall)
    rows = [DotRow(label, of.probability, of.low, of.high) for label, of in found.items()]
    texts = {label: _with_interval(of.probability, of.low, of.high, ".2f") for label, of in found.items()}
    described = "; ".join(f"over {label} {text}" for label, text in texts.items())
    title = f"Probability that {overall.best} improves on"
    charts = [row_dots(canvas, title, described, "probability", rows, marks, (0.5, "even"))] if rows else []
    table = Table.of(
        title,
        ("variant", "probability [95% interval]", *overall.datasets),
        [
            [label, texts[label], *(f"{of.by_dataset[name]:.2f}" for name in overall.datasets)]
            for label, of in found.items()
        ],
    )
    return charts, table


def _profile_parts(canvas: Canvas, overall: Overall, marks: dict[str, Mark]) -> tuple[list[Chart], Table]:
    scores = overall.scores
    every = [score for by_dataset in scores.values() for of in by_dataset.values() for score in of]
    thresholds = np.linspace(min(0.0, *every), max(every) * 1.02, THRESHOLDS)
    found = {label: performance_profile(of, thresholds) for label, of in scores.items()}
    charts = [_profile(canvas, label, found, marks) for label in found]
    shown = np.linspace(0, THRESHOLDS - 1, FEW).round().astype(int)
    rows = [[label, *(f"{of.fractions[i]:.2f}" for i in shown)] for label, of in found.items()]
    head = ("variant", *(f"above {thresholds[i]:.0f}" for i in shown))
    return charts, Table.of("Fraction of runs above a score", head, rows)


def _profile(canvas: Canvas, label: str, found: dict[str, PerformanceProfile], marks: dict[str, Mark]) -> Chart:
    of, colour = found[label], marks[label].colour
    half = of.thresholds[of.fractions >= 0.5]
    described = (
        f"half of its runs score above {half.max():.0f}" if len(half) else "fewer than half of its runs are here"
    )
    with canvas.panel(f"{label}: fraction of runs above a score", described, 200) as (axes, drawn):
        for other, behind in found.items():
            if other != label:
                axes.plot(behind.thresholds, behind.fractions, color=GRID, linewidth=1.5)
        axes.fill_between(of.thresholds, of.low, of.high, color=colour, alpha=0.22, linewidth=0)
        axes.plot(of.thresholds, of.fractions, color=colour, linewidth=2)
        axes.set_ylim(-0.03, 1.03)
        tidy(axes, "normalised score", "fraction of runs")
    return Chart(f"Profile of {label}", drawn[0])


def _of_aggregate(of: AggregateScore) -> str:
    return _with_interval(of.score, of.low, of.high, ".1f")


def _with_interval(value: float, low: float | None, high: float | None, form: str) -> str:
    return f"{value:{form}}" if low is None or high is None else f"{value:{form}} [{low:{form}}, {high:{form}}]"

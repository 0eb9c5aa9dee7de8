"""What the variants come to over several datasets (Agarwal et al., "Deep RL at the Edge of the Statistical Precipice",
2021): interquartile means, probabilities of improvement and performance profiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from decision_rnn.comparison.page.axes import tidy
from decision_rnn.comparison.page.dots import DotRow, row_dots
from decision_rnn.comparison.page.parts import Chart, Group, Section, Table
from decision_rnn.comparison.page.style import GRID, Mark
from decision_rnn.comparison.page.svg import Canvas
from decision_rnn.comparison.page.words import listed, main_targets, score_of
from decision_rnn.comparison.record import Comparison, Role
from decision_rnn.comparison.summary import VariantSummary
from decision_rnn.evaluation.aggregate import (
    AggregateScore,
    Improvement,
    PerformanceProfile,
    aggregate_scores,
    compare_over_datasets,
    performance_profile,
    shared_datasets,
)

THRESHOLDS = 61
"""Scores at which a profile is drawn."""
FEW = 10
"""Of them in its table."""
QUESTIONS: tuple[tuple[Role, str], ...] = (
    ("paper", "Asked for the first return of each task"),
    ("best", "Asked for each dataset's best return"),
)

Scores = dict[str, dict[str, Sequence[float]]]
"""By variant and dataset, every seed's."""


@dataclass(frozen=True)
class Overall:
    """What the variants come to over the datasets that all of them have results on, for one kind of target.

    Attributes:
        title: What was asked for.
        datasets: Their names.
        missing: Those left out.
        data_mean: Of the datasets' mean scores.
        scores: Of the datasets' runs.
        aggregates: By variant.
        best: The variant of the highest aggregate.
        improvements: Of the best one on every other.
    """

    title: str
    datasets: list[str]
    missing: list[str]
    data_mean: float
    scores: Scores
    aggregates: dict[str, AggregateScore]
    best: str
    improvements: dict[str, Improvement]


def overall(comparison: Comparison, found: Mapping[str, Sequence[VariantSummary]]) -> list[Overall]:
    """For each kind of target what the variants come to over all datasets, where there are two or more."""
    made = []
    for role, title in QUESTIONS:
        scores = _scores(comparison, found, role)
        kept, missing = shared_datasets(scores.values())
        if len(kept) < 2:
            continue
        scores = {label: {name: by_dataset[name] for name in kept} for label, by_dataset in scores.items()}
        aggregates = {label: aggregate_scores(of) for label, of in scores.items()}
        best = max(aggregates, key=lambda label: aggregates[label].score)
        improvements = {label: compare_over_datasets(scores[best], of) for label, of in scores.items() if label != best}
        means = [dataset.data.score_mean for dataset in comparison.datasets if dataset.data.name in kept]
        mean = float(np.mean(means))
        made.append(Overall(title, kept, missing, mean, scores, aggregates, best, improvements))
    return made


def overall_findings(results: Sequence[Overall], controls: set[str]) -> list[str]:
    """What they come to in words, a paragraph each."""
    paragraphs = []
    for of in results:
        name = f"the control {of.best}" if of.best in controls else of.best
        text = _of_aggregate(of.aggregates[of.best])
        sentences = [f"{of.title}, {name} has the highest interquartile mean, {text}."]
        even = [label for label, improvement in of.improvements.items() if (improvement.low or 0) <= 0.5]
        known = all(improvement.low is not None for improvement in of.improvements.values())
        if not known:
            sentences.append("With fewer than five seeds a dataset it is not known how far luck decided that.")
        elif even:
            sentences.append(
                f"It is tied with {listed(even, 6)}: the intervals of its probability of improvement on them reach 0.5."
            )
        elif of.improvements:
            sentences.append(
                "It improves on each of the others with a probability whose 95% interval lies above 0.5, each interval "
                "by itself. It was picked by the same scores, for which these intervals are not adjusted."
            )
        paragraphs.append(" ".join(sentences))
    return paragraphs


def overall_section(canvas: Canvas, results: Sequence[Overall], marks: dict[str, Mark]) -> Section:
    """The section over all datasets."""
    text = (
        "Runs of all datasets together. The aggregate is the interquartile mean, the mean of the middle half of the "
        "runs' scores; it has an interval where there are enough runs for one that holds. The probability of "
        "improvement is how often a run of the best aggregate scores higher than a run of another variant on the same "
        "dataset: at 0.5 they are even. A profile is the fraction of runs above each score, with a 95% band; the "
        "other variants are grey behind it.",
    )
    return Section("overall", "Over all datasets", text, tuple(_group(canvas, of, marks) for of in results))


def _scores(comparison: Comparison, found: Mapping[str, Sequence[VariantSummary]], role: Role) -> Scores:
    """Every seed's score for the first target of that role; of cloning, which is asked for nothing, its own."""
    scores: Scores = {variant.label: {} for variant in comparison.variants}
    for dataset in comparison.datasets:
        summaries = found[dataset.data.name]
        asked = [target for target in main_targets(dataset, summaries) if target is not None and target.role == role]
        for summary in summaries if asked else ():
            of = score_of(summary, asked[0])
            if of is not None:
                scores[summary.variant][dataset.data.name] = of.per_seed
    return scores


def _group(canvas: Canvas, of: Overall, marks: dict[str, Mark]) -> Group:
    text = [f"Over {listed(of.datasets)}."]
    if of.missing:
        text.append(f"Left out, because not every variant has a result there: {listed(of.missing)}.")
    made = [_aggregates(canvas, of, marks), _improvements(canvas, of, marks), _profiles(canvas, of.scores, marks)]
    charts, tables = zip(*made, strict=True)
    return Group(of.title, tuple(text), tuple(chart for part in charts for chart in part), tuple(tables))


def _aggregates(canvas: Canvas, overall: Overall, marks: dict[str, Mark]) -> tuple[list[Chart], Table]:
    found = overall.aggregates
    rows = [DotRow(label, of.score, of.low, of.high) for label, of in found.items()]
    described = "; ".join(f"{label} {_of_aggregate(of)}" for label, of in found.items())
    data = (overall.data_mean, "mean of the data")
    chart = row_dots(canvas, "Interquartile mean", described, "normalised score", rows, marks, data)
    table = Table.of(
        "Interquartile means over all datasets",
        ("variant", "score [95% interval]", "runs"),
        [[label, _of_aggregate(of), f"{sum(of.runs.values())}"] for label, of in found.items()],
    )
    return [chart], table


def _improvements(canvas: Canvas, overall: Overall, marks: dict[str, Mark]) -> tuple[list[Chart], Table]:
    found = overall.improvements
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


def _profiles(canvas: Canvas, scores: Scores, marks: dict[str, Mark]) -> tuple[list[Chart], Table]:
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

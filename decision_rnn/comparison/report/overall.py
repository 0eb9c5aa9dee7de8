"""The section over several datasets (Agarwal et al., "Deep RL at the Edge of the Statistical Precipice", 2021):
interquartile means, probabilities of improvement and performance profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decision_rnn.comparison.report.charts import dots
from decision_rnn.comparison.report.parts import Chart, Columns, Findings, Group, Section
from decision_rnn.comparison.report.svg import Axis, Plot
from decision_rnn.comparison.verdicts import Overall
from decision_rnn.evaluation.aggregate import (
    AGGREGATE,
    AGGREGATE_NOTE,
    IMPROVEMENT,
    IMPROVEMENT_NOTE,
    PROFILE_NOTE,
    PerformanceProfile,
    performance_profile,
)
from decision_rnn.evaluation.report import format_scores
from decision_rnn.evaluation.statistics import probability_of_improvement

if TYPE_CHECKING:
    from decision_rnn.comparison.record import Role

THRESHOLDS, SHOWN = 61, 10
"""Numbers of scores at which a profile is drawn and at which its table has a column."""
TITLES: dict[Role | None, str] = {
    "paper": "at the first target of each task",
    "best": "at the best return of each dataset",
    None: "without a target",
}
NOTHING_SHARED = "There is no number over the datasets: fewer than two have a result of every variant."
"""Shown for comparisons on several datasets without any aggregate."""


def overall(findings: Findings) -> Section:
    """The variants over all datasets that they share."""
    found, several = findings.overall, len(findings.comparison.datasets) > 1
    aggregates = [of for overall in found for of in overall.aggregates.values()]
    improvements = [of for overall in found for of in overall.improvements.values()]
    text = [f"Interquartile mean: {AGGREGATE_NOTE if any(of.low is not None for of in aggregates) else AGGREGATE}."]
    if improvements:
        known = any(of.low is not None for of in improvements)
        text.append(f"Improvement: {IMPROVEMENT_NOTE if known else IMPROVEMENT}; at 0.5 the two are even.")
    if any(of.low is None for of in [*aggregates, *improvements]):
        text.append("No interval is given for few seeds or datasets.")
    cloned = {summary.variant for summary in findings.summaries if summary.targets[0].target.target_return is None}
    if cloned and any(of.role is not None for of in found):
        text.append("Behaviour cloning has no target and appears with its one score at all of them.")
    charts_text = f"A profile is the {PROFILE_NOTE}; the other variants are grey behind it."
    groups = [_group(findings, of) for of in found]
    if several and not found:
        groups, text, charts_text = [Group("Over all datasets", text=[NOTHING_SHARED])], [], ""
    return Section("Over all datasets", " ".join(text) * bool(found), groups, charts_text, foldable=False)


def _group(findings: Findings, overall: Overall) -> Group:
    text = []
    if overall.left_out:
        text.append(f"Left out, because not every variant has a result there: {', '.join(overall.left_out)}.")
    if overall.without:
        text.append(f"Left out, because they have no result on any dataset: {', '.join(overall.without)}.")
    every = len(findings.comparison.datasets)
    datasets = f"{len(overall.datasets)} of {every} datasets" if overall.left_out else f"All {every} datasets"
    means = {of.data.name: of.data.score_mean for of in findings.comparison.datasets}
    mean = float(np.mean([means[name] for name in overall.datasets]))
    columns: Columns = {
        "score": {label: format_scores(of) for label, of in overall.aggregates.items()},
        "runs": {label: f"{sum(map(len, of.values()))}" for label, of in overall.scores.items()},
    }
    tables = [findings.table("interquartile mean of all runs", columns)]
    rows = {label: (of, ()) for label, of in overall.aggregates.items()}
    charts = [dots("Interquartile mean", "normalised score", rows, findings.marks, (mean, "mean of the data"))]
    if overall.improvements:
        title, others = f"improvement on {overall.reference}", overall.scores[overall.reference]
        columns = {"probability": {label: format_scores(of, digits=2) for label, of in overall.improvements.items()}}
        for name in overall.datasets:
            columns[name] = {
                label: f"{probability_of_improvement(overall.scores[label][name], others[name]):.2f}"
                for label in overall.improvements
            }
        tables.append(findings.table(title, columns))
        rows = {label: (of, ()) for label, of in overall.improvements.items()}
        charts.append(dots(f"Probability of {title}", "probability", rows, findings.marks, (0.5, "even")))
    scores = np.concatenate([of for by_dataset in overall.scores.values() for of in by_dataset.values()])
    thresholds = np.linspace(min(0.0, scores.min()), scores.max() * 1.02, THRESHOLDS)
    profiles = {label: performance_profile(of, thresholds) for label, of in overall.scores.items()}
    charts += [_profile_chart(findings, label, profiles) for label in profiles]
    columns = {
        f"above {thresholds[i]:.0f}": {label: f"{of.fractions[i]:.2f}" for label, of in profiles.items()}
        for i in np.linspace(0, THRESHOLDS - 1, SHOWN).round().astype(int)
    }
    tables.append(findings.table("fraction of runs above a score", columns, behind_chart=True))
    return Group(f"{datasets}, {TITLES[overall.role]}", text, tables, charts)


def _profile_chart(findings: Findings, label: str, found: dict[str, PerformanceProfile]) -> Chart:
    of, css = found[label], findings.marks[label].css
    half = of.thresholds[of.fractions >= 0.5]
    described = (
        f"half of its runs score above {half.max():.0f}" if len(half) else "fewer than half of its runs are here"
    )
    axes = (Axis.around("normalised score", of.thresholds), Axis("fraction of runs", -0.03, 1.03))
    plot = Plot(f"{label}: fraction of runs above a score", described, *axes, 140)
    for other, behind in found.items():
        if other != label:
            plot.line(behind.thresholds, behind.fractions, "grey")
    plot.band(of.thresholds, of.low.clip(0), of.high.clip(max=1), css)
    plot.line(of.thresholds, of.fractions, css)
    return Chart(f"Profile of {label}", plot.svg())

"""The sections of a report: each is a function from the findings to a section, listed in `SECTIONS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from decision_rnn.comparison.report.charts import cost_chart, dots, overlay
from decision_rnn.comparison.report.overall import overall
from decision_rnn.comparison.report.parts import Cell, Chart, Columns, Findings, Group, Section, Table
from decision_rnn.comparison.report.svg import Axis, Plot, Point
from decision_rnn.comparison.report.words import (
    capitalised,
    describe_difference,
    describe_targets,
    format_spread,
    listed,
    plural,
    score_cell,
)
from decision_rnn.comparison.summary import (
    BUDGETS,
    METRICS,
    LearningCurve,
    TargetSummary,
    VariantSummary,
    compared_targets,
    shown_targets,
)
from decision_rnn.comparison.verdicts import differences, reference
from decision_rnn.evaluation.report import format_deviation, format_return, format_scores
from decision_rnn.evaluation.statistics import (
    DEVIATION_NOTE,
    DIFFERENCE_NOTE,
    FEWEST_FOR_INTERVAL,
    INTERVAL_NOTE,
    summarise_seeds,
)

if TYPE_CHECKING:
    from decision_rnn.comparison.record import ComparedDataset, Target

CHART_POINTS, TABLE_POINTS = 200, 10
"""The largest numbers of points of a loss curve in its chart and in its table."""

Summaries = Sequence[VariantSummary]


def scores(findings: Findings) -> Section:
    """Scores of the last checkpoint, their spread over seeds, and the differences between variants."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        def by_target(cell: Callable[[TargetSummary], Cell | str]) -> Columns:
            """The cells of every variant that has results for a target, by target."""
            return {
                describe_targets(targets): {
                    summary.variant: cell(of) for summary in found for of in summary.targets if of.target == targets[0]
                }
                for targets in shown_targets(found)
            }

        last = by_target(lambda of: score_cell(of.scores, of.per_seed))
        for column in last.values():
            column["(the data's mean)"] = f"{dataset.data.score_mean:.1f}"
        errors = {summary.variant: format_scores(of, "%") for summary in found if (of := summary.target_error)}
        deviations = by_target(lambda of: format_deviation(of.deviation) if of.scores.spread == "95% interval" else "")
        compared = {
            describe_targets(targets): {
                label: describe_difference(of) for label, of in differences(found, targets[0]).items()
            }
            for targets in compared_targets(found)
        }
        tested = any(len(summary.trials) >= FEWEST_FOR_INTERVAL for summary in found)
        tables = [
            findings.table("score of the last checkpoint", {**last, "target error, % of the data's range": errors}),
            findings.table("standard deviation over seeds", deviations),
            findings.table(f"difference from {reference(found)}", compared if tested else {}),
            _every_target(dataset, found),
        ]
        shown = [targets for targets in shown_targets(found) if targets[0].target_return is not None]
        charts = [_score_chart(findings, dataset, found, targets) for targets in shown or shown_targets(found)]
        return Group(dataset.data.name, tables=tables, charts=charts)

    every = list(chain.from_iterable(of.targets for of in findings.summaries))
    spreads = {of.scores.spread for of in every}
    kinds = {
        "95% interval": INTERVAL_NOTE,
        "range": "mean over seeds, and in brackets the score of every seed, whose range is no confidence interval",
        None: "of one seed, which may be far from the mean over seeds",
    }
    text = [f"Score: 0 is a random policy, 100 an expert; {'; or '.join(kinds[of] for of in kinds if of in spreads)}."]
    if any(of.target.in_range is False for of in every):
        text.append("Targets beyond the data measure extrapolation.")
    if any(summary.target_error for summary in findings.summaries):
        text.append(
            "Target error: the mean distance of the median return from targets spread through the data's range, in % "
            "of that range; an agent that always returns the middle of the range has about 20."
        )
    if "95% interval" in spreads:
        text.append(f"Over seeds: {DEVIATION_NOTE}. Differences: {DIFFERENCE_NOTE}.")
    charts_text = (
        "In the charts a large mark is the score, with its interval (a line with ends) or the range of its seeds (a "
        "plain line); small dots below it are the seeds. Hollow marks and dashed lines are controls."
    )
    return Section("Scores", " ".join(text), findings.groups(group), charts_text, foldable=False)


def _every_target(dataset: ComparedDataset, found: Summaries) -> Table:
    def returns(between: str, *values: float) -> str:
        return between.join(format_return(value, dataset.data) for value in values)

    head = ["variant", "target", "score", "sd over seeds (of the agents)", "return, mean ± sd", "median", "10% to 90%"]
    rows: list[list[Cell | str]] = []
    for summary in found:
        for of in summary.targets:
            low, middle, high = of.return_quantiles
            row: list[Cell | str] = [summary.variant, describe_targets([of.target]), score_cell(of.scores, of.per_seed)]
            row += [format_deviation(of.deviation), returns(" ± ", *of.return_mean_sd)]
            row += [returns("", middle), returns(" to ", low, high)]
            rows.append([*row, *(f"{metric(of):.4g}" for metric in METRICS.values())])
    return Table.of("every target", [*head, *METRICS], rows, behind_chart=True)


def _score_chart(findings: Findings, dataset: ComparedDataset, found: Summaries, targets: Sequence[Target]) -> Chart:
    results = {summary.variant: summary.of_target(targets[0]) for summary in found}
    aims = [of.target_return for of in targets if of.in_range and of.target_return is not None]
    return dots(
        f"Scores, {describe_targets(targets)}",
        "normalised score",
        {label: (of.scores, of.per_seed) for label, of in results.items()},
        findings.marks,
        (dataset.data.score_mean, "mean of the data"),
        (float(dataset.data.normalised(aims[0])), "the target") if aims else None,
    )


def achieved(findings: Findings) -> Section:
    """The returns that agents achieve over their target returns."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        asking = [summary for summary in found if summary.targets[0].target.target_return is not None]
        rows = []
        for summary in asking:
            for i, trial in enumerate(summary.trials):
                for asked, median in _medians(summary, i):
                    returns = (format_return(value, dataset.data) for value in (median, median - asked))
                    rows.append([summary.variant, f"{trial.seed}", f"{asked:g}", *returns])
        head = ("variant", "seed", "target", "achieved", "difference")
        return Group(
            dataset.data.name,
            tables=[Table.of("each seed's median return", head, rows, behind_chart=True)],
            charts=[_achieved_chart(findings, dataset, asking, summary) for summary in asking],
        )

    charts_text = (
        "The return that an agent achieves for each target: a thick line with marks is the median of all seeds' "
        "episodes, with a band from the 10th to the 90th percentile; thin lines are the medians of its seeds. On the "
        "dashed diagonal the agent achieves its target; right of the dotted line the target is higher than any return "
        "in the data. Thin lines close together point to the method, thin lines far apart to luck in training."
    )
    return Section("Target and achieved return", "", findings.groups(group), charts_text)


def _medians(summary: VariantSummary, seed: int) -> list[Point]:
    """Target returns, each with the median return of one seed's episodes."""
    return sorted((of.target.target_return or 0.0, of.seed_medians[seed]) for of in summary.targets)


def _achieved_chart(findings: Findings, dataset: ComparedDataset, asking: Summaries, summary: VariantSummary) -> Chart:
    """The panel of one variant, with the same axes as those of the others."""

    def curve(of: VariantSummary) -> np.ndarray:
        """(targets, 4): target return, and 10th percentile, median and 90th percentile of the achieved return."""
        return np.array(sorted((of.target.target_return or 0.0, *of.return_quantiles) for of in of.targets))

    every = np.concatenate([curve(of) for of in asking])
    asked, low, middle, high = curve(summary).T
    described = "; ".join(
        f"target {a:.6g}, median {format_return(m, dataset.data)}, 10% to 90% {format_return(lo, dataset.data)} to "
        f"{format_return(hi, dataset.data)}"
        for a, lo, m, hi in curve(summary)
    )
    mark = findings.marks[summary.variant]
    title = f"{summary.variant}: achieved over target return"
    plot = Plot(title, described, Axis.around("target return", every[:, 0]), Axis.around("achieved return", every))
    plot.diagonal()
    if plot.x.low < dataset.data.return_max < plot.x.high:
        plot.vertical(dataset.data.return_max, "best in the data", dotted=True)
    plot.band(asked, low, high, mark.css)
    for i in range(len(summary.trials)) if len(summary.trials) > 1 else ():
        targets, medians = zip(*_medians(summary, i), strict=True)
        plot.line(targets, medians, f"{mark.css} thin")
    plot.line(asked, middle, mark.css)
    plot.marks(asked, middle, mark.css, mark.shape)
    return Chart(summary.variant, plot.svg())


def learning(findings: Findings) -> Section:
    """The loss, and the scores of the checkpoints."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        losses = {summary.variant: _mean_loss(summary) for summary in found}
        curves = {summary.variant: summary.curves for summary in found if summary.curves}
        loss_rows, rows = [], []
        for label, points in losses.items():
            shown = dict.fromkeys(np.linspace(0, len(points) - 1, TABLE_POINTS).round().astype(int)) if points else ()
            loss_rows += [[label, f"{points[i][0]:,.0f}", f"{points[i][1]:.4g}"] for i in shown]
        for label, of in ((label, of) for label, of_variant in curves.items() for of in of_variant):
            for step, column in zip(of.steps, of.per_seed.T, strict=True):
                seeds = ", ".join(f"{score:.1f}" for score in column)
                rows.append([label, describe_targets([of.target]), f"{step:,}", f"{column.mean():.1f}", seeds])
        head = ("variant", "target", "step", "mean", "seeds")
        tables = [
            findings.table("score by checkpoint", _last_and_best(curves)),
            Table.of("every checkpoint's score", head, rows, behind_chart=True),
            Table.of("loss", ("variant", "step", "loss"), loss_rows, behind_chart=True),
        ]
        charts = overlay("Loss", "training steps", "loss", losses, findings.marks, log="y")
        charts += [_learning_chart(findings, curves, label) for label in curves]
        return Group(dataset.data.name, tables=tables, charts=charts)

    text = (
        f"Checkpoints: {plural(findings.comparison.checkpoint_episodes, 'episode')} each; the best one is chosen and "
        "measured by the same episodes, so its score is biased upwards."
    )
    charts_text = (
        "A thick line with marks is the mean score over seeds for the first target, thin lines are its seeds, dotted "
        "lines are the means for other targets, grey lines are the other variants. A curve that still rises says that "
        "longer training may change the order. "
    )
    checkpoints = any(summary.curves for summary in findings.summaries)
    losses_text = "Losses of different objectives cannot be compared."
    groups = findings.groups(group)
    return Section("Learning curves", text * checkpoints, groups, charts_text * checkpoints + losses_text)


def _last_and_best(curves: dict[str, tuple[LearningCurve, ...]]) -> Columns:
    """Scores of the last and the best checkpoint over the same episodes, by target."""
    columns: Columns = {}
    for label, of_variant in curves.items():
        for of in of_variant:
            for which, per_seed in (("last", of.per_seed[:, -1]), ("best", of.per_seed.max(axis=1))):
                column = columns.setdefault(f"{which}, {describe_targets([of.target])}", {})
                column[label] = format_scores(summarise_seeds(per_seed))
    return columns


def _learning_chart(findings: Findings, curves: dict[str, tuple[LearningCurve, ...]], label: str) -> Chart:
    """Scores of a variant's checkpoints over steps; the means of the others are grey behind it."""
    described = "; ".join(
        f"{describe_targets([of.target])}: "
        + ", ".join(
            f"step {step:,} {score:.1f}" for step, score in zip(of.steps, of.per_seed.mean(axis=0), strict=True)
        )
        for of in curves[label]
    )
    every = list(chain.from_iterable(curves.values()))
    steps = Axis.around("training steps", [step for of in every for step in of.steps])
    score = Axis.around("normalised score", np.concatenate([of.per_seed.ravel() for of in every]))
    plot, mark = Plot(f"{label}: score over steps", described, steps, score), findings.marks[label]

    for other, (first, *_) in curves.items():
        if other != label:
            plot.line(first.steps, first.per_seed.mean(axis=0), "grey")
    first, *others = curves[label]
    for seed in first.per_seed:
        plot.line(first.steps, seed, f"{mark.css} thin")
    plot.line(first.steps, first.per_seed.mean(axis=0), mark.css)
    plot.marks(first.steps, first.per_seed.mean(axis=0), mark.css, mark.shape)
    for of in others:
        plot.line(of.steps, of.per_seed.mean(axis=0), f"{mark.css} dotted")
    return Chart(label, plot.svg())


def _mean_loss(summary: VariantSummary) -> list[Point]:
    """The loss over steps, mean over the seeds that logged it; if there are many points, neighbours are averaged."""
    by_step: dict[int, list[float]] = {}
    for step, loss in chain.from_iterable(trial.loss for trial in summary.trials):
        by_step.setdefault(step, []).append(loss)
    points = np.array([(step, np.mean(losses)) for step, losses in sorted(by_step.items())])
    parts = np.array_split(points, min(len(points), CHART_POINTS)) if len(points) else []
    return [(float(part[-1, 0]), float(part[:, 1].mean())) for part in parts]


def cost(findings: Findings) -> Section:
    """Parameters, training time, time of an action and size of the state, and the score over each."""
    kinds = {
        "Parameters": ("parameters", "{:,.0f}"),
        "Training": ("seconds of training", "{:,.0f} s"),
        "One action": ("µs for one action", "{:,.0f} µs"),
        "State": ("bytes of state per environment", "{:,.0f} B"),
    }

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        costs = {summary.variant: dict(zip(kinds, _costs(summary), strict=True)) for summary in found}
        scores = {summary.variant: summary.of_target(shown_targets(found)[0][0]).scores.score for summary in found}
        columns: Columns = {}
        charts: list[Chart] = []
        for kind, (unit, form) in kinds.items():
            known = {label: cost for label, of in costs.items() if (cost := of[kind]) is not None}
            columns[kind.lower()] = {label: form.format(cost) for label, cost in known.items()}
            points = {label: (cost, scores[label]) for label, cost in known.items()}
            charts += cost_chart(kind, unit, points, findings.marks)
        return Group(dataset.data.name, tables=[findings.table("cost", columns)], charts=charts)

    text = (
        f"Training: median wall time of a run{findings.comparison.describe_jobs()}; one action: median at batch 1 on "
        "one thread, of the fastest seed, since other work on the machine can only slow it down; state: memory per "
        "environment."
    )
    charts_text = "The charts show the score at the first target: further left is cheaper, further up is better."
    return Section("Score against cost", text, findings.groups(group), charts_text)


def _costs(summary: VariantSummary) -> tuple[float | None, ...]:
    first, actions = summary.trials[0], [trial.action_microseconds for trial in summary.trials]
    training = float(np.median([trial.training_seconds for trial in summary.trials]))
    known = [action for action in actions if action is not None]
    return first.parameters, training, min(known, default=None), first.state_bytes


def tuning(findings: Findings) -> Section:
    """The score of a target chosen by playing, over the episodes spent on it."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        curves = {of.variant: dict(zip(BUDGETS, of.tuning, strict=True)) for of in found if of.tuning}
        columns: Columns = {
            plural(spent, "episode"): {
                label: Cell(f"{of[spent].score:.1f}", format_spread(of[spent])) for label, of in curves.items()
            }
            for spent in BUDGETS
        }
        points = {label: [(float(spent), of.score) for spent, of in curve.items()] for label, curve in curves.items()}
        charts = overlay("Score of the choice", "episodes spent", "normalised score", points, findings.marks, log="x")
        return Group(dataset.data.name, tables=[findings.table("score of a target chosen by", columns)], charts=charts)

    text = (
        "A target chosen by playing: a bandit spends that many episodes per seed on the evaluated targets, and its "
        "choice is scored on other episodes. The gain is bought with interaction, which offline learning is meant to "
        "do without."
    )
    return Section("Score against episodes spent on choosing a target", text, findings.groups(group))


def remarks(findings: Findings) -> Section:
    """What a reader has to know before trusting the scores, with the variants concerned."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        concerned: dict[str, list[str]] = {}
        for summary in found:
            for remark in dict.fromkeys(chain.from_iterable(trial.remarks for trial in summary.trials)):
                concerned.setdefault(remark, []).append(summary.variant)
        lines = [f"Comparability: {dataset.data.comparable}"] * bool(dataset.data.comparable) + [*dataset.data.notes]
        for remark, labels in concerned.items():
            lines.append(f"{listed(labels)}: {remark}" if len(labels) < len(found) else capitalised(remark))
        return Group(dataset.data.name, text=[f"{line}." for line in lines])

    text = "What to know before believing the scores."
    return Section("Remarks", "", findings.groups(group), text, foldable=False)


def failed(findings: Findings) -> Section:
    """The runs that failed."""
    lines = [f"{run.variant} on {run.dataset}, seed {run.seed}: {run.error}" for run in findings.comparison.failed]
    text = "The command tries these again when it is repeated."
    return Section("Failed runs", "", [Group("Failed runs", text=lines)] * bool(lines), text)


SECTIONS: list[Callable[[Findings], Section]] = [scores, achieved, learning, cost, tuning, overall, failed, remarks]
"""The sections, in order; a module named by --plugins may add its own."""

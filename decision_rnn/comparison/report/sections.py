"""The sections of a report: each is a function from the findings to a section, listed in `SECTIONS`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from decision_rnn.comparison.report.charts import Curves, dots, numbers, plots
from decision_rnn.comparison.report.parts import Cell, Chart, Columns, Findings, Group, Section, Table
from decision_rnn.comparison.report.svg import Plot
from decision_rnn.comparison.report.words import (
    capitalised,
    describe_difference,
    describe_targets,
    listed,
)
from decision_rnn.comparison.summary import (
    COLUMNS,
    TargetSummary,
    VariantSummary,
    compared_targets,
    shown_targets,
)
from decision_rnn.comparison.verdicts import Overall, differences, held_out_differences, reference
from decision_rnn.evaluation.aggregate import (
    AGGREGATE,
    AGGREGATE_NOTE,
    IMPROVEMENT,
    IMPROVEMENT_NOTE,
    PROFILE_NOTE,
    performance_profile,
)
from decision_rnn.evaluation.report import format_deviation, format_number, format_return, format_scores
from decision_rnn.evaluation.statistics import (
    DEVIATION_NOTE,
    DIFFERENCE_NOTE,
    FEWEST_FOR_INTERVAL,
    INTERVAL_NOTE,
    probability_of_improvement,
    summarise_seeds,
)
from decision_rnn.utils.messages import counted
from decision_rnn.utils.parsing import AUTO

if TYPE_CHECKING:
    from decision_rnn.comparison.record import ComparedDataset, Role

CHART_POINTS = 200
"""The largest number of points of a loss curve in its chart."""
THRESHOLDS = 61
"""Number of scores at which a performance profile is drawn."""
TITLES: dict[Role | None, str] = {
    "paper": "at the first target of each task",
    "best": "at the best return of each dataset",
    None: "without a target",
}
"""The targets at which scores are aggregated over datasets, by role."""
MEASURES = {"loss": "held-out loss", "squared_error": "held-out squared error"}
"""What is compared on held-out episodes, in words."""
NOTHING_SHARED = "There is no number over the datasets: fewer than two have a score of every variant."
"""Shown for comparisons on several datasets without any aggregate."""
COSTS: dict[str, tuple[str, str, str, Callable[[Sequence[float]], float]]] = {
    "Parameters": ("parameters", "parameters", "{:,.0f}", max),
    "Training": ("training_seconds", "seconds of training", "{:,.0f} s", statistics.median),
    "One action": ("action_microseconds", "µs for one action", "{:,.0f} µs", min),
    "State": ("state_bytes", "bytes of state per environment", "{:,.0f} B", max),
}
"""By name: the attribute of a trial, its unit and format, and what is reported of those of several seeds."""

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
                for targets in shown
            }

        shown = shown_targets(found)
        last = by_target(_score_cell)
        for column in last.values():
            column["(the data's mean)"] = f"{dataset.data.score_mean:.1f}"
        last["target error, % of the data's range"] = {
            summary.variant: format_scores(of, "%") for summary in found if (of := summary.target_error)
        }
        tested = any(len(summary.trials) >= FEWEST_FOR_INTERVAL for summary in found)
        compared: Columns = {
            describe_targets(targets): {
                label: describe_difference(of) for label, of in differences(found, targets[0]).items()
            }
            for targets in (compared_targets(found) if tested else ())
        }
        deviations = by_target(lambda of: format_deviation(of.deviation) if of.scores.spread == "95% interval" else "")
        tables = [
            findings.table("score of the last checkpoint", last),
            findings.table("score of each task", _task_columns(found)),
            findings.table("standard deviation over seeds", deviations),
            *(findings.table(name, by_target(partial(_metric_cell, name))) for name in findings.comparison.metrics),
            findings.table(f"difference from {reference(found)}", compared),
            _every_target(dataset, found),
        ]
        charts = []
        for targets in [targets for targets in shown if targets[0].target_return is not None] or shown:
            results = {summary.variant: summary.of_target(targets[0]) for summary in found}
            rows = {label: of.scores for label, of in results.items()}
            seeds = {label: of.per_seed for label, of in results.items()}
            title, mean = f"Scores, {describe_targets(targets)}", (dataset.data.score_mean, "mean of the data")
            aims = [float(dataset.data.normalised(of.target_return or 0.0)) for of in targets if of.in_range]
            charts.append(dots(findings, title, "normalised score", rows, mean, seeds, aims))
        return Group(dataset.data.name, tables=tables, charts=charts)

    spreads = {of.scores.spread for summary in findings.summaries for of in summary.targets}
    kinds = {
        "95% interval": "mean over seeds, with a 95% interval",
        "range": "mean over seeds, and in brackets the score of every seed, whose range is no confidence interval",
        None: "of one seed, which may be far from the mean over seeds",
    }
    scales = {dataset.data.scale for dataset in findings.comparison.datasets}
    scale = ", or, by dataset, ".join(sorted(scales, reverse=True))
    text = f"Score: {scale}; {'; or '.join(kinds[of] for of in kinds if of in spreads)}."
    intervals = f"Scores: {INTERVAL_NOTE}. Over seeds: {DEVIATION_NOTE}. Differences: {DIFFERENCE_NOTE}. "
    legend = (
        "Targets beyond the data measure extrapolation. Target error: the mean distance of the median return from "
        "targets spread through the data's range, in % of that range; an agent that always returns the middle of the "
        f"range has about 20. {intervals * ('95% interval' in spreads)}"
        "In the charts a large mark is the score, with its interval (a line with ends) or the range of its seeds (a "
        "plain line); small dots below it are the seeds. Hollow marks and dashed lines are controls."
    )
    return Section("Scores", text, findings.groups(group), legend, foldable=False)


def _task_columns(found: Summaries) -> Columns:
    """The scores of the environment's tasks, at each variant's first target; none where it has one."""
    per_seed = {of.variant: [result.task_scores for result in of.targets[0].results] for of in found if of.targets}
    tasks = min((len(scores) for seeds in per_seed.values() for scores in seeds), default=0)
    return {
        f"task {task + 1}": {
            variant: _seeds_cell([scores[task] for scores in seeds], "{:.0f}".format)
            for variant, seeds in per_seed.items()
        }
        for task in range(tasks)
    }


def _score_cell(of: TargetSummary) -> Cell:
    return _seeds_cell(of.per_seed, "{:.1f}".format)


def _seeds_cell(per_seed: Sequence[float], number: Callable[[float], str]) -> Cell:
    """A mean with its interval, and the value of every seed: in small print, or in brackets without an interval."""
    of, seeds = summarise_seeds(per_seed), ", ".join(map(number, per_seed))
    if of.spread == "range":
        return Cell(f"{number(of.score)} ({seeds})")
    return Cell(format_scores(of, number=number), f"seeds: {seeds}" * (of.spread is not None))


def _metric_cell(name: str, of: TargetSummary) -> str:
    return format_scores(of.metrics[name], number=format_number) if name in of.metrics else ""


def _every_target(dataset: ComparedDataset, found: Summaries) -> Table:
    head = ["variant", "target", "score", "sd over seeds (of the agents)", "return, mean ± sd", "median", "10% to 90%"]
    metrics = list(dict.fromkeys(name for summary in found for of in summary.targets for name in of.metrics))
    rows = []
    for summary in found:
        for of in summary.targets:
            means = float(np.mean([result.return_mean for result in of.results]))
            deviation = float(np.sqrt(np.mean([result.return_sd**2 for result in of.results])))  # of a seed's episodes
            mean, sd, low, middle, high = (
                format_return(value, dataset.data) for value in (means, deviation, *of.return_quantiles)
            )
            row: list[Cell | str] = [summary.variant, describe_targets([of.target]), _score_cell(of)]
            row += [format_deviation(of.deviation), f"{mean} ± {sd}", middle, f"{low} to {high}"]
            row += [_metric_cell(name, of) for name in metrics]
            rows.append([*row, *(format_number(column(of)) for column in COLUMNS.values())])
    return Table("every target", [*head, *metrics, *COLUMNS], rows, behind_chart=True)


def held_out(findings: Findings) -> Section:
    """The loss on held-out episodes, and the differences between variants, where nothing is played."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        if dataset.held_out is None:
            return Group(dataset.data.name)
        tested = any(len(summary.trials) >= FEWEST_FOR_INTERVAL for summary in found)
        than = held_out_differences(found) if tested else {}
        columns: Columns = {
            MEASURES[dataset.held_out.measure]: {
                of.variant: _seeds_cell(of.held_out_losses, format_number) for of in found
            },
            f"difference from {reference(found)}": {
                label: describe_difference(of, "{:+.3g}".format) for label, of in than.items()
            },
        }
        return Group(dataset.data.name, tables=[findings.table(f"on {dataset.held_out.dataset}", columns)])

    text = (
        "Held-out loss: of the last checkpoint, over the same segments for all variants; lower is better. It does not "
        "tell how well an agent acts: an agent may lower it by copying its previous action, and act worse."
    )
    tested = any(len(summary.trials) >= FEWEST_FOR_INTERVAL for summary in findings.summaries)
    legend = f"Losses: {INTERVAL_NOTE}. Differences: {DIFFERENCE_NOTE}." * tested
    return Section("Loss on held-out episodes", text, findings.groups(group), legend, foldable=False)


def achieved(findings: Findings) -> Section:
    """The returns that agents achieve over their target returns."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        def guide(plot: Plot) -> None:
            ends = [max(plot.x.low, plot.y.low), min(plot.x.high, plot.y.high)]
            if ends[0] < ends[1]:
                plot.line(ends, ends, "reference")
            if plot.x.low < dataset.data.return_max < plot.x.high:
                plot.vertical(dataset.data.return_max, "best in the data", dotted=True)

        curves = {}
        for summary in found:
            numbered = sorted((target, of) for target, of in summary.asked.items() if target != AUTO)
            if not numbered:
                continue
            asked, results = zip(*numbered, strict=True)
            low, middle, high = np.array([of.return_quantiles for of in results]).T
            medians = np.median([[result.returns for result in of.results] for of in results], axis=-1).T
            seeds = {f"seed {trial.seed}": of for trial, of in zip(summary.trials, medians, strict=True)}
            curves[summary.variant] = Curves(np.array(asked), {"median": middle, **seeds}, (low, high))
        number, axes = (lambda value: format_return(value, dataset.data)), ("target return", "achieved return")
        return Group(
            dataset.data.name,
            tables=[numbers("achieved return", "target", curves, number)],
            charts=plots(findings, "achieved over target return", axes, curves, number, panels=True, guide=guide),
        )

    legend = (
        "The return that an agent achieves for each target: a thick line with marks is the median of all seeds' "
        "episodes, with a band from the 10th to the 90th percentile; thin lines are those of its seeds, grey lines the "
        "other variants. On the dashed diagonal the agent achieves its target; right of the dotted line the target "
        "is higher than any return in the data. Thin lines close together point to the method, thin lines far apart to "
        "luck in training."
    )
    return Section("Target and achieved return", "", findings.groups(group), legend)


def learning(findings: Findings) -> Section:
    """The loss, and the scores of the checkpoints."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        losses = {summary.variant: _mean_loss(summary) for summary in found if any(of.loss for of in summary.trials)}
        curves, ends = {}, dict[str, dict[str, Cell | str]]()
        for summary in (summary for summary in found if summary.curves):
            first, *_ = scores = {describe_targets([target]): of for target, of in summary.curves.items()}
            seeds = {f"seed {trial.seed}": of for trial, of in zip(summary.trials, scores[first], strict=True)}
            means = {target: of.mean(axis=0) for target, of in scores.items()}
            curves[summary.variant] = Curves(np.array(summary.steps), means | seeds)
            for target, of in scores.items():
                for which, per_seed in (("last", of[:, -1]), ("best", of.max(axis=1))):
                    column = ends.setdefault(f"{which}, {target}", {})
                    column[summary.variant] = format_scores(summarise_seeds(per_seed))
        tables = [
            findings.table("score by checkpoint", ends),
            numbers("score of each checkpoint", "step", curves, "{:.1f}".format),
            numbers("loss", "step", losses, "{:.4g}".format),
        ]
        charts = plots(findings, "Loss", ("training steps", "loss"), losses, "{:.4g}".format, log="y")
        axes = ("training steps", "normalised score")
        charts += plots(findings, "score over steps", axes, curves, "{:.1f}".format, panels=True)
        return Group(dataset.data.name, tables=tables, charts=charts)

    text = f"Checkpoints: {counted(findings.comparison.checkpoint_episodes, 'episode')} each."
    legend = (
        "The best checkpoint is chosen and measured by the same episodes, so its score is biased upwards. A thick line "
        "with marks is the mean score over seeds for the first target, thin lines are its seeds, dotted "
        "lines are the means for other targets, grey lines are the other variants. A curve that still rises says that "
        "longer training may change the order. "
    )
    checkpoints = any(summary.curves for summary in findings.summaries)
    losses = "Losses of different objectives cannot be compared."
    return Section("Learning curves", text * checkpoints, findings.groups(group), legend * checkpoints + losses)


def _mean_loss(summary: VariantSummary) -> Curves:
    """The loss over steps, mean over the seeds that logged it; if there are many points, neighbours are averaged."""
    by_step: dict[int, list[float]] = {}
    for step, loss in chain.from_iterable(trial.loss for trial in summary.trials):
        by_step.setdefault(step, []).append(loss)
    points = np.array([(step, np.mean(losses)) for step, losses in sorted(by_step.items())])
    parts = np.array_split(points, min(len(points), CHART_POINTS))
    return Curves(np.array([of[-1, 0] for of in parts]), {"loss": np.array([of[:, 1].mean() for of in parts])})


def cost(findings: Findings) -> Section:
    """Parameters, training time, time of an action and size of the state, and the score over each."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        first = next((targets[0] for targets in shown_targets(found)), None)  # None where nothing is played
        columns: Columns = {}
        charts: list[Chart] = []
        for kind, (name, unit, form, over_seeds) in COSTS.items():
            every = {of: [cost for trial in of.trials if (cost := getattr(trial, name)) is not None] for of in found}
            known = {of: over_seeds(costs) for of, costs in every.items() if costs}
            columns[kind.lower()] = {of.variant: form.format(value) for of, value in known.items()}
            if first is None:
                continue
            points = {
                of.variant: Curves(np.array([value]), {"score": np.array([of.of_target(first).scores.score])})
                for of, value in known.items()
                if value > 0
            }
            charts += plots(findings, kind, (unit, "normalised score"), points, "{:.1f}".format, log="x")
        return Group(dataset.data.name, tables=[findings.table("cost", columns)], charts=charts)

    trials = findings.comparison.trials
    jobs = " or ".join(sorted({str(trial.jobs) for trial in trials if trial.jobs is not None}))
    partly = " where that is known" * any(trial.jobs is None for trial in trials)
    text = f"Training: with {jobs} runs at a time{partly}." * (jobs not in ("", "1"))
    groups = findings.groups(group)
    drawn = any(group.charts for group in groups)
    legend = (
        "Training: median wall time of a run; one action: median at batch 1 on one thread, of the fastest seed, since "
        "other work on the machine can only slow it down; state: memory per environment. "
    )
    charts = (
        "The charts show the score at the first target: further left is cheaper, further up is better. A variant whose "
        "cost is 0 has no place on a logarithmic axis."
    )
    return Section("Score against cost" if drawn else "Cost", text, groups, legend + charts * drawn)


def overall(findings: Findings) -> Section:
    """The variants over all datasets that they share, after Agarwal et al., "Deep RL at the Edge of the Statistical
    Precipice" (2021): interquartile means, probabilities of improvement and performance profiles."""
    found, title = findings.overall, "Over all datasets"
    if not found:
        reason = [Group(title, text=[NOTHING_SHARED])] * (len(findings.comparison.datasets) > 1)
        return Section(title, "", reason, foldable=False)
    means = any(of.spread for overall in found for of in overall.aggregates.values())
    improvements = any(of.spread for overall in found for of in overall.improvements.values())
    legend = [
        f"Interquartile mean: {AGGREGATE_NOTE if means else AGGREGATE}. Improvement: "
        f"{IMPROVEMENT_NOTE if improvements else IMPROVEMENT}; at 0.5 the two are even. No interval is given for few "
        "seeds or datasets."
    ]
    if found[0].role is not None and not all(summary.asked for summary in findings.summaries):
        legend.append("Behaviour cloning has no target and appears with its one score at all of them.")
    legend.append(f"A profile is the {PROFILE_NOTE}; the other variants are grey behind it.")
    groups = [_over_datasets(findings, of) for of in found]
    return Section(title, "", groups, " ".join(legend), foldable=False)


def _over_datasets(findings: Findings, overall: Overall) -> Group:
    every = {of.data.name: of.data.score_mean for of in findings.comparison.datasets}
    left_out = [name for name in every if name not in overall.datasets]
    without = [label for label in findings.names if label not in overall.scores]
    text = [f"Left out, because not every variant has a result there: {', '.join(left_out)}."] * bool(left_out)
    text += [f"Left out, because they have no result on any dataset: {', '.join(without)}."] * bool(without)
    columns: Columns = {
        "score": {label: format_scores(of) for label, of in overall.aggregates.items()},
        "runs": {label: f"{sum(map(len, of.values()))}" for label, of in overall.scores.items()},
    }
    tables = [findings.table("interquartile mean of all runs", columns)]
    mean = float(np.mean([every[name] for name in overall.datasets])), "mean of the data"
    charts = [dots(findings, "Interquartile mean", "normalised score", overall.aggregates, mean)]
    if overall.improvements:
        title, others = f"improvement on {overall.reference}", overall.scores[overall.reference]
        columns = {
            "probability": {
                label: format_scores(of, number="{:.2f}".format) for label, of in overall.improvements.items()
            }
        }
        for name in overall.datasets:
            columns[name] = {
                label: f"{probability_of_improvement(overall.scores[label][name], others[name]):.2f}"
                for label in overall.improvements
            }
        tables.append(findings.table(title, columns))
        charts.append(dots(findings, f"Probability of {title}", "probability", overall.improvements, (0.5, "even")))
    scores = np.concatenate([of for by_dataset in overall.scores.values() for of in by_dataset.values()])
    thresholds = np.linspace(min(0.0, scores.min()), scores.max() * 1.02, THRESHOLDS)
    profiles = {}
    for label, by_dataset in overall.scores.items():
        of = performance_profile(by_dataset, thresholds)
        profiles[label] = Curves(thresholds, {"fraction": of.fractions}, (of.low.clip(0), of.high.clip(max=1)))
    axes, title = ("normalised score", "fraction of runs"), "fraction of runs above a score"
    tables.append(numbers(title, "score", profiles, "{:.2f}".format))
    charts += plots(findings, title, axes, profiles, "{:.2f}".format, panels=True)
    datasets = f"{len(overall.datasets)} of {len(every)} datasets" if left_out else f"All {len(every)} datasets"
    return Group(f"{datasets}, {TITLES[overall.role]}", text, tables, charts)


def failed(findings: Findings) -> Section:
    """The runs that failed."""
    lines = [f"{run.variant} on {run.dataset}, seed {run.seed}: {run.error}" for run in findings.comparison.failed]
    legend = "Their folders hold run.log. The command, when it is repeated, trains them: mend the cause first."
    return Section("Failed runs", "", [Group("Failed runs", text=lines)] * bool(lines), legend)


def remarks(findings: Findings) -> Section:
    """What a reader has to know before trusting the scores, with the variants concerned."""

    def group(dataset: ComparedDataset, found: Summaries) -> Group:
        concerned: dict[str, list[str]] = {}
        for summary in found:
            for remark in dict.fromkeys(chain.from_iterable(trial.remarks for trial in summary.trials)):
                concerned.setdefault(remark, []).append(summary.variant)
        comparable = dataset.held_out is None and dataset.data.comparable  # which scores may be compared
        lines = [f"Comparability: {comparable}"] * bool(comparable) + [*dataset.data.notes]
        for remark, labels in concerned.items():
            lines.append(f"{listed(labels)}: {remark}" if len(labels) < len(found) else capitalised(remark))
        return Group(dataset.data.name, text=[f"{line}." for line in lines])

    legend = "What to know before believing the scores."
    return Section("Remarks", "", findings.groups(group), legend, foldable=False)


SECTIONS: list[Callable[[Findings], Section]] = [
    scores,
    held_out,
    achieved,
    learning,
    cost,
    overall,
    failed,
    remarks,
]
"""The sections, in order; a module named by --plugins may add its own."""

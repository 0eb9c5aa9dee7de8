"""A comparison as Markdown: for every dataset the variants' scores, those of the best checkpoint, and the cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from decision_rnn.comparison.summary import BUDGETS, LearningCurve, TargetSummary, VariantSummary, remarks_of, summarise
from decision_rnn.comparison.verdicts import ASKED, NOTHING_SHARED, Overall, differences, over_datasets
from decision_rnn.evaluation.actor import describe_state
from decision_rnn.evaluation.aggregate import (
    AGGREGATE,
    AGGREGATE_NOTE,
    IMPROVEMENT,
    IMPROVEMENT_NOTE,
    Improvement,
)
from decision_rnn.evaluation.report import describe_range, format_deviation, format_scores
from decision_rnn.evaluation.statistics import (
    DEVIATION_NOTE,
    DIFFERENCE_NOTE,
    FEWEST_FOR_INTERVAL,
    INTERVAL_NOTE,
    SeedDifference,
)
from decision_rnn.machine import describe_hardware, describe_versions

if TYPE_CHECKING:
    from decision_rnn.comparison.record import ComparedDataset, Comparison, Role, Target

OBEDIENCE = "obedience error"
DEVIATION = "standard deviation over seeds"
HEADS: dict[Role, str] = {"paper": "at the first target", "best": "at the data's best", "bc": "no target"}


def format_comparison(comparison: Comparison) -> str:
    """The tables of a comparison, followed by an explanation of their numbers."""
    summaries, parts = summarise(comparison), []
    for dataset in comparison.datasets:
        of_dataset = [summary for summary in summaries if summary.dataset == dataset.data.name]
        if of_dataset:
            parts += _of_dataset(comparison, dataset, of_dataset)
    parts += _over_datasets(comparison, summaries)
    parts.append(" ".join(_notes(comparison, summaries)))
    failed = [f"{run.variant} on {run.dataset}, seed {run.seed}, failed: {run.error}" for run in comparison.failed]
    if failed:
        parts.append("\n".join(f"- {line}" for line in failed))
    parts.append(_made(comparison))
    return "\n\n".join(parts)


def _of_dataset(comparison: Comparison, dataset: ComparedDataset, summaries: Sequence[VariantSummary]) -> list[str]:
    data = dataset.data
    names = {label: f"{label} ({traits})" if traits else label for label, traits in comparison.traits().items()}
    asked = [t for t in dataset.targets if {"paper", "best"} & set(t.roles)]
    heads = [
        f"target {t.target_return:.5g}, " + (describe_range(t.in_range, "best" in t.roles) or "paper's") for t in asked
    ]
    scores = [["score of the last checkpoint", *heads, "cloning", OBEDIENCE]]
    for summary in summaries:
        found = {t.target.target_return: t for t in summary.targets}
        cloning = summary.of_role("bc")
        scores.append(
            [
                names[summary.variant],
                *(_score(found.get(t.target_return)) for t in asked),
                _score(cloning),
                "" if summary.obedience is None else format_scores(summary.obedience, "%"),
            ]
        )
    scores = _without_empty(scores)
    scores.append(["(the data's mean)", *(f"{data.score_mean:.1f}" * (head != OBEDIENCE) for head in scores[0][1:])])
    parts = [f"## {data.name}", format_rows(scores)]
    if len(deviations := _deviations(names, summaries, asked, heads)) > 1:
        parts.append(format_rows(deviations))
    if any(summary.curves for summary in summaries):
        parts.append(format_rows(_checkpoints(names, summaries)))
    if any(summary.tuning for summary in summaries):
        parts.append(format_rows(_tuning(names, summaries)))
    if len(summaries) > 1 and min(len(summary.seeds) for summary in summaries) >= FEWEST_FOR_INTERVAL:
        parts.append(format_rows(_differences(names, summaries)))
    cost = [["cost", "parameters", "training", "one action", "state"]]
    cost += [
        [
            names[s.variant],
            f"{s.parameters:,}",
            f"{s.training_seconds:.0f} s",
            f"{s.action_microseconds:.0f} µs",
            f"{s.state_bytes:,} B",
        ]
        for s in summaries
    ]
    parts.append(format_rows(cost))
    lines = [f"Comparability: {data.comparable}"] * bool(data.comparable) + list(data.notes)
    lines += [f"{', '.join(of)}: {remark}" if of else remark for remark, of in remarks_of(summaries).items()]
    return [*parts, "\n".join(f"- {line}" for line in lines)] if lines else parts


def _deviations(
    names: dict[str, str], summaries: Sequence[VariantSummary], asked: Sequence[Target], heads: Sequence[str]
) -> list[list[str]]:
    """Standard deviation over the seeds of each variant with enough seeds for an interval."""
    rows = [[DEVIATION, *heads, "cloning"]]
    for summary in summaries:
        if len(summary.seeds) >= FEWEST_FOR_INTERVAL:
            found = {t.target.target_return: t for t in summary.targets}
            of = [*(found.get(t.target_return) for t in asked), summary.of_role("bc")]
            rows.append([names[summary.variant], *(format_deviation(None if t is None else t.deviation) for t in of)])
    return _without_empty(rows) if len(rows) > 1 else rows


def _checkpoints(names: dict[str, str], summaries: Sequence[VariantSummary]) -> list[list[str]]:
    """Scores of the last and the best checkpoint over the same episodes."""
    asked = list(dict.fromkeys(curve.target.target_return for s in summaries for curve in s.curves))
    head = ["score by checkpoint"]
    for target in asked:
        text = "cloning" if target is None else f"target {target:.5g}"
        head += [f"last, {text}", f"best, {text}"]
    rows = [head]
    for summary in summaries:
        curves: dict[float | None, LearningCurve] = {curve.target.target_return: curve for curve in summary.curves}
        row = [names[summary.variant]]
        for target in asked:
            curve = curves.get(target)
            row += ["", ""] if curve is None else [format_scores(curve.last), format_scores(curve.best)]
        rows.append(row)
    return rows


def _tuning(names: dict[str, str], summaries: Sequence[VariantSummary]) -> list[list[str]]:
    """The score of a target chosen online."""
    rows = [["score of a target chosen by", *(f"{spent} episode{'s' * (spent > 1)}" for spent in BUDGETS)]]
    for summary in summaries:
        if summary.tuning is not None:
            rows.append([names[summary.variant], *(f"{score:.1f}" for score in summary.tuning.score)])
    return rows


def _differences(names: dict[str, str], summaries: Sequence[VariantSummary]) -> list[list[str]]:
    """The variants' differences from the first one, with verdicts, for each role of targets that the dataset has."""
    roles: list[Role] = [role for role in ASKED if any(summary.of_role(role) for summary in summaries)] or ["bc"]
    found = [differences(summaries, role).differences for role in roles]
    rows = [[f"difference from {summaries[0].variant}", *(HEADS[role] for role in roles)]]
    for label in found[0]:
        rows.append([names[label], *(describe_difference(of[label]) for of in found)])
    return rows


def describe_difference(difference: SeedDifference) -> str:
    """The difference of the means with its interval and verdict, where there are enough seeds for them."""
    if difference.low is None or difference.high is None:
        return f"{difference.difference:+.1f}"
    return f"{difference.difference:+.1f} [{difference.low:+.1f}, {difference.high:+.1f}], {difference.verdict}"


def _over_datasets(comparison: Comparison, summaries: Sequence[VariantSummary]) -> list[str]:
    """The variants over several datasets."""
    found = over_datasets(comparison, summaries)
    if not found:
        return [NOTHING_SHARED] * (len(comparison.datasets) > 1)
    asked = found[0]
    first, *others = asked.scores
    improvements = {label: asked.improvement(label, first) for label in others}
    rows = [["interquartile mean of all runs", *(HEADS[of.role] for of in found), f"better than {first}"]]
    for label in dict.fromkeys(label for of in found for label in of.aggregates):
        row = [label]
        for of in found:
            aggregate = of.aggregates.get(label)
            row.append("" if aggregate is None else _interval(aggregate.score, aggregate.low, aggregate.high))
        improvement = improvements.get(label)
        row.append(
            "" if improvement is None else _interval(improvement.probability, improvement.low, improvement.high, 2)
        )
        rows.append(row)
    kept, every = len(asked.datasets), len(comparison.datasets)
    title = f"## All {every} datasets" if kept == every else f"## {kept} of {every} datasets"
    cloned = any(summary.of_role("bc") is not None for summary in summaries)
    return [
        title,
        format_rows(_without_empty(rows)),
        " ".join(_notes_over_datasets(found, first, improvements, cloned)),
    ]


def _notes_over_datasets(
    found: Sequence[Overall], first: str, improvements: Mapping[str, Improvement], cloned: bool
) -> Iterator[str]:
    """Explains the numbers over datasets, in sentences, with the coverage of intervals if there are any."""
    given = [aggregate.low is not None for of in found for aggregate in of.aggregates.values()]
    yield f"Over datasets: {AGGREGATE_NOTE if any(given) else AGGREGATE}."
    if improvements:
        known = any(improvement.low is not None for improvement in improvements.values())
        yield f"Better than {first}: {HEADS[found[0].role]}, {IMPROVEMENT_NOTE if known else IMPROVEMENT}."
    if not all(given):
        yield "No interval is given for few seeds or datasets."
    if cloned and found[0].role != "bc":
        yield "Cloning has no target and appears with its one score in all columns."
    same = len({of.omissions for of in found}) == 1
    for of in found[:1] if same else found:
        if of.omissions:
            yield of.omissions if same else f"{HEADS[of.role].capitalize()}: {of.omissions}"


def _interval(value: float, low: float | None, high: float | None, digits: int = 1) -> str:
    text = f"{value:.{digits}f}"
    return text if low is None or high is None else f"{text} [{low:.{digits}f}, {high:.{digits}f}]"


def _score(summary: TargetSummary | None) -> str:
    """A table cell; with few seeds it shows the score of every seed."""
    if summary is None:
        return ""
    if summary.scores.spread == "range":
        return f"{summary.scores.score:.1f} ({', '.join(f'{score:.1f}' for score in summary.per_seed)})"
    return format_scores(summary.scores)


def format_rows(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of these rows, the first of which is its head."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body])


def _without_empty(rows: list[list[str]]) -> list[list[str]]:
    """Rows without empty columns."""
    kept = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    return [[row[i] for i in kept] for row in rows]


def _notes(comparison: Comparison, summaries: Sequence[VariantSummary]) -> list[str]:
    """Explains the numbers, in sentences."""
    state = describe_state(comparison.window) + ", unless a label says otherwise" * bool(comparison.own_windows())
    steps = {v.label: f"{v.config['training']['steps']:,}" for v in comparison.variants}
    sentences = [
        f"Last checkpoint after {_by_label(steps)} steps; seeds {', '.join(map(str, comparison.seeds))}; "
        f"{comparison.episodes} episodes per target, {state}.",
    ]
    kinds = {(t.scores.score_is, t.scores.spread) for summary in summaries for t in summary.targets}
    scores = []
    if ("score", None) in kinds:
        scores.append("of one seed")
    if ("mean", "range") in kinds:
        scores.append("mean over seeds, and in brackets every seed's or their range, which is no confidence interval")
    if ("mean", "95% interval") in kinds:
        scores.append(INTERVAL_NOTE)
    if scores:
        sentences.append(f"Score: 0 is a random policy, 100 an expert; {'; or '.join(scores)}.")
    if any(t.in_range is False for dataset in comparison.datasets for t in dataset.targets):
        sentences.append("Targets beyond the data measure extrapolation.")
    if any(summary.obedience is not None for summary in summaries):
        sentences.append(
            "Obedience error: the mean distance of the median return from targets spread through the data's range, in "
            "% of that range; an agent that always returns the middle of the range has about 20."
        )
    if any(summary.curves for summary in summaries):
        sentences.append(
            f"Checkpoints: {comparison.checkpoint_episodes} episodes each; the best one is chosen and measured by the "
            "same episodes, so its score is biased upwards."
        )
    if any(len(summary.seeds) >= FEWEST_FOR_INTERVAL for summary in summaries):
        sentences.append(f"Over seeds: {DEVIATION_NOTE}. Differences: {DIFFERENCE_NOTE}.")
    if any(summary.tuning for summary in summaries):
        sentences.append(
            "A target chosen by playing: a bandit spends that many episodes on these targets, and its choice is "
            "scored on other episodes."
        )
    sentences.append(
        f"Training: median wall time of a run{comparison.describe_jobs()}; one action: median at batch 1 on one "
        "thread, of the fastest seed; state: memory per environment."
    )
    return sentences


def _made(comparison: Comparison) -> str:
    """The command, commits, machines and versions behind the numbers."""
    commits = dict.fromkeys(cell.commit or "unknown, from an installed package" for cell in comparison.trials)
    machines = dict.fromkeys(
        f"{describe_hardware(cell.hardware)}; {describe_versions(cell.versions)}" for cell in comparison.trials
    )
    made = f"Made by `{comparison.command}`"
    return "; ".join([f"{made} at commit {', '.join(commits)}" if commits else made, *machines]) + "."


def _by_label(values: dict[str, str]) -> str:
    """The value if all labels share it; otherwise every value with its labels."""
    labels: dict[str, list[str]] = {}
    for label, value in values.items():
        labels.setdefault(value, []).append(label)
    return ", ".join(labels) if len(labels) == 1 else "; ".join(f"{v} ({', '.join(of)})" for v, of in labels.items())

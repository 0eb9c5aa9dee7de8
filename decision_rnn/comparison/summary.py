"""Summaries of a comparison: what variants are compared by, and which differ significantly from the reference.

The reference is the first variant. On one dataset the others are compared with it by Welch's test, over several by the
mean of the differences on each and by the probability of improvement (Agarwal et al., 2021); p-values are adjusted by
Holm's method over the variants. Variants with a failed run are not tested: a mean over the runs that finished is no
estimate of the variant's score.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from decision_rnn.comparison.record import ComparedDataset, HeldOut, Record, Target
from decision_rnn.evaluation import statistics
from decision_rnn.evaluation.results import TargetResult
from decision_rnn.evaluation.statistics import FEWEST_FOR_INTERVAL, LEVEL, Estimate, summarise_seeds
from decision_rnn.utils.parsing import format_target

NO_TARGET = Target(target_return=None, roles=("bc",), in_range=None)


@dataclass(frozen=True)
class ComparedScore:
    """What variants are compared by on one dataset: the score at one target, or the one on held-out episodes, whose
    `target` is None. The dictionaries are by label of the variant.

    Attributes:
        digits: The format of a value.
        failed: The number of failed runs.
        values: The value of every finished seed.
        means: Their means, and the values of references without a network.
        differences: Those from the reference, without p-value where nothing is tested.
        results: The evaluations behind the values.
    """

    title: str
    target: Target | None
    digits: str
    failed: Counter[str]
    values: dict[str, list[float]]
    means: dict[str, Estimate]
    differences: dict[str, Estimate]
    results: dict[str, list[TargetResult]] = field(default_factory=dict)


def compared_scores(record: Record, dataset: ComparedDataset) -> list[ComparedScore]:
    """What the variants are compared by on a dataset; the first one is the main one.

    A score at a target inside the data's range should be near the target's, not as high as possible. Behaviour cloning,
    which has no target, stands beside the others at the targets where higher is better.
    """
    held_out = [] if dataset.held_out is None else [_measure_held_out(record, dataset.data.name, dataset.held_out)]
    if not dataset.targets:
        return held_out
    runs = [run for trials in record.runs(dataset.data.name).values() for run in trials]
    targets = dataset.targets if any(run.targets[0].target_return is not None for run in runs) else (NO_TARGET,)
    first = next((target for target in targets if "paper" in target.roles and not target.in_range), NO_TARGET)
    higher_is_better = [target for target in targets if target in (first, NO_TARGET) or "best" in target.roles]
    inside = [target for target in targets if target not in higher_is_better]
    by_target = [_measure_scores(record, dataset, target, {target.target_return, None}) for target in higher_is_better]
    return by_target + [_measure_scores(record, dataset, each, {each.target_return}) for each in inside] + held_out


def _measure_scores(
    record: Record, dataset: ComparedDataset, target: Target, returns: set[float | None]
) -> ComparedScore:
    """The scores at one target, of the results with these target returns."""
    name, reference = dataset.data.name, record.variants[0].label
    failed, results = record.failures(name), dict[str, list[TargetResult]]()
    for label, trials in record.runs(name).items():
        if chosen := [result for run in trials for result in run.targets if result.target_return in returns]:
            results[label] = chosen
    values = {label: [result.score_mean for result in each] for label, each in results.items()}
    episodes = {
        label: statistics.success_episodes([dataset.data.normalised(np.array(result.returns)) for result in each])
        for label, each in results.items()
    }
    means = {
        label: summarise_seeds(values.get(label, ()), episodes.get(label), complete=not failed[label])
        for label in (*values, *failed)
    }
    compared = {
        label: statistics.compare_seeds(values[label], values[reference], (episodes[label], episodes[reference]))
        for label in _others(record, values)
    }
    differences = _tested(record, compared, failed, record.margin)
    return ComparedScore(describe_target(target), target, ".1f", failed, values, means, differences, results)


def _measure_held_out(record: Record, dataset: str, held_out: HeldOut) -> ComparedScore:
    """The scores on held-out episodes, with those of the references."""
    failed, steps, reference = record.failures(dataset), held_out.steps, record.variants[0].label
    errors = {label: np.array([run.held_out for run in runs]) for label, runs in record.runs(dataset).items()}
    values = {label: (1 - np.average(rows, 1, steps)).tolist() for label, rows in errors.items()}
    means = {label: summarise_seeds(values.get(label, ()), complete=False) for label in (*values, *failed)}
    for label, rows in errors.items():
        estimate = statistics.estimate_score(rows, steps)
        if estimate.spread and len(rows) >= FEWEST_FOR_INTERVAL and not failed[label]:
            means[label] = estimate
    means |= {name: statistics.estimate_score(np.array([row]), steps) for name, row in held_out.references.items()}
    compared = {
        label: statistics.compare_errors(errors[label], errors[reference], steps) for label in _others(record, errors)
    }
    differences = _tested(record, compared, failed)
    return ComparedScore(f"held-out {held_out.measure}", None, ".3f", failed, values, means, differences)


def _others(record: Record, labels: Iterable[str]) -> list[str]:
    """The labels besides the reference's; none if that is not among them."""
    reference, others = record.variants[0].label, [*labels]
    return [label for label in others if label != reference] if reference in others else []


def _tested(
    record: Record, differences: Mapping[str, Estimate], failed: Counter[str], margin: float | None = None
) -> dict[str, Estimate]:
    """Differences from the reference with adjusted p-values; without interval and test where runs failed."""
    reference = record.variants[0].label
    known = {
        label: Estimate(each.value) if failed[label] or failed[reference] else each
        for label, each in differences.items()
    }
    return statistics.adjust_p_values(known, margin)


def describe_target(target: Target) -> str:
    """A target and where it is relative to the data: `target 3600, beyond the data`."""
    if target.target_return is None:
        return "score"
    where = {None: "", True: ", inside the data", False: ", beyond the data"}[target.in_range]
    if "best" in target.roles and target.in_range:
        where = ", best in the data"
    return f"target {format_target(target.target_return)}{where}"


class Overall(NamedTuple):
    """By label, over the datasets on which every variant has results: the scores by dataset, their interquartile mean,
    and, averaged over datasets, the difference of the mean score from the reference's and the probability that a run
    scores higher than one of the reference."""

    scores: dict[str, dict[str, list[float]]]
    aggregates: dict[str, Estimate]
    differences: dict[str, Estimate]
    improvements: dict[str, Estimate]


def overall(record: Record) -> Overall | None:
    """The main scores over the datasets that all variants with results share; None below two. There are no
    intervals and tests where runs failed."""
    main = {dataset.data.name: compared_scores(record, dataset)[0] for dataset in record.datasets if dataset.targets}
    labels = [label for label in record.names if any(label in compared.values for compared in main.values())]
    shared = [name for name, compared in main.items() if compared.values.keys() >= {*labels}]
    if not labels or len(shared) < 2:
        return None
    scores = {label: {name: main[name].values[label] for name in shared} for label in labels}
    failed, reference, aggregates = record.failures(), record.variants[0].label, {}
    for label in labels:
        mean = statistics.aggregate_scores(scores[label])
        aggregates[label] = Estimate(mean.value) if failed[label] else mean
    others = _others(record, labels)
    means = {
        label: statistics.average_differences([main[name].differences[label] for name in shared]) for label in others
    }
    better = {label: statistics.compare_over_datasets(scores[label], scores[reference]) for label in others}
    differences, improvements = _tested(record, means, failed, record.margin), _tested(record, better, failed)
    return Overall(scores, aggregates, differences, improvements)


def target_errors(record: Record, dataset: ComparedDataset) -> dict[str, list[float]]:
    """Target-return error of every seed in % of the data's range; empty without targets spread over it."""
    targets = [target.target_return or 0.0 for target in dataset.targets if "spread" in target.roles]
    bounds, errors = (dataset.data.return_min, dataset.data.return_max), {}
    for label, runs in record.runs(dataset.data.name).items():
        returns = [{result.target_return: np.array(result.returns) for result in run.targets} for run in runs]
        if targets and returns[0].keys() >= {*targets}:
            errors[label] = [
                statistics.target_error(targets, [played[target] for target in targets], bounds) for played in returns
            ]
    return errors


def rows(record: Record) -> list[dict[str, Any]]:
    """A row for every variant at every target of every dataset, see `Comparison.table`."""
    table, controls = [], {variant.label: variant.control for variant in record.variants}
    for dataset in record.datasets:
        for number, compared in enumerate(compared_scores(record, dataset)):
            for label, mean in compared.means.items():
                difference, results = compared.differences.get(label), compared.results.get(label, [])
                without_target = any(result.target_return is None for result in results)
                target = NO_TARGET if without_target else compared.target
                if target is NO_TARGET and number > 0:
                    continue
                row: dict[str, Any] = {"dataset": dataset.data.name, "variant": label}
                row["control"] = controls.get(label, True)
                row |= {**asdict(target), "roles": "+".join(target.roles)} if target else {}
                row |= {"seeds": len(compared.values.get(label, ())), "failed": compared.failed[label]}
                row["score" if target else compared.title.replace(" ", "_").replace("-", "_")] = mean.value
                row |= {"low": mean.low, "high": mean.high, "spread": mean.spread}
                names = "value", "low", "high", "p_value", "equivalence"
                value, low, high, p, equivalence = (getattr(difference, name, None) for name in names)
                row |= {"reference": record.variants[0].label, "difference": value}
                row |= {"difference_low": low, "difference_high": high}
                row |= {"p_value": p, "significant": None if p is None else p < 1 - LEVEL}
                row["equivalent"] = None if equivalence is None else equivalence < 1 - LEVEL
                for name in results[0].metrics if results else ():
                    values = [result.metrics[name].mean for result in results]
                    metric = summarise_seeds(values, complete=not compared.failed[label])
                    row |= {name: metric.value, f"{name}_low": metric.low, f"{name}_high": metric.high}
                table.append(row)
    return table

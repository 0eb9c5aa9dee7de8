"""Summaries of a comparison: what variants are compared by, and which differ significantly from the reference.

The reference is the first variant. On one dataset the others are compared with it by Welch's test, over several by the
probability of improvement (Agarwal et al., 2021); p-values are adjusted by Holm's method over the variants. Variants
with a failed run are not tested: a mean over the runs that finished is no estimate of the variant's score.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from decision_rnn.comparison.record import ComparedDataset, HeldOut, Record, Target, Trial
from decision_rnn.evaluation import statistics
from decision_rnn.evaluation.results import TargetResult
from decision_rnn.evaluation.statistics import FEWEST_FOR_INTERVAL, LEVEL, Estimate, summarise_seeds
from decision_rnn.utils.parsing import AUTO, format_target

NO_TARGET = Target(target_return=None, roles=("bc",), in_range=None)


@dataclass(frozen=True)
class Measure:
    """What variants are compared by on one dataset: the score at one target, or the one on held-out episodes.

    By label of the variant: the value of every finished seed, the number of failed runs, the evaluations behind the
    values, and the episodes per seed of those whose scores are success rates. `digits` is the format of a value.
    """

    title: str
    target: Target | None
    values: dict[str, list[float]]
    failed: Counter[str]
    results: dict[str, list[TargetResult]] = field(default_factory=dict)
    episodes: dict[str, int | None] = field(default_factory=dict)
    digits: str = ".1f"

    def summary(self, label: str) -> Estimate:
        """The mean of a variant."""
        return summarise_seeds(self.values.get(label, ()), self.episodes.get(label), complete=not self.failed[label])

    def differences(self, reference: str) -> dict[str, Estimate]:
        """Differences of the other variants from the reference, without p-value for those that are not tested."""
        if reference not in self.values:
            return {}
        mean = fmean(self.values[reference])
        differences = {label: Estimate(fmean(values) - mean) for label, values in self.values.items()}
        if not self.failed[reference]:
            complete = {label: values for label, values in self.values.items() if not self.failed[label]}
            differences |= statistics.compare_variants(complete, reference, self.episodes)
        del differences[reference]
        return differences


@dataclass(frozen=True, kw_only=True)
class HeldOutMeasure(Measure):
    """The score on held-out episodes: `errors` by label, (seeds, episodes), those of `held_out.references` included."""

    held_out: HeldOut
    errors: dict[str, np.ndarray]

    @classmethod
    def of_runs(cls, held_out: HeldOut, runs: Mapping[str, Sequence[Trial]], failed: Counter[str]) -> "HeldOutMeasure":
        """The measure of the runs of every variant."""
        errors = {label: np.array([run.held_out for run in trials]) for label, trials in runs.items()}
        values = {label: (1 - np.average(rows, 1, held_out.steps)).tolist() for label, rows in errors.items()}
        errors |= {name: np.array([row]) for name, row in held_out.references.items()}
        title = f"held-out {held_out.measure}"
        return cls(title, None, values, failed, digits=".3f", held_out=held_out, errors=errors)

    def summary(self, label: str) -> Estimate:
        values = self.values.get(label, ())
        reference = label in self.held_out.references
        if reference or (len(values) >= FEWEST_FOR_INTERVAL and not self.failed[label]):
            estimate = statistics.estimate_score(self.errors[label], self.held_out.steps)
            if reference or estimate.spread:
                return estimate
        return summarise_seeds(values, complete=False)

    def over_episodes(self, label: str) -> Estimate:
        """The mean over a variant's seeds, with an interval over episodes alone."""
        return statistics.estimate_score(self.errors[label].mean(axis=0, keepdims=True), self.held_out.steps)

    def differences(self, reference: str) -> dict[str, Estimate]:
        differences = {}
        for label in self.values if reference in self.values else ():
            difference = statistics.compare_errors(self.errors[label], self.errors[reference], self.held_out.steps)
            tested = not self.failed[label] and not self.failed[reference]
            differences[label] = difference if tested else Estimate(difference.value)
        differences.pop(reference, None)
        return statistics.adjust_p_values(differences)


def measures(record: Record, dataset: ComparedDataset) -> list[Measure]:
    """What the variants are compared by on a dataset; the first one is the main one.

    A score at a target inside the data's range should be near the target's, not as high as possible. Behaviour cloning,
    which has no target, stands beside the others at the targets where higher is better.
    """
    runs, failed = record.runs(dataset.data.name), record.failures(dataset.data.name)
    held_out: list[Measure] = []
    if dataset.held_out is not None:
        held_out.append(HeldOutMeasure.of_runs(dataset.held_out, runs, failed))
    if not dataset.targets:
        return held_out
    conditioned = any(run.targets[0].target_return is not None for trials in runs.values() for run in trials)
    targets = dataset.targets if conditioned else (NO_TARGET,)
    first = next((target for target in targets if "paper" in target.roles and not target.in_range), NO_TARGET)
    higher_is_better = [target for target in targets if target in (first, NO_TARGET) or "best" in target.roles]
    by_target = []
    for target in (*higher_is_better, *(target for target in targets if target not in higher_is_better)):
        returns = {target.target_return, None} if target in higher_is_better else {target.target_return}
        measure = Measure(describe_target(target), target, {}, failed)
        for label, trials in runs.items():
            if results := [result for run in trials for result in run.targets if result.target_return in returns]:
                scores = [dataset.data.normalised(np.array(result.returns)) for result in results]
                measure.episodes[label] = statistics.success_episodes(scores)
                measure.values[label] = [result.score_mean for result in results]
                measure.results[label] = results
        by_target.append(measure)
    return by_target + held_out


def describe_target(target: Target) -> str:
    """A target and where it is relative to the data: `target 3600, beyond the data`."""
    if target.target_return is None:
        return "score"
    where = {None: "", True: ", inside the data", False: ", beyond the data"}[target.in_range]
    if "best" in target.roles:
        where = ", best in the data" if target.target_return != AUTO else ""
    return f"target {format_target(target.target_return)}{where}"


class Overall(NamedTuple):
    """By label, over the datasets on which every variant has results: the scores by dataset, their interquartile mean,
    and the probability that a run scores higher than one of the reference, averaged over datasets."""

    scores: dict[str, dict[str, list[float]]]
    aggregates: dict[str, Estimate]
    improvements: dict[str, Estimate]


def overall(record: Record) -> Overall | None:
    """Scores by the main measure over the datasets that all variants with results share; None below two. There are no
    intervals and tests where runs failed."""
    played = [dataset for dataset in record.datasets if dataset.targets]
    main = {dataset.data.name: measures(record, dataset)[0].values for dataset in played}
    labels = [label for label in record.names if any(label in values for values in main.values())]
    shared = [name for name, values in main.items() if values.keys() >= {*labels}]
    if not labels or len(shared) < 2:
        return None
    scores = {label: {name: main[name][label] for name in shared} for label in labels}
    failed, reference = record.failures(), record.variants[0].label
    base = scores.get(reference, {})
    aggregates, improvements = {}, {}
    for label, by_dataset in scores.items():
        mean = statistics.aggregate_scores(by_dataset)
        aggregates[label] = Estimate(mean.value) if failed[label] else mean
        if base and label != reference:
            better = statistics.compare_over_datasets(by_dataset, base)
            complete = not (failed[label] or failed[reference])
            improvements[label] = better if complete else Estimate(better.value)
    return Overall(scores, aggregates, statistics.adjust_p_values(improvements))


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
    table, reference = [], record.variants[0].label
    for dataset in record.datasets:
        for number, measure in enumerate(measures(record, dataset)):
            differences = measure.differences(reference)
            references = [*measure.held_out.references] if isinstance(measure, HeldOutMeasure) else []
            controls = {variant.label: variant.control for variant in record.variants}
            for label, control in (controls | dict.fromkeys(references, True)).items():
                target = measure.target
                values, results = measure.values.get(label, []), measure.results.get(label, [])
                if any(result.target_return is None for result in results):
                    target = NO_TARGET
                if not (values or measure.failed[label] or label in references) or (target is NO_TARGET and number > 0):
                    continue
                row: dict[str, Any] = {"dataset": dataset.data.name, "variant": label, "control": control}
                row |= {**asdict(target), "roles": "+".join(target.roles)} if target else {}
                summary, difference = measure.summary(label), differences.get(label)
                row |= {"seeds": len(values), "failed": measure.failed[label]}
                row |= {"score": summary.value, "low": summary.low, "high": summary.high, "spread": summary.spread}
                if target is None:
                    row[measure.title.replace(" ", "_").replace("-", "_")] = row.pop("score")
                value, low, high, p = (getattr(difference, name, None) for name in ("value", "low", "high", "p_value"))
                row |= {"reference": reference, "difference": value, "difference_low": low, "difference_high": high}
                row |= {"p_value": p, "significant": None if p is None else p < 1 - LEVEL}
                for name in results[0].metrics if results else ():
                    metric = summarise_seeds([result.metrics[name].mean for result in results])
                    row |= {name: metric.value, f"{name}_low": metric.low, f"{name}_high": metric.high}
                table.append(row)
    return table

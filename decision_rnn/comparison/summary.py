"""Summaries of a comparison: what variants are compared by, and which differ significantly from the reference.

The reference is the first variant of the command. On one dataset the others are compared with it by Welch's test, over
several datasets by the probability of improvement (Agarwal et al., 2021); p-values are adjusted by Holm's method over
the variants. Variants with a failed run, or with fewer than five seeds, are not tested: a mean over the runs that
finished is no estimate of the variant's score.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from decision_rnn.comparison.record import ComparedDataset, Record, Target, Trial
from decision_rnn.evaluation.results import TargetResult
from decision_rnn.evaluation.statistics import (
    LEVEL,
    SeedDifference,
    SeedScores,
    aggregate_scores,
    compare_over_datasets,
    compare_variants,
    holm,
    improvement_p_value,
    success_episodes,
    summarise_seeds,
    target_error,
)
from decision_rnn.evaluation.tables import format_number
from decision_rnn.utils.parsing import AUTO, format_target

HELD_OUT = {"loss": "held-out loss", "squared_error": "held-out squared error"}
"""Names of what is measured on held-out episodes."""
NO_TARGET = Target(target_return=None, roles=("bc",), in_range=None)


def is_significant(p_value: float | None) -> bool | None:
    """Whether an adjusted p-value is below 5%; None where nothing was tested."""
    return None if p_value is None else p_value < 1 - LEVEL


@dataclass(frozen=True)
class Measure:
    """What variants are compared by on one dataset: the score at one target, or the loss on held-out episodes.

    Attributes:
        title: Its name in tables.
        values: Value of every finished seed, by label of the variant; no entry for a variant without any.
        failed: Number of failed runs by label, where there are any.
        target: The target; None for held-out losses.
        results: The evaluations behind the values.
        episodes: Episodes per seed by label, of variants whose scores are success rates.
        tested: Whether variants are compared by it: a score at a target inside the data's range should be near the
            target's, not as high as possible.
    """

    title: str
    values: dict[str, tuple[float, ...]]
    failed: dict[str, int]
    target: Target | None = None
    results: dict[str, tuple[TargetResult, ...]] = field(default_factory=dict)
    episodes: dict[str, int | None] = field(default_factory=dict)
    tested: bool = True

    @property
    def lower_is_better(self) -> bool:
        return self.target is None

    @property
    def number(self) -> Callable[[float], str]:
        """Formats a value."""
        return format_number if self.target is None else "{:.1f}".format

    @property
    def change(self) -> Callable[[float], str]:
        """Formats a difference of two values."""
        return "{:+.3g}".format if self.target is None else "{:+.1f}".format

    def summary(self, label: str) -> SeedScores:
        """The mean of a variant; where runs failed, with the range of those that finished in place of an interval."""
        summary = summarise_seeds(self.values[label], self.episodes.get(label))
        if label not in self.failed or summary.spread is None:
            return summary
        return replace(summary, low=min(self.values[label]), high=max(self.values[label]), spread="range")

    @property
    def metric_names(self) -> list[str]:
        """The metrics that were measured besides the return."""
        return list(dict.fromkeys(name for of in self.results.values() for result in of for name in result.metrics))

    def metric(self, name: str) -> dict[str, SeedScores]:
        """A metric over the seeds, by label, of the variants that have it in every run."""
        return {
            label: summarise_seeds([result.metrics[name].mean for result in results])
            for label, results in self.results.items()
            if all(name in result.metrics for result in results)
        }

    def differences(self, reference: str) -> dict[str, SeedDifference]:
        """Differences of the other variants from the reference, without p-value for those that are not tested."""
        if reference not in self.values:
            return {}
        mean = fmean(self.values[reference])
        complete = {label: values for label, values in self.values.items() if label not in self.failed}
        tested = compare_variants(complete, reference, self.episodes) if reference in complete else {}
        untested = {label: SeedDifference(fmean(values) - mean) for label, values in self.values.items()}
        return {label: tested.get(label, untested[label]) for label in untested if label != reference}


@dataclass(frozen=True)
class Overall:
    """Scores over the datasets on which every variant has results.

    Attributes:
        reference: Label of the variant that the others are compared with.
        scores: Scores of the seeds by variant and dataset.
        failed: Number of failed runs by variant, where there are any.
    """

    reference: str
    scores: dict[str, dict[str, tuple[float, ...]]]
    failed: dict[str, int]

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(next(iter(self.scores.values())))

    @cached_property
    def aggregates(self) -> dict[str, SeedScores]:
        """Interquartile mean of each variant; without an interval where runs failed."""
        return {label: self._without_interval({label}, aggregate_scores(of)) for label, of in self.scores.items()}

    @cached_property
    def improvements(self) -> dict[str, SeedScores]:
        """Probability that a run of another variant scores higher than one of the reference, averaged over datasets."""
        base = self.scores.get(self.reference, {})
        return {
            label: self._without_interval({label, self.reference}, compare_over_datasets(scores, base))
            for label, scores in self.scores.items()
            if base and label != self.reference
        }

    @cached_property
    def p_values(self) -> dict[str, float]:
        """p-values of the variants that are tested, adjusted for their number."""
        tested = [label for label, improvement in self.improvements.items() if improvement.low is not None]
        p_values = [improvement_p_value(self.scores[label], self.scores[self.reference]) for label in tested]
        return dict(zip(tested, holm(p_values), strict=True))

    def _without_interval(self, labels: set[str], scores: SeedScores) -> SeedScores:
        return SeedScores(scores.score, None, None, None) if labels & self.failed.keys() else scores


class Summary:
    """Everything that tables, figures and rows of a comparison show, computed from its record.

    Attributes:
        record: The record.
        names: Names of the variants in tables, by label; they tell how a variant acts if not as the first one.
        reference: Label of the variant that the others are compared with.
    """

    def __init__(self, record: Record) -> None:
        first = record.variants[0]
        self.record, self.reference = record, first.label
        self.names = {
            variant.label: variant.shown_name + (f" ({variant.acting})" if variant.acting != first.acting else "")
            for variant in record.variants
        }

    def trials(self, dataset: ComparedDataset) -> dict[str, tuple[Trial, ...]]:
        """Finished runs on a dataset by label, for variants that have some."""
        trials = {label: self.record.trials_of(label, dataset.data.name) for label in self.names}
        return {label: runs for label, runs in trials.items() if runs}

    def failed(self, dataset: str | None = None) -> dict[str, int]:
        """Number of failed runs by label, on one dataset or on all, for variants that have some."""
        labels = [run.variant for run in self.record.failed if dataset in (None, run.dataset)]
        return {label: labels.count(label) for label in self.names if label in labels}

    def measures(self, dataset: ComparedDataset) -> list[Measure]:
        """What the variants are compared by on a dataset; the first one is the main one.

        Behaviour cloning has no target; its score stands beside those at every target by which variants are compared.
        """
        trials, failed = self.trials(dataset), self.failed(dataset.data.name)
        if dataset.held_out is not None:
            losses = {
                label: tuple(run.held_out_loss for run in runs if run.held_out_loss is not None)
                for label, runs in trials.items()
            }
            return [Measure(HELD_OUT[dataset.held_out.measure], losses, failed)]
        conditioned = any(run.targets[0].target_return is not None for runs in trials.values() for run in runs)
        targets = dataset.targets if conditioned else ()
        first = next((target for target in targets if "paper" in target.roles and not target.in_range), None)
        measures = []
        for target in targets or (NO_TARGET,):
            tested = target in (first, NO_TARGET) or "best" in target.roles
            results = {}
            for label, runs in trials.items():
                asked = (target.target_return, None) if tested else (target.target_return,)
                at_target = [result for run in runs for result in run.targets if result.target_return in asked]
                if at_target:
                    results[label] = tuple(at_target)
            values = {label: tuple(of_seed.score_mean for of_seed in of) for label, of in results.items()}
            episodes = {
                label: success_episodes([dataset.data.normalised(np.array(of_seed.returns)) for of_seed in of])
                for label, of in results.items()
            }
            measures.append(Measure(describe_target(target), values, failed, target, results, episodes, tested))
        return sorted(measures, key=lambda measure: not measure.tested)

    def overall(self) -> Overall | None:
        """Scores by the main measure over the datasets that all variants with results share; None below two."""
        played = [dataset for dataset in self.record.datasets if dataset.held_out is None]
        main = {dataset.data.name: self.measures(dataset)[0].values for dataset in played}
        labels = [label for label in self.names if any(label in values for values in main.values())]
        shared = [name for name, values in main.items() if all(label in values for label in labels)]
        scores = {label: {name: main[name][label] for name in shared} for label in labels}
        return Overall(self.reference, scores, self.failed()) if labels and len(shared) >= 2 else None

    def target_errors(self, dataset: ComparedDataset) -> dict[str, SeedScores]:
        """Target-return error of each variant in % of the data's range; empty without targets spread over it."""
        targets = [of.target_return for of in dataset.targets if "spread" in of.roles and of.target_return is not None]
        bounds, errors = (dataset.data.return_min, dataset.data.return_max), {}
        for label, runs in self.trials(dataset).items():
            returns = [{result.target_return: np.asarray(result.returns) for result in run.targets} for run in runs]
            if targets and returns[0].keys() >= {*targets}:
                per_seed = [target_error(targets, [of[target] for target in targets], bounds) for of in returns]
                errors[label] = summarise_seeds(per_seed)
        return errors

    def learning_curves(self, dataset: ComparedDataset) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Steps (checkpoints,) and scores (seeds, checkpoints) at the first target of the checkpoints of all seeds."""
        curves = {}
        for label, runs in self.trials(dataset).items():
            scores = [{point.step: point.targets[0].score_mean for point in run.checkpoints} for run in runs]
            if steps := sorted(set.intersection(*map(set, scores))):
                curves[label] = np.array(steps), np.array([[of_seed[step] for step in steps] for of_seed in scores])
        return curves

    def rows(self) -> list[dict[str, Any]]:
        """A row for every variant at every target of every dataset, see `Comparison.table`."""
        return [
            row
            for dataset in self.record.datasets
            for i, measure in enumerate(self.measures(dataset))
            for label in self.names
            if (row := self._row(dataset, measure, label, main=i == 0))
        ]

    def _row(self, dataset: ComparedDataset, measure: Measure, label: str, main: bool) -> dict[str, Any]:
        values, failed, target = measure.values.get(label, ()), measure.failed.get(label, 0), measure.target
        if target is not None and any(result.target_return is None for result in measure.results.get(label, ())):
            target = NO_TARGET
        if not (values or failed) or (target is NO_TARGET and not main):
            return {}
        variant = next(of for of in self.record.variants if of.label == label)
        row: dict[str, Any] = {"dataset": dataset.data.name, "variant": label, "control": variant.control}
        if target is not None:
            row |= {**asdict(target), "roles": "+".join(target.roles)}
        summary = measure.summary(label) if values else SeedScores(float("nan"), None, None, None)
        row |= {"seeds": len(values), "failed": failed, **asdict(summary)}
        if target is None:
            row[measure.title.replace(" ", "_").replace("-", "_")] = row.pop("score")
        difference = measure.differences(self.reference).get(label)
        row |= {
            "reference": self.reference,
            "difference": difference and difference.difference,
            "difference_low": difference and difference.low,
            "difference_high": difference and difference.high,
            "p_value": difference and difference.p_value,
            "significant": difference and is_significant(difference.p_value),
        }
        for name in measure.metric_names:
            if (metric := measure.metric(name).get(label)) is not None:
                row |= {name: metric.score, f"{name}_low": metric.low, f"{name}_high": metric.high}
        return row

    def episodes(self) -> list[dict[str, Any]]:
        """A row for every episode of the last checkpoints."""
        return [
            {
                "variant": run.variant,
                "dataset": run.dataset,
                "seed": run.seed,
                "target_return": result.target_return,
                "episode": episode,
                "return": value,
                "score": round(float(dataset.data.normalised(value)), 4),
                **{name: metric.values[episode] for name, metric in result.metrics.items()},
            }
            for dataset in self.record.datasets
            for runs in self.trials(dataset).values()
            for run in runs
            for result in run.targets
            for episode, value in enumerate(result.returns)
        ]


def describe_target(target: Target) -> str:
    """A target and where it is relative to the data: `target 3600, beyond the data`."""
    if target.target_return is None:
        return "score"
    where = ""
    if "best" in target.roles and target.target_return != AUTO:
        where = ", best in the data"
    elif target.in_range is not None:
        where = ", inside the data" if target.in_range else ", beyond the data"
    return f"target {format_target(target.target_return)}{where}"

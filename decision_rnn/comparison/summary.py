"""Summaries of a comparison: the scores over the seeds, target error and learning curves of each of its variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from decision_rnn.evaluation.statistics import SeedDeviation, SeedScores, deviation_over_seeds, summarise_seeds
from decision_rnn.evaluation.target_error import target_error
from decision_rnn.evaluation.tuning import tuning_curve

if TYPE_CHECKING:
    from decision_rnn.comparison.record import ComparedDataset, Comparison, Role, Target, Trial
    from decision_rnn.data.summary import DataSummary
    from decision_rnn.evaluation.results import TargetResult

BUDGETS = (1, 2, 5, 10, 20, 50, 100)
"""Numbers of episodes spent on choosing a target at which the tuning curve is evaluated."""


@dataclass(frozen=True, eq=False)
class TargetSummary:
    """A variant's results for one target, one per seed."""

    target: Target
    data: DataSummary
    results: tuple[TargetResult, ...]

    @property
    def per_seed(self) -> tuple[float, ...]:
        """Score of every seed, in the order of the seeds."""
        return tuple(result.score_mean for result in self.results)

    @cached_property
    def scores(self) -> SeedScores:
        """Normalised scores over the seeds."""
        return summarise_seeds(self.per_seed)

    @cached_property
    def deviation(self) -> SeedDeviation | None:
        """Standard deviation over the seeds; None for a single seed or a single episode per seed."""
        return deviation_over_seeds([self.data.normalised(np.array(result.returns)) for result in self.results])

    @cached_property
    def return_quantiles(self) -> tuple[float, float, float]:
        """10th percentile, median and 90th percentile of the return over seeds and episodes."""
        low, middle, high = np.quantile(np.concatenate([result.returns for result in self.results]), [0.1, 0.5, 0.9])
        return float(low), float(middle), float(high)

    @property
    def return_mean_sd(self) -> tuple[float, float]:
        """Mean return over seeds and episodes, and its standard deviation over the episodes of a seed, from the mean of
        the seeds' variances."""
        variance = np.mean([result.return_sd**2 for result in self.results])
        return float(np.mean([result.return_mean for result in self.results])), float(np.sqrt(variance))

    @property
    def seed_medians(self) -> tuple[float, ...]:
        """Median return of every seed's episodes."""
        return tuple(float(np.median(result.returns)) for result in self.results)


METRICS: dict[str, Callable[[TargetSummary], float]] = {}
"""Further numbers of a variant at a target, by the head of their column in the table of every target; a module named by
--plugins adds its own."""


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Scores of the checkpoints that all seeds have, for one target: steps (checkpoints,), scores (seeds, checkpoints).

    The best checkpoint of a seed is chosen and measured by the same episodes, so its score is too high.
    """

    target: Target
    steps: tuple[int, ...]
    per_seed: np.ndarray


@dataclass(frozen=True, eq=False)
class VariantSummary:
    """The trials of one variant on one dataset, at least one, by seed."""

    variant: str
    compared: ComparedDataset
    trials: tuple[Trial, ...]

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return self.compared.data.name

    @cached_property
    def targets(self) -> tuple[TargetSummary, ...]:
        """One for each target of the dataset; for behaviour cloning a single one, whose target return is None."""
        by_target = zip(*(self.compared.with_results(trial) for trial in self.trials), strict=True)
        return tuple(
            TargetSummary(pairs[0][0], self.compared.data, tuple(result for _, result in pairs)) for pairs in by_target
        )

    def of_role(self, role: Role | None) -> TargetSummary | None:
        """The first target with that role, or the only one of behaviour cloning; None if there is neither."""
        return next((of for of in self.targets if role in of.target.roles), self._only)

    def of_target(self, target: Target) -> TargetSummary:
        """The results for a target of the dataset, or the only ones of behaviour cloning."""
        return self._only or next(of for of in self.targets if of.target == target)

    @property
    def _only(self) -> TargetSummary | None:
        return self.targets[0] if self.targets[0].target.target_return is None else None

    @cached_property
    def target_error(self) -> SeedScores | None:
        """Target error over the seeds, in % of the data's range; None without targets spread over it."""
        spread = [of for of in self.targets if "spread" in of.target.roles]
        asked = [of.target.target_return for of in spread if of.target.target_return is not None]
        if not asked:
            return None
        data_range = self.compared.data.return_min, self.compared.data.return_max
        by_seed = zip(*(of.results for of in spread), strict=True)
        returns = ([np.asarray(result.returns) for result in results] for results in by_seed)
        return summarise_seeds([target_error(asked, achieved, data_range) for achieved in returns])

    @cached_property
    def curves(self) -> tuple[LearningCurve, ...]:
        """Curves for the targets with which every checkpoint was evaluated: the dataset's first and its best return."""
        scores = [
            {(point.step, of.target_return): of.score_mean for point in trial.checkpoints for of in point.targets}
            for trial in self.trials
        ]
        shared = sorted(set.intersection(*(set(of_seed) for of_seed in scores)), key=lambda key: key[0])
        curves = {}
        for target in (of.target for of in self.targets):
            keys = [key for key in shared if key[1] == target.target_return]
            if keys and target.target_return not in curves:
                per_seed = np.array([[of_seed[key] for key in keys] for of_seed in scores])
                curves[target.target_return] = LearningCurve(target, tuple(step for step, _ in keys), per_seed)
        return tuple(curves.values())

    @cached_property
    def tuning(self) -> tuple[SeedScores, ...]:
        """Score of a target return chosen by playing, for each of `BUDGETS`; empty for behaviour cloning, which has
        nothing to choose, and with a single episode per target."""
        returns = {of.target.target_return: of.results for of in self.targets if of.target.target_return is not None}
        per_seed = [
            self.compared.data.normalised(np.array([result.returns for result in results]))
            for results in zip(*returns.values(), strict=True)
        ]
        if not per_seed or min(scores.shape[1] for scores in per_seed) < 2:
            return ()
        return tuple(summarise_seeds(scores) for scores in tuning_curve(per_seed, BUDGETS).T)


def summarise(comparison: Comparison) -> tuple[VariantSummary, ...]:
    """Summarise every variant on every dataset, dataset by dataset, leaving out those without any result."""
    return tuple(
        VariantSummary(variant.label, dataset, trials)
        for dataset in comparison.datasets
        for variant in comparison.variants
        if (trials := comparison.trials_of(variant.label, dataset.data.name))
    )


def shown_targets(found: Sequence[VariantSummary]) -> list[tuple[Target, ...]]:
    """The targets of the tables of one dataset: the task's, the data's best return, and that of behaviour cloning.

    The data's best and targets beyond it are one entry if every agent played the same episodes for them, as agents do
    for returns that are capped alike.
    """
    results: dict[Target, list[TargetResult]] = {}
    for of in (of for summary in found for of in summary.targets if of.target.roles[0] != "spread"):
        results.setdefault(of.target, []).extend(of.results)
    groups: dict[object, list[Target]] = {}
    for target in sorted(results, key=lambda target: target.target_return is None):
        capped = target.in_range is False or "best" in target.roles
        played = tuple(result.returns for result in results[target])
        groups.setdefault(played if capped else target, []).append(target)
    return [tuple(targets) for targets in groups.values()]


def compared_targets(found: Sequence[VariantSummary]) -> list[tuple[Target, ...]]:
    """Those of `shown_targets` at which variants are compared, since there a higher score is better: the task's first,
    unless it is inside the data's range, and the data's best; without target returns that of behaviour cloning."""
    shown = shown_targets(found)
    first = [targets for targets in shown if "paper" in targets[0].roles and not targets[0].in_range][:1]
    best = [targets for targets in shown if any("best" in target.roles for target in targets)]
    return [targets for targets in shown if targets in first + best] or shown[-1:]

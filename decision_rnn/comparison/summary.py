"""Summaries of a comparison: the scores over the seeds, target error and learning curves of each of its variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from decision_rnn.evaluation.statistics import SeedDeviation, SeedScores, deviation_over_seeds, summarise_seeds
from decision_rnn.evaluation.target_error import target_error

if TYPE_CHECKING:
    from decision_rnn.comparison.record import ComparedDataset, Comparison, Role, Target, Trial
    from decision_rnn.data.summary import DataSummary
    from decision_rnn.evaluation.results import TargetResult


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
    def metrics(self) -> dict[str, SeedScores]:
        """The metrics that all results have, over the seeds, by name."""
        names = [name for name in self.results[0].metrics if all(name in result.metrics for result in self.results)]
        return {name: summarise_seeds([result.metrics[name].mean for result in self.results]) for name in names}

    def metric_columns(self) -> dict[str, float | None]:
        """The metrics as columns of `Comparison.table`."""
        columns: dict[str, float | None] = {}
        for name, of in self.metrics.items():
            columns |= {name: of.score, f"{name}_low": of.low, f"{name}_high": of.high}
        return columns

    @cached_property
    def deviation(self) -> SeedDeviation | None:
        """Standard deviation over the seeds; None for a single seed or a single episode per seed."""
        return deviation_over_seeds([self.data.normalised(np.array(result.returns)) for result in self.results])

    @cached_property
    def return_quantiles(self) -> tuple[float, float, float]:
        """10th percentile, median and 90th percentile of the return over seeds and episodes."""
        low, middle, high = np.quantile(np.concatenate([result.returns for result in self.results]), [0.1, 0.5, 0.9])
        return float(low), float(middle), float(high)


COLUMNS: dict[str, Callable[[TargetSummary], float]] = {}
"""Further numbers of a variant at a target, by the head of their column in the table of every target; a module named by
--plugins adds its own."""


@dataclass(frozen=True, eq=False)
class VariantSummary:
    """The trials of one variant on one dataset, at least one, by seed. Those that play nothing have no targets."""

    variant: str
    compared: ComparedDataset
    trials: tuple[Trial, ...]

    @property
    def dataset(self) -> str:
        return self.compared.data.name

    @cached_property
    def targets(self) -> tuple[TargetSummary, ...]:
        """One for each target of the dataset; for behaviour cloning a single one, whose target return is None."""
        by_target = zip(*(self.compared.with_results(trial) for trial in self.trials), strict=True)
        return tuple(
            TargetSummary(pairs[0][0], self.compared.data, tuple(result for _, result in pairs)) for pairs in by_target
        )

    @cached_property
    def held_out_losses(self) -> tuple[float, ...]:
        """The loss of every seed on held-out episodes, in the order of the seeds; empty for agents that play."""
        return tuple(trial.held_out_loss for trial in self.trials if trial.held_out_loss is not None)

    @property
    def asked(self) -> dict[float, TargetSummary]:
        """Those of `targets` that have a target return, by it; empty for behaviour cloning."""
        return {of.target.target_return: of for of in self.targets if of.target.target_return is not None}

    def of_role(self, role: Role | None) -> TargetSummary | None:
        """The first target with that role, or the only one of behaviour cloning; None if there is neither."""
        only = None if self.asked else next(iter(self.targets), None)
        return next((of for of in self.targets if role in of.target.roles), only)

    def of_target(self, target: Target) -> TargetSummary:
        """The results for a target of the dataset, or the only ones of behaviour cloning."""
        return next((of for of in self.targets if of.target == target), self.targets[0])

    @cached_property
    def target_error(self) -> SeedScores | None:
        """Target error over the seeds, in % of the data's range; None without targets spread over it."""
        spread = {asked: of.results for asked, of in self.asked.items() if "spread" in of.target.roles}
        if not spread:
            return None
        data_range = self.compared.data.return_min, self.compared.data.return_max
        by_seed = zip(*spread.values(), strict=True)
        returns = ([np.asarray(result.returns) for result in results] for results in by_seed)
        return summarise_seeds([target_error(list(spread), achieved, data_range) for achieved in returns])

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Steps of the checkpoints that were evaluated for all seeds."""
        return tuple(sorted(set.intersection(*({point.step for point in of.checkpoints} for of in self.trials))))

    @cached_property
    def curves(self) -> dict[Target, np.ndarray]:
        """Scores of these checkpoints, (seeds, checkpoints), for the targets with which they were evaluated: the
        dataset's first and its best return.

        The best checkpoint of a seed is chosen and measured by the same episodes, so its score is too high.
        """
        scores = [
            {(of.target_return, point.step): of.score_mean for point in trial.checkpoints for of in point.targets}
            for trial in self.trials
        ]
        curves = {}
        for target in (of.target for of in self.targets):
            keys = [(target.target_return, step) for step in self.steps]
            if keys and all(key in of_seed for of_seed in scores for key in keys):
                curves[target] = np.array([[of_seed[key] for key in keys] for of_seed in scores])
        return curves


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
    returns: dict[Target, list[tuple[float, ...]]] = {}
    for of in (of for summary in found for of in summary.targets if of.target.roles[0] != "spread"):
        returns.setdefault(of.target, []).extend(result.returns for result in of.results)
    groups: dict[object, list[Target]] = {}
    for target in sorted(returns, key=lambda target: target.target_return is None):
        capped = target.in_range is False or "best" in target.roles
        groups.setdefault(tuple(returns[target]) if capped else target, []).append(target)
    return [tuple(targets) for targets in groups.values()]


def compared_targets(found: Sequence[VariantSummary]) -> list[tuple[Target, ...]]:
    """Those of `shown_targets` at which variants are compared, since there a higher score is better: the task's first,
    unless it is inside the data's range, and the data's best; without target returns that of behaviour cloning."""
    shown = shown_targets(found)
    first = [targets for targets in shown if "paper" in targets[0].roles and not targets[0].in_range][:1]
    best = [targets for targets in shown if any("best" in target.roles for target in targets)]
    return [targets for targets in shown if targets in first + best] or shown[-1:]

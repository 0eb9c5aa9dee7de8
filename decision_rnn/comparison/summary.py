"""Summary of a comparison: scores over the seeds, obedience and cost of every variant on every dataset."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from decision_rnn.evaluation.obedience import obedience
from decision_rnn.evaluation.statistics import SeedDeviation, SeedScores, deviation_over_seeds, summarise_seeds
from decision_rnn.evaluation.tuning import tuning_curve

if TYPE_CHECKING:
    from decision_rnn.comparison.record import ComparedDataset, Comparison, Target, Trial
    from decision_rnn.data.summary import DataSummary
    from decision_rnn.evaluation.results import TargetResult

BUDGETS = (1, 2, 5, 10, 20, 50, 100)
"""Numbers of episodes spent on choosing a target at which the tuning curve is evaluated."""


@dataclass(frozen=True, kw_only=True)
class TargetSummary:
    """Results of a variant for one target, over its seeds.

    Attributes:
        target: The target.
        scores: Normalised scores over the seeds.
        per_seed: Score of every seed, in the order of the seeds.
        deviation: Standard deviation over the seeds; None for a single seed or a single episode per seed.
        return_mean: Mean return over seeds and episodes.
        return_sd: Standard deviation of the return over the episodes of a seed, from the mean of the seeds' variances.
        return_median: Median return over seeds and episodes.
        return_p10: 10th percentile of the return.
        return_p90: 90th percentile of the return.
    """

    target: Target
    scores: SeedScores
    per_seed: tuple[float, ...]
    deviation: SeedDeviation | None
    return_mean: float
    return_sd: float
    return_median: float
    return_p10: float
    return_p90: float


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """The score of every checkpoint for one target, and that of the best checkpoint, which papers report.

    Attributes:
        target: The target.
        steps: Training steps of the checkpoints.
        mean: Score of each checkpoint, mean over the seeds.
        per_seed: (seeds, checkpoints) scores.
        last: Score of the last checkpoint, over as many episodes as the other checkpoints.
        best: Score of each seed's best checkpoint; too high, since the same episodes choose and measure it.
    """

    target: Target
    steps: tuple[int, ...]
    mean: tuple[float, ...]
    per_seed: tuple[tuple[float, ...], ...]
    last: SeedScores
    best: SeedScores


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The score of a target chosen online, over the episodes spent on choosing among the dataset's targets.

    Attributes:
        episodes: Episodes spent per seed.
        score: Expected true score of the choice, mean over the seeds.
        low: Lower end of `spread`; empty for one seed.
        high: Upper end of `spread`; empty for one seed.
        spread: The spread over seeds, as in `SeedScores`.
    """

    episodes: tuple[int, ...]
    score: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    spread: Literal["range", "95% interval"] | None


@dataclass(frozen=True, kw_only=True)
class VariantSummary:
    """One variant on one dataset.

    Attributes:
        variant: Label of the variant.
        dataset: Name of the dataset.
        seeds: The seeds that have a result.
        targets: One for each target of the dataset; for cloning the one with the role `cloning`.
        obedience: Mean distance of the median return from the targets spread over the data's range, in % of the
            range, over seeds; None for cloning.
        curves: Learning curves for the dataset's first target and for its best return; for cloning a single one.
        tuning: None for cloning, which has no target to choose, and with a single episode per target.
        parameters: Number of parameters of the agent.
        training_seconds: Median over the seeds.
        action_microseconds: Minimum over the seeds, since other runs on the machine can only slow an action down.
        state_bytes: Size of the agent's state for one environment.
        remarks: What a reader has to know before trusting the scores.
    """

    variant: str
    dataset: str
    seeds: tuple[int, ...]
    targets: tuple[TargetSummary, ...]
    obedience: SeedScores | None
    curves: tuple[LearningCurve, ...]
    tuning: Tuning | None
    parameters: int
    training_seconds: float
    action_microseconds: float
    state_bytes: int
    remarks: tuple[str, ...]

    def of_role(self, role: str) -> TargetSummary | None:
        """The first target with that role; None if there is none."""
        return next((target for target in self.targets if role in target.target.roles), None)


def summarise(comparison: Comparison) -> tuple[VariantSummary, ...]:
    """Summarise every variant on every dataset, dataset by dataset, leaving out those without any result."""
    summaries = []
    for dataset in comparison.datasets:
        for variant in comparison.variants:
            cells = comparison.trials_of(variant.label, dataset.data.name)
            if cells:
                summaries.append(_summarise(dataset, cells))
    return tuple(summaries)


def remarks_of(summaries: Sequence[VariantSummary]) -> dict[str, tuple[str, ...]]:
    """The remarks on one dataset's variants, each with the variants it applies to; empty if it applies to all."""
    said: dict[str, list[str]] = {}
    for summary in summaries:
        for remark in summary.remarks:
            said.setdefault(remark, []).append(summary.variant)
    return {remark: tuple(of) if len(of) < len(summaries) else () for remark, of in said.items()}


def _summarise(dataset: ComparedDataset, cells: Sequence[Trial]) -> VariantSummary:
    per_target = list(zip(*(dataset.with_results(cell) for cell in cells), strict=True))
    targets = tuple(_target(dataset.data, pairs[0][0], [achieved for _, achieved in pairs]) for pairs in per_target)
    return VariantSummary(
        variant=cells[0].variant,
        dataset=dataset.data.name,
        seeds=tuple(cell.seed for cell in cells),
        targets=targets,
        obedience=_obedience(dataset, cells),
        curves=_curves([target.target for target in targets], cells),
        tuning=_tuning(dataset.data, cells),
        parameters=cells[0].parameters,
        training_seconds=statistics.median(cell.training_seconds for cell in cells),
        action_microseconds=min(
            (of for cell in cells if (of := cell.action_microseconds) is not None), default=math.nan
        ),
        state_bytes=cells[0].state_bytes or 0,
        remarks=tuple(dict.fromkeys(remark for cell in cells for remark in cell.remarks)),
    )


def _target(data: DataSummary, target: Target, achieved: Sequence[TargetResult]) -> TargetSummary:
    scores = [result.score_mean for result in achieved]
    returns = np.concatenate([result.returns for result in achieved])
    low, middle, high = (float(value) for value in np.quantile(returns, [0.1, 0.5, 0.9]))
    return TargetSummary(
        target=target,
        scores=summarise_seeds(scores),
        per_seed=tuple(scores),
        deviation=deviation_over_seeds([data.normalised(np.array(result.returns)) for result in achieved]),
        return_mean=statistics.fmean(result.return_mean for result in achieved),
        return_sd=float(np.sqrt(np.mean([result.return_sd**2 for result in achieved]))),
        return_median=middle,
        return_p10=low,
        return_p90=high,
    )


def _obedience(dataset: ComparedDataset, cells: Sequence[Trial]) -> SeedScores | None:
    errors = []
    for cell in cells:
        spread = [result for target, result in dataset.with_results(cell) if "spread" in target.roles]
        asked = [result.target_return for result in spread if result.target_return is not None]
        if not asked or dataset.data.return_min is None or dataset.data.return_max is None:
            return None
        achieved = [np.asarray(result.returns) for result in spread]
        errors.append(obedience(asked, achieved, (dataset.data.return_min, dataset.data.return_max)).error)
    return summarise_seeds(errors)


def _tuning(data: DataSummary, cells: Sequence[Trial]) -> Tuning | None:
    """The tuning curve over all distinct target returns, from the episodes of the last checkpoint."""
    per_seed = []
    for cell in cells:
        candidates = {t.target_return: t.returns for t in cell.targets if t.target_return is not None}
        per_seed.append(data.normalised(np.array(list(candidates.values()))))
    if min(scores.size for scores in per_seed) == 0 or min(scores.shape[1] for scores in per_seed) < 2:
        return None
    curve = tuning_curve(per_seed, BUDGETS)
    score, low, high = (() if of is None else tuple(of.tolist()) for of in (curve.scores, curve.low, curve.high))
    return Tuning(episodes=BUDGETS, score=score, low=low, high=high, spread=curve.spread)


def _curves(targets: Sequence[Target], cells: Sequence[Trial]) -> tuple[LearningCurve, ...]:
    """Curves for the targets with which every checkpoint was evaluated, over the steps that all runs have."""
    scores = [
        {(point.step, t.target_return): t.score_mean for point in cell.checkpoints for t in point.targets}
        for cell in cells
    ]
    curves, seen = [], set()
    for target in targets:
        steps = sorted({step for step, asked in scores[0] if asked == target.target_return})
        steps = [step for step in steps if all((step, target.target_return) in known for known in scores)]
        if not steps or target.target_return in seen:
            continue
        seen.add(target.target_return)
        per_seed = [tuple(known[step, target.target_return] for step in steps) for known in scores]
        curves.append(
            LearningCurve(
                target=target,
                steps=tuple(steps),
                mean=tuple(statistics.fmean(column) for column in zip(*per_seed, strict=True)),
                per_seed=tuple(per_seed),
                last=summarise_seeds([row[-1] for row in per_seed]),
                best=summarise_seeds([max(row) for row in per_seed]),
            )
        )
    return tuple(curves)

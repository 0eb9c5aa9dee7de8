"""What a comparison comes to: per variant and dataset its scores over the seeds, obedience, and what it costs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decision_rnn.comparison.record import CellRecord, ComparedDataset, Comparison, Target
from decision_rnn.evaluation.results import DataSummary, TargetResult
from decision_rnn.evaluation.statistics import SeedScores, summarise_seeds


@dataclass(frozen=True, kw_only=True)
class TargetSummary:
    """What a variant's seeds came to for one target.

    Attributes:
        target: What was asked for.
        scores: Normalised scores over the seeds.
        per_seed: Every seed's score, in the order of the seeds.
        return_mean: Over seeds and episodes.
        return_sd: Over a seed's episodes, the mean of the seeds' variances: how far apart the seeds are is the scores'.
        return_median: Over seeds and episodes.
        return_p10: The tenth percentile of them.
        return_p90: The ninetieth.
    """

    target: Target
    scores: SeedScores
    per_seed: tuple[float, ...]
    return_mean: float
    return_sd: float
    return_median: float
    return_p10: float
    return_p90: float


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """The score of every checkpoint for one target, mean over seeds, and the best one's, which papers report.

    Attributes:
        target: What was asked for.
        steps: Of the checkpoints.
        mean: Score at each, mean over the seeds.
        per_seed: (seeds, checkpoints) scores.
        last: Of the last checkpoint, by as many episodes as the others.
        best: Of each seed's best checkpoint: chosen and measured by the same episodes, and so too high.
    """

    target: Target
    steps: tuple[int, ...]
    mean: tuple[float, ...]
    per_seed: tuple[tuple[float, ...], ...]
    last: SeedScores
    best: SeedScores


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The score of a target chosen by playing: over the episodes spent on choosing among the dataset's targets.

    Attributes:
        episodes: Spent, per seed.
        score: Expected true score of the choice, mean over the seeds.
        low: The lower end of its band.
        high: The upper end.
    """

    episodes: tuple[int, ...]
    score: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class VariantSummary:
    """One variant on one dataset.

    Attributes:
        variant: Its label.
        dataset: Its name.
        seeds: Those that have a result.
        targets: One for each target of the dataset; for cloning the one with role `cloning`.
        obedience: How far, in % of the data's range, the median return is from what is asked inside it; over seeds.
            None for cloning.
        curves: Learning curves, for the dataset's first target and for its best return; for cloning the one.
        tuning: None for cloning, which has nothing to choose.
        parameters: Of the agent.
        training_seconds: Median over the seeds.
        action_microseconds: Likewise.
        state_bytes: What the agent remembers of one environment.
        remarks: What a reader has to know before believing the scores.
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
        """The first target of that role; None where there is none."""
        return next((target for target in self.targets if target.target.role == role), None)


def summarise(comparison: Comparison) -> tuple[VariantSummary, ...]:
    """Every variant on every dataset, dataset by dataset; one of whose runs none has a result is left out."""
    summaries = []
    for dataset in comparison.datasets:
        for variant in comparison.variants:
            cells = comparison.cells_of(variant.label, dataset.data.name)
            if cells:
                summaries.append(_summarise(dataset, cells))
    return tuple(summaries)


def _summarise(dataset: ComparedDataset, cells: Sequence[CellRecord]) -> VariantSummary:
    per_target = list(zip(*(dataset.with_results(cell) for cell in cells), strict=True))
    targets = tuple(_target(pairs[0][0], [achieved for _, achieved in pairs]) for pairs in per_target)
    return VariantSummary(
        variant=cells[0].variant,
        dataset=dataset.data.name,
        seeds=tuple(cell.seed for cell in cells),
        targets=targets,
        obedience=_obedience(dataset.data, cells),
        curves=_curves([target.target for target in targets], cells),
        tuning=None,
        parameters=cells[0].parameters,
        training_seconds=statistics.median(cell.training_seconds for cell in cells),
        action_microseconds=statistics.median(cell.action_microseconds for cell in cells),
        state_bytes=cells[0].state_bytes,
        remarks=tuple(dict.fromkeys(remark for cell in cells for remark in cell.remarks)),
    )


def _target(target: Target, achieved: Sequence[TargetResult]) -> TargetSummary:
    scores = [result.score_mean for result in achieved]
    returns = np.concatenate([result.returns for result in achieved])
    low, middle, high = (float(value) for value in np.quantile(returns, [0.1, 0.5, 0.9]))
    return TargetSummary(
        target=target,
        scores=summarise_seeds(scores),
        per_seed=tuple(scores),
        return_mean=statistics.fmean(result.return_mean for result in achieved),
        return_sd=float(np.sqrt(np.mean([result.return_sd**2 for result in achieved]))),
        return_median=middle,
        return_p10=low,
        return_p90=high,
    )


def _obedience(data: DataSummary, cells: Sequence[CellRecord]) -> SeedScores | None:
    """Over the seeds, the distance between asked and median return on average over what is asked inside the data."""
    if data.return_min is None or data.return_max is None or data.return_max == data.return_min:
        return None
    span, distances = data.return_max - data.return_min, []
    for cell in cells:
        inside = {t.target_return: t for t in cell.targets if t.in_range and t.target_return is not None}
        if not inside:
            return None
        off = [abs(float(np.median(result.returns)) - asked) for asked, result in inside.items()]
        distances.append(100 * statistics.fmean(off) / span)
    return summarise_seeds(distances)


def _curves(targets: Sequence[Target], cells: Sequence[CellRecord]) -> tuple[LearningCurve, ...]:
    """For the targets that every checkpoint was asked for, over the steps that all runs have."""
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

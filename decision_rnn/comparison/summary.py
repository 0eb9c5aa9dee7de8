"""What a comparison comes to: per variant and dataset its scores over the seeds, obedience, and what it costs."""

from dataclasses import dataclass

from decision_rnn.comparison.record import Target
from decision_rnn.evaluation.statistics import SeedScores


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

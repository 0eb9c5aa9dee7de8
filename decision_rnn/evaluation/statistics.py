"""Scores: normalised as D4RL does, and intervals that say how far to believe them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

FEWEST_FOR_INTERVAL = 5
"""Seeds below which no interval is printed, but every seed's score."""


def interquartile_mean(scores: np.ndarray) -> float:
    """Mean of the middle half of all scores, the outer quarters dropped (Agarwal et al., 2021, section 4.3).

    With three runs or fewer nothing is dropped: it is the mean.
    """
    ordered = np.sort(np.asarray(scores, np.float64), axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def bootstrap_interval(
    tasks: Sequence[np.ndarray], level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Stratified percentile-bootstrap interval of the interquartile mean (Agarwal et al., 2021, section 4.1).

    Args:
        tasks: For every task the scores of its runs, each (runs,); runs are redrawn within their task.
        level: Of the interval.
        resamples: How often.
        seed: Of the redrawing.

    Returns:
        The interval's ends. With a handful of runs it is narrower than it ought to be.
    """
    generator = np.random.default_rng(seed)
    redrawn = [generator.choice(np.asarray(scores, np.float64), (resamples, len(scores))) for scores in tasks]
    ordered = np.sort(np.concatenate(redrawn, axis=1), axis=1)
    cut = ordered.shape[1] // 4
    means = ordered[:, cut : ordered.shape[1] - cut].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class SeedScores:
    """The scores of several seeds in few numbers.

    Attributes:
        score: The interquartile mean, or below `FEWEST_FOR_INTERVAL` seeds the mean.
        score_is: Which of the two; `score` of one seed.
        low: The lower end of `spread`; None for one seed.
        high: Its upper end; likewise.
        spread: What they are the ends of: the `range` of the scores where they are too few for a `95% interval`.
    """

    score: float
    score_is: Literal["score", "mean", "interquartile mean"]
    low: float | None
    high: float | None
    spread: Literal["range", "95% interval"] | None


def summarise_seeds(scores: Sequence[float]) -> SeedScores:
    """The scores of a task's seeds in few numbers. The bootstrap interval of three scores is their range: it would
    promise what three scores cannot tell."""
    values = np.array(scores, np.float64)
    if len(values) == 1:
        return SeedScores(float(values[0]), "score", None, None, None)
    if len(values) < FEWEST_FOR_INTERVAL:
        return SeedScores(float(values.mean()), "mean", float(values.min()), float(values.max()), "range")
    return SeedScores(interquartile_mean(values), "interquartile mean", *bootstrap_interval([values]), "95% interval")

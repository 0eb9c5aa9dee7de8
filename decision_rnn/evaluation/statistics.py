"""Statistics of the scores of several seeds on one dataset: means, intervals, and whether two variants differ.

Every interval is chosen by its measured coverage; see results/statistics, made by scripts/interval_coverage.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

FEWEST_FOR_INTERVAL = 5
"""The fewest seeds for which an interval and a verdict are given; with fewer, every seed's score is shown instead."""

LEVEL = 0.95
"""Nominal coverage of every interval."""

Scores = Sequence[float] | np.ndarray
"""(seeds,) normalised scores, one per seed, at least one; `evaluate` makes sure that they are finite."""

INTERVAL_NOTE = (
    "mean over seeds with Student's t 95% interval (which covered the mean of normal scores in 95%, 95% and 95% of "
    "cases at 5, 10 and 20 seeds, of bimodal ones in 82%, 91% and 93%: results/statistics)"
)
"""Describes the result of `summarise_seeds` for five seeds or more; printed beside it."""

DIFFERENCE_NOTE = (
    "difference of the means with Welch's 95% interval, each by itself (which covered in 95%, 96% and 95% of cases at "
    "5, 10 and 20 seeds for normal scores, and said that variants 10 points apart, of standard deviation 10, differ in "
    "27%, 55% and 87%: results/statistics); verdicts at 5% over one column of one dataset, by Holm's "
    "method"
)
"""Describes the result of `compare_variants`; printed beside it."""

DEVIATION_NOTE = (
    "standard deviation of the seeds' scores, and in brackets of the agents' expected scores, without the noise of a "
    "finite number of episodes, by a two-way analysis of variance of seeds and episodes"
)
"""Describes the result of `deviation_over_seeds`; printed beside it."""

Verdict = Literal["better", "worse", "no difference shown"]


@dataclass(frozen=True)
class SeedScores:
    """A summary of the scores of several seeds, or an aggregate over datasets.

    Attributes:
        score: The mean over seeds, or the aggregate.
        low: Lower end of `spread`; None as `spread`.
        high: Upper end of `spread`; None as `spread`.
        spread: What `low` and `high` delimit: a `95% interval`, or the `range` of the scores where there are too few
            for an interval; None for one seed, and for an aggregate without an interval.
    """

    score: float
    low: float | None
    high: float | None
    spread: Literal["range", "95% interval"] | None


class SeedDeviation(NamedTuple):
    """How far apart the seeds of a task are, as standard deviations of normalised scores.

    Attributes:
        of_scores: Standard deviation of the seeds' scores, each a mean over its episodes.
        of_agents: Estimate of the same over infinitely many episodes; 0 where chance in the episodes explains all of
            `of_scores`.
    """

    of_scores: float
    of_agents: float


@dataclass(frozen=True)
class SeedDifference:
    """How the scores of one variant differ from those of another on a dataset.

    Attributes:
        difference: The variant's mean minus the other's.
        low: Lower end of the difference's 95% interval, not adjusted for other comparisons; None where one of the two
            has fewer than `FEWEST_FOR_INTERVAL` seeds.
        high: Upper end of the interval; None as `low`.
        p_value: p-value of Welch's test of equal means, adjusted in `compare_variants`; None as `low`.
        lower_is_better: Whether the scores are losses.
    """

    difference: float
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    lower_is_better: bool = False

    @property
    def verdict(self) -> Verdict | None:
        """The variant against the other, from `p_value`; None where that is None."""
        if self.p_value is None:
            return None
        if self.p_value >= 1 - LEVEL:
            return "no difference shown"
        return "better" if (self.difference > 0) != self.lower_is_better else "worse"


def summarise_seeds(scores: Scores, episodes: int | None = None) -> SeedScores:
    """Summarise the scores of a task's seeds.

    Below five seeds: the mean and the range, which is no interval (of three scores it holds the mean in 3 of 4 cases).
    From five seeds: the mean with Student's t interval, exact for normal scores; bootstrap intervals cover less, or for
    bimodal scores little more at twice the length (results/statistics). The ends are not clipped: scores can be below 0
    and above 100. Scores that are all equal have no interval, unless they are success rates.

    Args:
        scores: The scores.
        episodes: Episodes per seed if the scores are success rates in percent, as by `success_episodes`.
    """
    values = np.asarray(scores, np.float64)
    mean = float(values.mean())
    if len(values) == 1:
        return SeedScores(mean, None, None, None)
    error = standard_error(values, episodes)
    if len(values) < FEWEST_FOR_INTERVAL or not error:
        return SeedScores(mean, float(values.min()), float(values.max()), "range")
    half = float(special.stdtrit(len(values) - 1, (1 + LEVEL) / 2) * error)
    return SeedScores(mean, mean - half, mean + half, "95% interval")


def success_episodes(per_episode: Sequence[Scores]) -> int | None:
    """The number of episodes of a seed if all score 0 or 100, so that a seed's score is a success rate; else None.

    Args:
        per_episode: Scores of the episodes of each seed, (episodes,); of unequal numbers the least counts.
    """
    rates = all(np.isin(scores, (0, 100)).all() for scores in per_episode)
    return min(map(len, per_episode)) if rates else None


def standard_error(scores: np.ndarray, episodes: int | None = None) -> float:
    """Standard error of the mean over seeds; 0 for scores that differ by rounding alone.

    That of success rates, of which `episodes` says the number of episodes per seed, is at least that of binomial noise
    in the episodes, with the estimate of Agresti and Coull ("Approximate Is Better than 'Exact' for Interval Estimation
    of Binomial Proportions", 1998), which is positive also where every episode succeeds.
    """
    error = float(stats.sem(scores)) if np.ptp(scores) > 1e-9 * np.abs(scores).max() else 0.0
    if episodes is None:
        return error
    z, count = special.ndtri((1 + LEVEL) / 2), episodes * len(scores)
    share = (scores.mean() / 100 * count + z**2 / 2) / (count + z**2)
    return max(error, float(100 * np.sqrt(share * (1 - share) / (count + z**2))))


def share_interval(share: ArrayLike, count: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The ends of Wilson's 95% intervals of probabilities, given the share of successes in `count` independent trials.

    Unlike the normal interval they stay within 0 and 1 and have a length where all trials have one outcome (Wilson,
    "Probable Inference, the Law of Succession, and Statistical Inference", 1927).
    """
    share, count, z = np.asarray(share), np.asarray(count), special.ndtri((1 + LEVEL) / 2)
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return middle - half, middle + half


def deviation_over_seeds(per_episode: Sequence[Scores]) -> SeedDeviation | None:
    """Standard deviation of the seeds' scores, with and without the part due to chance in their episodes.

    A two-way analysis of variance without replication: episode i begins alike for every seed, so the effect of an
    episode that all seeds share does not set them apart. The mean square of the residuals over the number of episodes
    is what chance adds to the variance of the seeds' means.

    Args:
        per_episode: Scores of the episodes of each seed, (episodes,), with equal numbers of episodes.

    Returns:
        The deviations; None for a single seed or a single episode per seed.
    """
    scores = np.asarray(per_episode, np.float64)
    if min(scores.shape) < 2:
        return None
    means = scores.mean(axis=1)
    residuals = scores - means[:, None] - scores.mean(axis=0) + scores.mean()
    noise = (residuals**2).sum() / ((scores.shape[0] - 1) * (scores.shape[1] - 1)) / scores.shape[1]
    variance = means.var(ddof=1)
    return SeedDeviation(float(np.sqrt(variance)), float(np.sqrt(max(variance - noise, 0.0))))


def probability_of_improvement(scores: Scores, others: Scores) -> float:
    """The probability that a run of the first variant scores higher than a run of the second, where ties count half:
    Mann and Whitney's U over its largest value (Agarwal et al., 2021, section 4.3)."""
    return float((1 + np.sign(np.subtract.outer(np.asarray(scores), np.asarray(others)))).mean() / 2)


def improvement_interval(probability: float, runs: int, others: int) -> tuple[float, float]:
    """Interval of the probability of improvement on one dataset, from `probability_of_improvement` and numbers of runs.

    Newcombe's (2006, method 5): the probabilities p that are at most t standard errors from the observed one, with
    Hanley and McNeil's variance at p, and with the t quantile of runs + others - 2 degrees of freedom in place of the
    normal quantile. Unlike a bootstrap interval, it has a positive length even where every run of one variant is higher
    than every run of the other.
    """
    t = special.stdtrit(runs + others - 2, (1 + LEVEL) / 2)
    more = (runs + others) / 2 - 1

    def excess(p: float) -> float:
        variance = p * (1 - p) * (1 + more * (1 - p) / (2 - p) + more * p / (1 + p)) / (runs * others)
        return (probability - p) ** 2 - t**2 * variance

    step = 1e-9  # away from the observed end, where the variance is 0 too
    low = 0.0 if probability < step else optimize.brentq(excess, 0.0, probability - step)
    high = 1.0 if probability > 1 - step else optimize.brentq(excess, probability + step, 1.0)
    return float(low), float(high)


def compare_seeds(
    scores: Scores, others: Scores, episodes: tuple[int | None, int | None] = (None, None)
) -> SeedDifference:
    """Compare the scores of a variant with those of another one on the same dataset.

    Means are compared by Welch's t test, which does not assume equal variances. Runs with the same seed are not paired:
    a seed determines the order of the data and the initial weights, whose number and shape differ between variants, so
    that such runs have too little in common to be worth half the degrees of freedom. Without any variance in both,
    which is never a success rate's, there is no interval and no verdict.

    Args:
        scores: Scores of the variant.
        others: Scores of the other.
        episodes: For each of the two, as in `summarise_seeds`.
    """
    pair = np.asarray(scores, np.float64), np.asarray(others, np.float64)
    difference = float(pair[0].mean() - pair[1].mean())
    variances = np.square([standard_error(values, count) for values, count in zip(pair, episodes, strict=True)])
    if min(map(len, pair)) < FEWEST_FOR_INTERVAL or not variances.any():
        return SeedDifference(difference)
    error = np.sqrt(variances.sum())
    degrees = error**4 / (variances**2 / [len(values) - 1 for values in pair]).sum()
    half = special.stdtrit(degrees, (1 + LEVEL) / 2) * error
    p_value = 2 * special.stdtr(degrees, -abs(difference) / error)
    return SeedDifference(difference, float(difference - half), float(difference + half), float(p_value))


def compare_variants(
    scores: Mapping[str, Scores],
    reference: str,
    lower_is_better: bool = False,
    episodes: Mapping[str, int | None] | None = None,
) -> dict[str, SeedDifference]:
    """Compare variants with a reference among them, which is named before any score is known, on the same dataset.

    p-values are adjusted by Holm's (1979) method for the number of tests: if no variant differs from the reference,
    none is said to differ in 95% of cases. Variants with fewer than `FEWEST_FOR_INTERVAL` seeds are not tested.

    Args:
        scores: Scores of the seeds, by label of the variant.
        reference: Label of the variant that the others are compared with.
        lower_is_better: Whether the scores are losses.
        episodes: By label, as in `summarise_seeds`.

    Returns:
        The other variants' differences from the reference, by label.
    """
    counts = episodes or {}
    differences = {
        label: compare_seeds(values, scores[reference], (counts.get(label), counts.get(reference)))
        for label, values in scores.items()
        if label != reference
    }
    p_values = {label: result.p_value for label, result in differences.items() if result.p_value is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return {
        label: replace(result, p_value=adjusted.get(label), lower_is_better=lower_is_better)
        for label, result in differences.items()
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted by Holm's (1979) method for their number, in the same order."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.arange(len(order), 0, -1) * np.asarray(p_values, np.float64)[order]
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted.tolist()

"""Scores over several datasets, with Agarwal et al.'s statistics ("Deep RL at the Edge of the Statistical Precipice",
2021, section 4.3; rliable is their package), and intervals chosen by the coverage measured in results/coverage.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from decision_rnn.errors import InputError
from decision_rnn.evaluation.statistics import (
    FEWEST_FOR_INTERVAL,
    LEVEL,
    Scores,
    check_scores,
    improvement_interval,
    probability_of_improvement,
)

FEWEST_DATASETS, FEWEST_RUNS = 3, 30
"""Datasets, and runs over all of them, below which the interquartile mean has no interval."""

AGGREGATE = "interquartile mean over datasets and seeds"
"""What `aggregate_scores` gives, where it has no interval."""

AGGREGATE_NOTE = (
    f"{AGGREGATE} with a 95% interval from the stratified bootstrap (of nine datasets by 5, 10 and 20 seeds it covered "
    "in 96%, 96% and 95% of cases for normal scores, in 93%, 93% and 93% for two-humped, in 90%, 91% and 93% for "
    "skewed ones; of three datasets by 10 and 20 seeds in 94% and 95%, in 90% and 92%, in 82% and 88%: "
    "results/coverage)"
)
"""What it gives, to be printed beside it where it has an interval."""

IMPROVEMENT = "probability that a run scores higher than one of the other variant, averaged over datasets"
"""What `compare_over_datasets` gives, where it has no interval."""

IMPROVEMENT_NOTE = (
    f"{IMPROVEMENT}, with a 95% interval by itself (which covered in 94% to 99% of cases for normal scores: "
    "results/coverage)"
)
"""What it gives, to be printed beside it where it has an interval."""

PROFILE_NOTE = (
    "fraction of runs above a score, averaged over datasets, with a pointwise 95% band (which covered in 95% to 99% of "
    "cases for normal scores: results/coverage)"
)
"""What `performance_profile` gives, to be printed beside it."""


@dataclass(frozen=True)
class AggregateScore:
    """The scores of one variant over datasets and seeds.

    Attributes:
        score: The interquartile mean of all runs.
        low: The lower end of its 95% interval; None where there are fewer datasets than `FEWEST_DATASETS`, fewer runs
            than `FEWEST_RUNS`, or a dataset of fewer seeds than `FEWEST_FOR_INTERVAL`.
        high: Its upper end; likewise.
        runs: By dataset, how many there are.
    """

    score: float
    low: float | None
    high: float | None
    runs: dict[str, int]


@dataclass(frozen=True)
class Improvement:
    """How likely a run of one variant scores higher than one of another on the same dataset, any of several.

    Attributes:
        probability: Averaged over datasets; ties count half.
        low: The lower end of its 95% interval; None where a dataset has fewer than `FEWEST_FOR_INTERVAL` seeds.
        high: Its upper end; likewise.
        by_dataset: The probabilities that it is the average of.
    """

    probability: float
    low: float | None
    high: float | None
    by_dataset: dict[str, float]


@dataclass(frozen=True)
class PerformanceProfile:
    """Which part of its runs a variant has above each of several scores.

    Attributes:
        thresholds: (thresholds,) scores.
        fractions: (thresholds,) of the runs above, averaged over datasets.
        low: (thresholds,) the lower end of a pointwise 95% band.
        high: (thresholds,) its upper end.
    """

    thresholds: np.ndarray
    fractions: np.ndarray
    low: np.ndarray
    high: np.ndarray


def interquartile_mean(scores: Scores) -> float:
    """Mean of the middle half of scores of any shape: at either end a quarter of them, rounded down, is dropped."""
    return float(stats.trim_mean(scores, 0.25, axis=None))


def shared_datasets(variants: Iterable[Mapping[str, Scores]]) -> tuple[list[str], list[str]]:
    """The datasets that all variants have scores on, and those that some have none on: an aggregate over the first
    leaves out the second, and has to name them."""
    maps = list(variants)
    names = list(dict.fromkeys(name for scores in maps for name in scores))
    kept = [name for name in names if all(name in scores and len(scores[name]) for scores in maps)]
    return kept, [name for name in names if name not in kept]


def aggregate_scores(scores: Mapping[str, Scores], resamples: int = 10_000, seed: int = 0) -> AggregateScore:
    """The interquartile mean over datasets and seeds, with an interval from the stratified bootstrap.

    As in rliable, every run counts the same, so that a dataset where a seed is missing counts a little less, and the
    bootstrap redraws runs within their dataset. rliable's percentiles of it are too narrow for few seeds: a redrawn
    dataset's variance is (seeds - 1)/seeds of what it should be, and the quantiles are a normal distribution's. Here
    the interval is the score ± t standard errors, the bootstrap's standard deviation times
    sqrt(runs / (runs - datasets)), with t of runs - datasets degrees of freedom. Measured on normal scores of nine
    datasets by five seeds, it covers in 96% of cases, the percentiles in 91%; of three datasets by five it covers in
    91%, so that it is not given there (results/coverage). Of one dataset use `statistics.summarise_seeds`.

    Args:
        scores: By dataset; their seeds may differ in number.
        resamples: Of the bootstrap.
        seed: Of the redrawing.

    Raises:
        InputError: If there is no dataset, one without scores, or a score that is not finite.
    """
    values = _checked(scores)
    runs = {name: len(of) for name, of in values.items()}
    score = interquartile_mean(np.concatenate(list(values.values())))
    total = sum(runs.values())
    if min(runs.values()) < FEWEST_FOR_INTERVAL or len(runs) < FEWEST_DATASETS or total < FEWEST_RUNS:
        return AggregateScore(score, None, None, runs)
    half = half_width(bootstrap_means(list(values.values()), resamples, seed), total, len(runs))
    return AggregateScore(score, score - half, score + half, runs)


def half_width(bootstrapped: np.ndarray, runs: int, datasets: int) -> float:
    """Half the length of an interval: t standard errors from what the stratified bootstrap gave, (resamples,)."""
    degrees = runs - datasets
    return float(stats.t.ppf((1 + LEVEL) / 2, degrees) * bootstrapped.std() * np.sqrt(runs / degrees))


def bootstrap_means(datasets: Sequence[np.ndarray], resamples: int, seed: int) -> np.ndarray:
    """Interquartile means of the stratified bootstrap (Agarwal et al., 2021, section 4.1), (resamples,).

    Args:
        datasets: Of each the scores (seeds,), which are redrawn among themselves.
        resamples: How often.
        seed: Of the redrawing.
    """
    generator = np.random.default_rng(seed)
    redrawn = [generator.choice(scores, (resamples, len(scores))) for scores in datasets]
    return np.asarray(stats.trim_mean(np.concatenate(redrawn, axis=1), 0.25, axis=1))


def compare_over_datasets(scores: Mapping[str, Scores], others: Mapping[str, Scores]) -> Improvement:
    """The probability that one variant improves on another, averaged over datasets.

    The interval is made of the datasets' own (`statistics.improvement_interval`) by their distances from the estimate,
    root of the sum of squares (Zou and Donner, 2008). The stratified bootstrap, which the paper takes, has no length
    where all runs of a dataset are higher than all others; measured coverages of both are in results/coverage.

    Args:
        scores: By dataset, of the variant in question.
        others: By dataset, of the one that it is compared with.

    Raises:
        InputError: If they are not of the same datasets, there is none, or a score is not finite.
    """
    ours, theirs = _checked(scores), _checked(others)
    _, missing = shared_datasets([ours, theirs])
    if missing:
        raise InputError(f"only one of two variants has scores on {', '.join(missing)}: compare them on what both have")
    by_dataset = {name: probability_of_improvement(ours[name], theirs[name]) for name in ours}
    runs = [(len(ours[name]), len(theirs[name])) for name in ours]
    probabilities = np.array(list(by_dataset.values()))
    mean = float(probabilities.mean())
    if min(map(min, runs)) < FEWEST_FOR_INTERVAL:
        return Improvement(mean, None, None, by_dataset)
    ends = np.array([improvement_interval(p, *of) for p, of in zip(probabilities, runs, strict=True)])
    low, high = _mean_interval(probabilities, ends[:, 0], ends[:, 1])
    return Improvement(mean, float(low), float(high), by_dataset)


def performance_profile(scores: Mapping[str, Scores], thresholds: Scores) -> PerformanceProfile:
    """The fraction of runs above each threshold, averaged over datasets (Agarwal et al., 2021, equation 2).

    The pointwise band is made of the datasets' Wilson intervals as in `compare_over_datasets`. Where all runs of a
    dataset lie on one side of a threshold they still have a length; the paper's percentile bootstrap has none, and of
    nine datasets by five seeds its bands cover in 76% of cases, these in 98% (results/coverage).

    Args:
        scores: By dataset; their seeds may differ in number.
        thresholds: (thresholds,) scores.

    Raises:
        InputError: If there is no dataset, one without scores, or a score that is not finite.
    """
    values, points = _checked(scores), check_scores(thresholds, "the thresholds")
    above = np.array([(of[:, None] > points).mean(axis=0) for of in values.values()])
    runs = np.array([len(of) for of in values.values()])[:, None]
    z = stats.norm.ppf((1 + LEVEL) / 2)
    middle = (above + z**2 / (2 * runs)) / (1 + z**2 / runs)
    half = z * np.sqrt(above * (1 - above) / runs + z**2 / (4 * runs**2)) / (1 + z**2 / runs)
    low, high = _mean_interval(above, middle - half, middle + half)
    return PerformanceProfile(points, above.mean(axis=0), low, high)


def _checked(scores: Mapping[str, Scores]) -> dict[str, np.ndarray]:
    if not scores:
        raise InputError("there are no datasets to aggregate over: give the scores of at least one")
    return {name: check_scores(of, name) for name, of in scores.items()}


def _mean_interval(estimates: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Interval of the mean of independent estimates (first axis) from their intervals' ends (Zou and Donner, 2008)."""
    mean, count = estimates.mean(axis=0), len(estimates)
    return (
        mean - np.sqrt(((estimates - low) ** 2).sum(axis=0)) / count,
        mean + np.sqrt(((high - estimates) ** 2).sum(axis=0)) / count,
    )

"""Statistics of scores: over the seeds of one dataset, and over several datasets.

The aggregates over datasets are those of Agarwal et al. ("Deep RL at the Edge of the Statistical Precipice", 2021,
section 4.3; their package is rliable). Every interval is chosen by its coverage, which scripts/interval_coverage.py
measures in results/statistics.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy  # its parts are imported when they are first used

LEVEL = 0.95
"""Nominal coverage of every interval."""
INTERVAL: Literal["95% interval"] = "95% interval"
FEWEST_FOR_INTERVAL = 5
"""The fewest seeds for which an interval and a p-value are given; with fewer, every seed's score is shown instead."""
FEWEST_DATASETS, FEWEST_RUNS = 3, 30
"""The fewest datasets, and runs over all datasets, for which the interquartile mean gets an interval."""

Scores = Sequence[float] | np.ndarray
"""(seeds,) normalised scores, one per seed, at least one."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, an aggregate over datasets, or a difference of two variants.

    `spread` says what `low` and `high` delimit: a 95% interval, which is not adjusted for other comparisons, or the
    range of the scores if they are too few for an interval; None if there is neither. `error` is the standard error,
    with `degrees` of freedom; None with too few seeds. `p_value` is for the hypothesis that the variants are equal, and
    `equivalence` for the one that they differ by a margin or more; None if it is not tested.
    """

    value: float
    low: float | None = None
    high: float | None = None
    spread: Literal["range", "95% interval"] | None = None
    p_value: float | None = None
    error: float | None = None
    degrees: float = math.inf
    equivalence: float | None = None


def summarise_seeds(scores: Scores, episodes: int | None = None, complete: bool = True) -> Estimate:
    """The mean over seeds with Student's t interval; with the range below five seeds, if all scores are equal, or if
    some runs failed and the scores are not `complete`. NaN without a score.

    The ends are not clipped: scores can be below 0 and above 100. For success rates in percent, `episodes` is the
    number of episodes per seed (`success_episodes`).
    """
    values = np.asarray(scores, np.float64)
    if len(values) < 2:
        return Estimate(float(values.sum()) if len(values) else math.nan)
    mean, error = float(values.mean()), standard_error(values, episodes)
    if not complete or len(values) < FEWEST_FOR_INTERVAL or not error:
        return Estimate(mean, float(values.min()), float(values.max()), "range")
    return replace(t_test(mean, error, len(values) - 1), p_value=None)


def t_test(value: float, error: float, degrees: float) -> Estimate:
    """A value with Student's t interval, and the test of whether it is 0, from its standard error."""
    half, p_value = _t_quantile(degrees) * error, 2 * scipy.special.stdtr(degrees, -abs(value) / error)
    return Estimate(value, value - half, value + half, INTERVAL, float(p_value), error, degrees)


def combine_variances(variances: Sequence[float] | np.ndarray, degrees: Sequence[float]) -> tuple[float, float]:
    """Standard error of a sum of independent terms, and its degrees of freedom by Satterthwaite (1946), from the
    variances of the terms and their degrees of freedom."""
    total = float(np.sum(variances))
    return math.sqrt(total), total**2 / float((np.square(variances) / degrees).sum()) if total else math.inf


def success_episodes(per_episode: Sequence[Scores]) -> int | None:
    """The number of episodes per seed, the least of unequal ones, if all score 0 or 100; else None: no success rates.
    `per_episode` has the scores of each seed's episodes, (episodes,)."""
    rates = all(np.isin(scores, (0, 100)).all() for scores in per_episode)
    return min(map(len, per_episode)) if rates else None


def standard_error(scores: np.ndarray, episodes: int | None = None) -> float:
    """Standard error of the mean over seeds; 0 for scores that differ by rounding alone.

    For success rates, `episodes` is the number of episodes per seed. Their standard error is at least the one that
    binomial noise in the episodes causes, with the estimate of Agresti and Coull ("Approximate Is Better than 'Exact'
    for Interval Estimation of Binomial Proportions", 1998), which is positive also where every episode succeeds.
    """
    error = float(scipy.stats.sem(scores)) if np.ptp(scores) > 1e-9 * np.abs(scores).max() else 0.0
    if episodes is None:
        return error
    z, count = scipy.special.ndtri((1 + LEVEL) / 2), episodes * len(scores)
    share = (scores.mean() / 100 * count + z**2 / 2) / (count + z**2)
    return max(error, float(100 * np.sqrt(share * (1 - share) / (count + z**2))))


def compare_seeds(scores: Scores, others: Scores, episodes: tuple[int | None, int | None] = (None, None)) -> Estimate:
    """The difference of a variant from another one on the same dataset, by Welch's t test; `episodes` of both as in
    `summarise_seeds`.

    Runs with the same seed are not paired: a seed determines the initial weights, whose number and shape differ between
    variants, so that such runs have too little in common to be worth half the degrees of freedom.
    """
    pair = np.asarray(scores, np.float64), np.asarray(others, np.float64)
    difference = float(pair[0].mean() - pair[1].mean())
    variances = np.square([standard_error(values, count) for values, count in zip(pair, episodes, strict=True)])
    if min(map(len, pair)) < FEWEST_FOR_INTERVAL:
        return Estimate(difference)
    error, degrees = combine_variances(variances, [len(values) - 1 for values in pair])
    return t_test(difference, error, degrees) if error else Estimate(difference, error=0.0)


def average_differences(differences: Sequence[Estimate]) -> Estimate:
    """The mean of the differences on several datasets (`compare_seeds`), with Student's t interval and test if all have
    a standard error. The datasets are fixed and the seeds random, so that only the variances on each add up."""
    value = float(np.mean([each.value for each in differences]))
    variances = [each.error**2 for each in differences if each.error is not None]
    if len(variances) < len(differences) or not any(variances):
        return Estimate(value)
    error, degrees = combine_variances(variances, [each.degrees for each in differences])
    return t_test(value, error / len(differences), degrees)


def adjust_p_values(differences: Mapping[str, Estimate], margin: float | None = None) -> dict[str, Estimate]:
    """Differences, by label, with p-values adjusted by Holm's method for the number of tests: if no variant differs
    from the reference, the probability that one is called different is at most 5%.

    With a margin, equivalence is tested too, by the larger p-value of two one-sided t tests (Schuirmann, 1987), with
    the same adjustment: without it, that is below 5% where the 90% interval is within the margin.
    """
    p_values = {label: each.p_value for label, each in differences.items() if each.p_value is not None}
    larger = {
        label: float(scipy.special.stdtr(each.degrees, (abs(each.value) - margin) / each.error))
        for label, each in differences.items()
        if margin is not None and each.error
    }
    p_values, larger = (dict(zip(each, holm([*each.values()]), strict=True)) for each in (p_values, larger))
    return {
        label: replace(each, p_value=p_values.get(label), equivalence=larger.get(label))
        for label, each in differences.items()
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted by Holm's (1979) method for their number, in the same order."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.arange(len(order), 0, -1) * np.asarray(p_values, np.float64)[order]
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted.tolist()


def interquartile_mean(scores: Scores) -> float:
    """Mean of the middle half of scores of any shape: a quarter of them, rounded down, is dropped at either end."""
    return float(scipy.stats.trim_mean(scores, 0.25, axis=None))


def aggregate_scores(scores: Mapping[str, Scores], resamples: int = 10_000, seed: int = 0) -> Estimate:
    """The interquartile mean over datasets and seeds, given by dataset, with an interval from the stratified bootstrap.

    As in rliable, every run counts the same, and the bootstrap resamples runs within their dataset. rliable's
    percentile interval is too narrow for few seeds: the variance of a resampled dataset is (seeds - 1)/seeds of what it
    should be, and the quantiles are those of a normal distribution. Here it is the score ± `half_width`, or none with
    fewer datasets, runs or seeds than `FEWEST_DATASETS`, `FEWEST_RUNS` and `FEWEST_FOR_INTERVAL`.
    """
    datasets = [np.asarray(values, np.float64) for values in scores.values()]
    runs = [len(values) for values in datasets]
    score = interquartile_mean(np.concatenate(datasets))
    if min(runs) < FEWEST_FOR_INTERVAL or len(runs) < FEWEST_DATASETS or sum(runs) < FEWEST_RUNS:
        return Estimate(score)
    half = half_width(bootstrap_means(datasets, resamples, seed), sum(runs), len(runs))
    return Estimate(score, score - half, score + half, INTERVAL)


def half_width(bootstrapped: np.ndarray, runs: int, datasets: int) -> float:
    """Half the length of the interval from the stratified bootstrap's means (resamples,): t of runs - datasets degrees
    of freedom, times their standard deviation, times sqrt(runs / (runs - datasets))."""
    degrees = runs - datasets
    return float(_t_quantile(degrees) * bootstrapped.std() * np.sqrt(runs / degrees))


def bootstrap_means(datasets: Sequence[np.ndarray], resamples: int, seed: int) -> np.ndarray:
    """Interquartile means of the stratified bootstrap (Agarwal et al., 2021, section 4.1), (resamples,): the scores of
    each dataset, (seeds,), are resampled separately."""
    generator = np.random.default_rng(seed)
    redrawn = [generator.choice(scores, (resamples, len(scores))) for scores in datasets]
    return np.asarray(scipy.stats.trim_mean(np.concatenate(redrawn, axis=1), 0.25, axis=1))


def estimate_score(errors: np.ndarray, steps: Sequence[int]) -> Estimate:
    """1 - the mean error (seeds, episodes) per step, with an interval over episodes and, if there are several, over
    seeds; without one below five of either.

    It is Student's t interval of the logarithm of the error, which is skewed: no end is above 1.
    """
    means = errors.mean(axis=0)
    mean, (error, degrees) = float(np.average(means, weights=steps)), error_over_episodes(means, [errors], steps)
    number = min(errors.shape) if len(errors) > 1 else len(steps)
    if number < FEWEST_FOR_INTERVAL or not error:
        return Estimate(1 - mean)
    factor = math.exp(_t_quantile(degrees) * error / mean)
    return Estimate(1 - mean, 1 - mean * factor, 1 - mean / factor, INTERVAL)


def compare_errors(errors: np.ndarray, others: np.ndarray, steps: Sequence[int]) -> Estimate:
    """How much higher a variant's score, 1 - error, is than another's, paired by episode, with Student's t interval and
    test over episodes and seeds; errors are (seeds, episodes). With fewer than five of either there is neither."""
    gains = others.mean(axis=0) - errors.mean(axis=0)
    value, (error, degrees) = np.average(gains, weights=steps), error_over_episodes(gains, [errors, others], steps)
    tested = min(len(errors), len(others), len(steps)) >= FEWEST_FOR_INTERVAL and error
    return t_test(float(value), error, degrees) if tested else Estimate(float(value))


def error_over_episodes(means: np.ndarray, variants: Sequence[np.ndarray], steps: Sequence[int]) -> tuple[float, float]:
    """Standard error of the mean per step of `means`, (episodes,), those over the seeds of a variant's errors, (seeds,
    episodes), or the difference of two, and its degrees of freedom.

    The jackknife's variance over episodes and those over each variant's seeds add up, with Satterthwaite's (1946)
    degrees of freedom.
    """
    sums, lengths = means * steps, np.asarray(steps)
    without_each = (sums.sum() - sums) / np.maximum(lengths.sum() - lengths, 1)
    by_seed = [np.average(errors, axis=1, weights=steps) for errors in variants]
    samples = [values for values in ((len(steps) - 1) * without_each, *by_seed) if len(values) > 1]
    return combine_variances(
        [scipy.stats.sem(values) ** 2 for values in samples], [len(values) - 1 for values in samples]
    )


def compare_over_datasets(scores: Mapping[str, Scores], others: Mapping[str, Scores]) -> Estimate:
    """The probability that a run of one variant scores higher than a run of another, averaged over datasets, by which
    both are given. There is neither interval nor test if a dataset has fewer than `FEWEST_FOR_INTERVAL` seeds.

    The distances of the ends of the datasets' intervals (`improvement_interval`) from the estimates are added in
    squares (Zou and Donner, 2008). The paper's bootstrap has length zero where all runs of one are the higher ones.
    The test of one half is the two-sided rank-sum test stratified by dataset, with equal weights, by the normal
    approximation with Mann and Whitney's variance, (m + n + 1) / 12mn.
    """
    pairs = [(scores[name], others[name]) for name in scores]
    probabilities = np.array([probability_of_improvement(*pair) for pair in pairs])
    mean = float(probabilities.mean())
    if min(len(values) for pair in pairs for values in pair) < FEWEST_FOR_INTERVAL:
        return Estimate(mean)
    intervals = [improvement_interval(p, *map(len, pair)) for p, pair in zip(probabilities, pairs, strict=True)]
    below, above = np.linalg.norm(np.array(intervals) - probabilities[:, None], axis=0) / len(pairs)
    variance = sum((len(a) + len(b) + 1) / (12 * len(a) * len(b)) for a, b in pairs)
    p_value = float(2 * scipy.stats.norm.sf(abs((probabilities - 0.5).sum()) / np.sqrt(variance)))
    return Estimate(mean, mean - float(below), mean + float(above), INTERVAL, p_value)


def probability_of_improvement(scores: Scores, others: Scores) -> float:
    """The probability that a run of the first variant scores higher than a run of the second, where ties count half:
    Mann and Whitney's U over its largest value (Agarwal et al., 2021, section 4.3)."""
    return float((1 + np.sign(np.subtract.outer(np.asarray(scores), np.asarray(others)))).mean() / 2)


def improvement_interval(probability: float, runs: int, others: int) -> tuple[float, float]:
    """Interval of the probability of improvement on one dataset, given numbers of runs.

    Newcombe's (2006, method 5): the probabilities p that are at most t standard errors from the observed one, with
    Hanley and McNeil's variance at p, and with the t quantile of runs + others - 2 degrees of freedom in place of the
    normal quantile.
    """
    t, more = _t_quantile(runs + others - 2), (runs + others) / 2 - 1

    def excess(p: float) -> float:
        variance = p * (1 - p) * (1 + more * (1 - p) / (2 - p) + more * p / (1 + p)) / (runs * others)
        return (probability - p) ** 2 - t**2 * variance

    step = 1e-9  # away from the observed end, where the variance is 0 too
    low = 0.0 if probability < step else scipy.optimize.brentq(excess, 0.0, probability - step)
    high = 1.0 if probability > 1 - step else scipy.optimize.brentq(excess, probability + step, 1.0)
    return float(low), float(high)


def target_error(targets: Sequence[float], returns: Sequence[np.ndarray], data_range: tuple[float, float]) -> float:
    """Mean distance of the median return from the target return, in % of the data's range of returns.

    `targets` are inside this range, and `returns` are those of each target's episodes, (episodes,). An agent that
    achieves the middle of the range for every target has about 20 for the five targets of a comparison. Distances are
    divided by the range rather than by the target, which may be 0 or negative.
    """
    distances = np.abs([np.median(values) for values in returns] - np.asarray(targets))
    return float(100 * distances.mean() / (data_range[1] - data_range[0]))


def _t_quantile(degrees: float) -> float:
    """Student's t quantile of a two-sided interval."""
    return float(scipy.special.stdtrit(degrees, (1 + LEVEL) / 2))

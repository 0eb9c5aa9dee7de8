"""Aggregates over datasets, against scipy and against loops written from Agarwal et al. (2021)."""

import math

import numpy as np
import pytest
from scipy import stats

from decision_rnn.evaluation.aggregate import (
    FEWEST_DATASETS,
    FEWEST_RUNS,
    aggregate_scores,
    bootstrap_means,
    compare_over_datasets,
    interquartile_mean,
)
from decision_rnn.evaluation.statistics import improvement_interval


def suite(datasets: int, seeds: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {f"d{i}": generator.normal(20 + 10 * i, 2 + i, seeds) for i in range(datasets)}


def test_interquartile_mean_drops_the_lowest_and_highest_quarters() -> None:
    assert interquartile_mean(np.array([1000.0, 1, 2, 3, 4, 5, 6, -1000])) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert interquartile_mean(np.array([1.0, 2, 6])) == pytest.approx(3)  # too few to drop any
    scores = np.random.default_rng(0).normal(size=(9, 5))
    ordered = sorted(scores.ravel())
    assert interquartile_mean(scores) == pytest.approx(sum(ordered[11:34]) / 23)  # 45 // 4 at either end


def test_bootstrap_means_resamples_runs_within_their_dataset() -> None:
    """Two datasets of different level: resampling across them would give other means than 50."""
    assert set(bootstrap_means([np.full(8, 0.0), np.full(8, 100.0)], 100, seed=0)) == {50.0}


def test_bootstrap_means_agrees_with_a_loop() -> None:
    """Compares mean and standard deviation of the bootstrap means; the loop draws one run at a time."""
    scores = list(suite(3, 5).values())
    generator, looped = np.random.default_rng(1), []
    for _ in range(4000):
        redrawn = sorted(of[generator.integers(len(of))] for of in scores for _ in of)
        looped.append(np.mean(redrawn[3:12]))
    ours = bootstrap_means(scores, 4000, seed=0)
    assert ours.mean() == pytest.approx(np.mean(looped), abs=4 * np.std(looped) / math.sqrt(2000))
    assert ours.std() == pytest.approx(np.std(looped), rel=0.07)


def test_aggregate_scores_interval_is_a_t_quantile_times_the_bootstrap_standard_error() -> None:
    scores = suite(9, 5)
    aggregate = aggregate_scores(scores, resamples=500, seed=3)
    error = np.std(bootstrap_means(list(scores.values()), 500, seed=3)) * math.sqrt(45 / 36)
    half = stats.t.ppf(0.975, 36) * error
    assert (aggregate.low, aggregate.high) == pytest.approx((aggregate.score - half, aggregate.score + half))
    assert aggregate == aggregate_scores(scores, resamples=500, seed=3)


def test_aggregate_scores_of_too_few_runs_or_datasets_has_no_interval() -> None:
    for scores in (
        suite(9, 4),
        suite(1, 100),
        suite(FEWEST_DATASETS - 1, FEWEST_RUNS),
        suite(5, 5),
        suite(9, 5) | {"d9": np.ones(4)},
    ):
        aggregate = aggregate_scores(scores)
        assert (aggregate.low, aggregate.high) == (None, None)
        assert math.isfinite(aggregate.score)
    assert compare_over_datasets(suite(9, 4), suite(9, 5)).low is None


def test_aggregates_accept_datasets_with_different_numbers_of_seeds() -> None:
    scores = suite(9, 6)
    scores["d4"] = scores["d4"][:-1]
    aggregate = aggregate_scores(scores)
    assert aggregate.score == pytest.approx(stats.trim_mean(np.concatenate(list(scores.values())), 0.25))
    assert aggregate.low < aggregate.score < aggregate.high


def test_compare_over_datasets_averages_the_probability_of_improvement() -> None:
    """As in rliable: Mann and Whitney's U over the product of the numbers of runs, here unequal and with ties."""
    generator = np.random.default_rng(0)
    x = {name: generator.integers(0, 8, 7) for name in "abc"}
    y = {name: generator.integers(0, 8, 5) for name in "cba"}
    improvement = compare_over_datasets(x, y)
    by_hand = [stats.mannwhitneyu(x[name], y[name], alternative="greater").statistic / 35 for name in "abc"]
    assert improvement.score == pytest.approx(np.mean(by_hand))
    ends = np.array([improvement_interval(p, 7, 5) for p in by_hand])
    below, above = np.sqrt(((ends - np.array(by_hand)[:, None]) ** 2).sum(axis=0)) / 3
    assert improvement.low == pytest.approx(improvement.score - below)
    assert improvement.high == pytest.approx(improvement.score + above)


def test_probability_of_improvement_is_half_for_equal_scores_and_one_for_always_higher() -> None:
    scores = suite(9, 5)
    tie = compare_over_datasets(scores, scores)
    assert tie.score == 0.5
    assert tie.low < 0.5 < tie.high
    sure = compare_over_datasets(scores, {name: of - 1000 for name, of in scores.items()})
    assert (sure.score, sure.high) == (1.0, 1.0)
    assert 0.8 < sure.low < 1.0

"""Scores and intervals against values worked out by hand."""

import numpy as np
import pytest

from decision_rnn.data.spec import TASKS
from decision_rnn.evaluation.statistics import bootstrap_interval, interquartile_mean, summarise_seeds


def test_normalised_scores_of_the_published_references() -> None:
    spec = TASKS["hopper"].spec("d4rl/hopper-medium-v2", "Hopper-v4", "")
    assert spec.normalised(3234.3) == pytest.approx(100)
    assert spec.normalised(-20.272305) == pytest.approx(0)
    # D4RL's hopper-medium: a mean return of 1422 is published as 44.3
    assert spec.normalised(np.array([1422.0]))[0] == pytest.approx(44.3, abs=0.05)


def test_the_interquartile_mean_drops_the_outer_quarters() -> None:
    assert interquartile_mean(np.array([1000.0, 1, 2, 3, 4, 5, 6, -1000])) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert interquartile_mean(np.array([1.0, 2, 6])) == pytest.approx(3)


def test_the_interval_of_equal_scores_is_a_point_and_it_stays_within_the_data() -> None:
    assert bootstrap_interval([np.full(5, 7.0)]) == (7.0, 7.0)
    low, high = bootstrap_interval([np.array([10.0, 20.0, 30.0])])
    assert 10 <= low < 20 < high <= 30


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Forty runs drawn from a normal distribution, whose interquartile mean is its mean."""
    generator = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        low, high = bootstrap_interval([generator.normal(50, 10, 40)], resamples=500, seed=trial)
        covered += low <= 50 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_runs_are_redrawn_within_their_task() -> None:
    """Two tasks of different level: mixing them up would widen the interval to between the levels."""
    low, high = bootstrap_interval([np.full(8, 0.0), np.full(8, 100.0)])
    assert low == high == 50.0


def test_few_seeds_have_a_range_and_no_interval() -> None:
    """The bootstrap interval of three scores is their range, that of one a point: neither is an interval at 95%."""
    one = summarise_seeds([80.2])
    assert (one.score, one.score_is, one.spread, one.low, one.high) == (80.2, "score", None, None, None)
    three = summarise_seeds([89.6, 90.4, 90.0])
    assert (three.score_is, three.spread, three.low, three.high) == ("mean", "range", 89.6, 90.4)
    assert three.score == pytest.approx(90.0)
    assert summarise_seeds([1.0, 2.0, 3.0, 10.0]).score == 4.0  # the mean, not the middle two
    five = summarise_seeds([1.0, 10.0, 11.0, 12.0, 100.0])
    assert (five.score, five.score_is, five.spread) == (11.0, "interquartile mean", "95% interval")
    assert (five.low, five.high) == bootstrap_interval([np.array([1.0, 10.0, 11.0, 12.0, 100.0])])

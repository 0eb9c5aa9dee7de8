"""Statistics over the seeds of one dataset, against values computed by hand and by scipy."""

import itertools
import math
import statistics

import numpy as np
import pytest
from scipy import stats

from decision_rnn.data.spec import TASKS, DatasetSpec
from decision_rnn.evaluation.statistics import (
    compare_seeds,
    compare_variants,
    deviation_over_seeds,
    improvement_interval,
    probability_of_improvement,
    share_interval,
    success_episodes,
    summarise_seeds,
)


def test_normalised_scores_of_hopper_use_the_references_of_d4rl() -> None:
    returns = {"return_mean": 0.0, "return_sd": 1.0, "return_min": 0.0, "return_max": 1.0}
    names = {"name": "hopper", "environment_id": "Hopper-v4", "comparable": "", "fingerprint": ""}
    spec = DatasetSpec(**names, **returns, **TASKS["hopper"].scores(), spaces={})
    assert spec.normalised(np.array([3234.3, -20.272305])) == pytest.approx([100, 0])
    assert spec.normalised(1422.0) == pytest.approx(44.3, abs=0.05)  # published with D4RL's hopper-medium


def test_summarise_seeds_of_fewer_than_five_seeds_gives_a_range_and_no_interval() -> None:
    """The bootstrap interval of three scores is their range, that of one a point: neither covers 95%."""
    one = summarise_seeds([80.2])
    assert (one.score, one.spread, one.low, one.high) == (80.2, None, None, None)
    three = summarise_seeds([89.6, 90.4, 90.0])
    assert (three.spread, three.low, three.high) == ("range", 89.6, 90.4)
    assert three.score == pytest.approx(90.0)
    four = summarise_seeds([1.0, 2.0, 3.0, 10.0])
    assert (four.score, four.spread) == (4.0, "range")


@pytest.mark.parametrize("scores", [[1.0, 10.0, 11.0, 12.0, 100.0], [-3.0, 104.2, 55.0, 54.0, 90.1, 88.0, 12.5]])
def test_summarise_seeds_of_five_or_more_seeds_gives_scipys_t_interval_of_the_mean(scores: list[float]) -> None:
    summary = summarise_seeds(scores)
    assert summary.spread == "95% interval"
    assert summary.score == pytest.approx(np.mean(scores))
    theirs = stats.ttest_1samp(scores, 0).confidence_interval(0.95)
    assert (summary.low, summary.high) == pytest.approx((theirs.low, theirs.high))


def test_summarise_seeds_interval_of_five_normal_scores_covers_the_mean_in_93_to_97_percent() -> None:
    """In 2,000 draws, 95% coverage falls below 93% once in 50,000 times; the percentile bootstrap covers 83%."""
    draws = np.random.default_rng(0).normal(70, 10, (2000, 5))
    covered = np.mean([summary.low <= 70 <= summary.high for summary in map(summarise_seeds, draws)])
    assert 0.93 <= covered <= 0.97


def test_deviation_over_seeds_of_agents_is_that_of_scores_minus_episode_noise() -> None:
    """The episode noise computed in another way: half the variance over episodes of the difference of two seeds."""
    generator = np.random.default_rng(0)
    scores = generator.normal(0, 4, (6, 1)) + generator.normal(0, 9, (1, 30)) + generator.normal(0, 5, (6, 30))
    found = deviation_over_seeds(list(scores))
    assert found is not None
    luck = np.mean([np.var(a - b, ddof=1) / 2 for a, b in itertools.combinations(scores, 2)]) / 30
    assert found.of_scores == pytest.approx(statistics.stdev(scores.mean(axis=1).tolist()))
    assert found.of_agents**2 == pytest.approx(found.of_scores**2 - luck)


def test_deviation_over_seeds_of_agents_is_unbiased_and_that_of_scores_too_large() -> None:
    generator = np.random.default_rng(1)
    found = []
    for _ in range(400):
        scores = generator.normal(70, 3, (10, 1)) + generator.normal(0, 5, 50) + generator.normal(0, 16, (10, 50))
        deviation = deviation_over_seeds(list(scores))
        assert deviation is not None
        found.append((deviation.of_scores**2, deviation.of_agents**2))
    of_scores, of_agents = np.mean(found, axis=0)
    assert of_scores == pytest.approx(9 + 256 / 50, rel=0.1)
    assert of_agents == pytest.approx(9, rel=0.1)


def test_deviation_over_seeds_is_0_for_equal_agents_and_none_for_too_few_scores() -> None:
    lucky = deviation_over_seeds([[0.0, 3.0], [3.0, 0.0]])
    assert lucky is not None
    assert (lucky.of_scores, lucky.of_agents) == (0.0, 0.0)
    assert deviation_over_seeds([[1.0, 2.0]]) is None
    assert deviation_over_seeds([[1.0], [2.0]]) is None


def test_probability_of_improvement_is_mann_whitneys_u() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        a, b = generator.integers(0, 6, 7).astype(float), generator.integers(1, 7, 5).astype(float)  # with ties
        assert probability_of_improvement(a, b) == pytest.approx(stats.mannwhitneyu(a, b).statistic / 35)


@pytest.mark.parametrize(("probability", "runs", "others"), [(0.0, 5, 5), (0.36, 5, 7), (0.5, 20, 20), (1.0, 5, 5)])
def test_improvement_interval_holds_probabilities_within_t_standard_errors(
    probability: float, runs: int, others: int
) -> None:
    """On a fine grid, with Hanley and McNeil's variance for equal numbers of runs, as Newcombe uses it."""
    low, high = improvement_interval(probability, runs, others)
    grid = np.linspace(1e-6, 1 - 1e-6, 200_001)
    q1, q2 = grid / (2 - grid), 2 * grid**2 / (1 + grid)
    more = (runs + others) / 2 - 1
    variance = (grid * (1 - grid) + more * (q1 - grid**2) + more * (q2 - grid**2)) / (runs * others)
    inside = grid[np.abs(grid - probability) <= stats.t.ppf(0.975, runs + others - 2) * np.sqrt(variance)]
    assert (low, high) == pytest.approx((inside[0], inside[-1]), abs=2e-5)
    assert 0 <= low <= probability <= high <= 1


def test_compare_seeds_difference_and_p_value_are_those_of_welchs_t_test() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        a, b = generator.normal(60, 10, 5), generator.normal(50, 2, 8)
        ours, theirs = compare_seeds(a, b), stats.ttest_ind(a, b, equal_var=False)
        interval = theirs.confidence_interval(0.95)
        assert ours.p_value == pytest.approx(theirs.pvalue)
        assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high))
        assert ours.difference == pytest.approx(a.mean() - b.mean())
        assert (ours.verdict == "better") == (ours.low > 0)


def test_compare_seeds_of_nearly_equal_scores_shows_no_difference() -> None:
    scores = [88.0, 91.5, 54.0, 90.2, 89.9]
    for others in (scores, scores[::-1], [88.4, 91.1, 54.3, 89.7, 90.1]):
        tie = compare_seeds(scores, others)
        assert (tie.verdict, tie.difference) == ("no difference shown", pytest.approx(0, abs=1e-9))
        assert tie.low < 0 < tie.high
        assert tie.p_value > 0.9


def test_scores_without_variance_have_no_interval() -> None:
    for scores, others in (([90.1] * 5, [90.1] * 5), ([0.1 + 0.2] * 5, [0.3] * 6), ([90.1] * 5, [80.0] * 5)):
        result = compare_seeds(scores, others)
        assert (result.low, result.high, result.p_value, result.verdict) == (None, None, None, None)
        assert result.difference == pytest.approx(scores[0] - others[0])
    assert summarise_seeds([90.1] * 5).spread == "range"
    assert compare_seeds([80.0] * 5, [90.0, 90.1, 90.2, 90.3, 90.4]).verdict == "worse"


def test_success_rates_have_at_least_binomial_noise() -> None:
    """Five seeds of 20 episodes each that all succeed, against Agresti and Coull's interval by hand."""
    assert success_episodes([[0.0, 100.0, 100.0], [100.0] * 3]) == 3
    assert success_episodes([[0.0, 99.0], [100.0, 100.0]]) is None
    summary = summarise_seeds([100.0] * 5, episodes=20)
    share, count = (100 + 1.959964**2 / 2) / (100 + 1.959964**2), 100 + 1.959964**2
    error = 100 * math.sqrt(share * (1 - share) / count)
    assert summary.spread == "95% interval"
    assert summary.high - 100 == pytest.approx(stats.t.ppf(0.975, 4) * error, rel=1e-5)
    one_failure = compare_seeds([100.0] * 5, [99.0] * 5, (100, 100))
    assert one_failure.low < 0 < one_failure.high
    assert one_failure.p_value > 0.05
    assert compare_seeds([100.0] * 5, [95.0] * 5, (20, 20)).verdict == "no difference shown"
    assert compare_seeds([100.0] * 5, [20.0] * 5, (20, 20)).verdict == "better"
    seeds = [60.0, 90.0, 75.0, 100.0, 20.0]  # noise between the seeds is more than that of the episodes
    assert summarise_seeds(seeds, episodes=20) == summarise_seeds(seeds)


def test_success_rates_of_equal_agents_are_seldom_significant() -> None:
    """Five seeds of 20 episodes that succeed with probability 0.97, 400 times: at most 5% significant differences."""
    rates = np.random.default_rng(0).binomial(20, 0.97, (400, 2, 5)) * 5.0
    verdicts = [compare_seeds(a, b, (20, 20)).verdict for a, b in rates]
    assert np.mean([verdict != "no difference shown" for verdict in verdicts]) <= 0.05


def test_compare_variants_adjusts_p_values_by_holms_method() -> None:
    """Three comparisons: the least p-value is tripled, the next doubled, and none is less than the one before."""
    generator = np.random.default_rng(3)
    scores = {label: generator.normal(mean, 4, 5) for label, mean in zip("abcd", (80, 74, 73, 60), strict=True)}
    compared = compare_variants(scores, reference="a")
    alone = {label: compare_seeds(scores[label], scores["a"]).p_value for label in "bcd"}
    first, second, third = sorted(alone, key=alone.__getitem__)
    expected = {first: min(1, 3 * alone[first])}
    expected[second] = max(expected[first], min(1, 2 * alone[second]))
    expected[third] = max(expected[second], alone[third])
    assert {label: of.p_value for label, of in compared.items()} == pytest.approx(expected)
    for label, of in compared.items():
        assert of.verdict == ("no difference shown" if expected[label] >= 0.05 else "worse")
        assert of.low == compare_seeds(scores[label], scores["a"]).low  # intervals are not adjusted


def test_compare_variants_family_wise_error_rate_is_at_most_5_percent() -> None:
    """Six equal variants with five seeds, 200 times: at most 5% of the comparisons may show any difference."""
    generator, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        scores = dict(zip("abcdef", generator.normal(70, 10, (6, 5)), strict=True))
        wrong += {of.verdict for of in compare_variants(scores, "a").values()} != {"no difference shown"}
    assert wrong / 200 <= 0.05


def test_fewer_than_five_seeds_have_no_verdict_and_do_not_count_in_the_adjustment() -> None:
    scores = {"a": [50.0, 51, 52, 53, 54], "b": [60.0, 61, 62, 63, 64], "few": [70.0, 80.0]}
    compared = compare_variants(scores, reference="a")
    few = compared["few"]
    assert (few.difference, few.verdict, few.low, few.high, few.p_value) == (75.0 - 52.0, None, None, None, None)
    assert compared["b"].p_value == compare_seeds(scores["b"], scores["a"]).p_value


@pytest.mark.parametrize(("successes", "count"), [(0, 5), (3, 5), (50, 50), (210, 250)])
def test_share_interval_is_wilsons(successes: int, count: int) -> None:
    expected = stats.binomtest(successes, count).proportion_ci(method="wilson")
    assert share_interval(successes / count, count) == pytest.approx((expected.low, expected.high), abs=1e-12)

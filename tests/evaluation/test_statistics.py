"""Statistics over seeds and datasets, against scipy, loops from the papers and the coverage in results/statistics."""

import itertools
import json
import math
from collections import Counter

import interval_coverage
import numpy as np
import pytest
from scipy import stats

from decision_rnn.comparison.plan import SPREAD
from decision_rnn.evaluation.statistics import (
    FEWEST_DATASETS,
    FEWEST_RUNS,
    Estimate,
    adjust_p_values,
    aggregate_scores,
    average_differences,
    bootstrap_means,
    compare_over_datasets,
    compare_seeds,
    improvement_interval,
    interquartile_mean,
    success_episodes,
    summarise_seeds,
    target_error,
)
from decision_rnn.evaluation.targets import spread_targets

MEASURED = json.loads((interval_coverage.FOLDER / "coverage.json").read_text())


def suite(datasets: int, seeds: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {f"d{i}": generator.normal(20 + 10 * i, 2 + i, seeds) for i in range(datasets)}


def test_fewer_than_five_seeds_have_a_range_and_no_interval() -> None:
    """The bootstrap interval of three scores is their range, that of one a point: neither covers 95%."""
    one, three = summarise_seeds([80.2]), summarise_seeds([89.6, 90.4, 90.0])
    assert (one.value, one.spread, one.low, one.high) == (80.2, None, None, None)
    assert (three.spread, three.low, three.high) == ("range", 89.6, 90.4)
    assert three.value == pytest.approx(90.0)
    assert summarise_seeds([1.0, 2.0, 3.0, 10.0]).spread == "range"


@pytest.mark.parametrize("scores", [[1.0, 10.0, 11.0, 12.0, 100.0], [-3.0, 104.2, 55.0, 54.0, 90.1, 88.0, 12.5]])
def test_interval_of_the_mean_is_scipys_t_interval(scores: list[float]) -> None:
    summary, theirs = summarise_seeds(scores), stats.ttest_1samp(scores, 0).confidence_interval(0.95)
    assert (summary.spread, summary.value) == ("95% interval", pytest.approx(np.mean(scores)))
    assert (summary.low, summary.high) == pytest.approx((theirs.low, theirs.high))


def test_difference_and_p_value_are_those_of_welchs_t_test() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        a, b = generator.normal(60, 10, 5), generator.normal(50, 2, 8)
        ours, theirs = compare_seeds(a, b), stats.ttest_ind(a, b, equal_var=False)
        interval = theirs.confidence_interval(0.95)
        assert ours.p_value == pytest.approx(theirs.pvalue)
        assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high))
        assert ours.value == pytest.approx(a.mean() - b.mean())


def test_scores_without_variance_have_no_interval() -> None:
    for scores, others in (([90.1] * 5, [90.1] * 5), ([0.1 + 0.2] * 5, [0.3] * 6), ([90.1] * 5, [80.0] * 5)):
        result = compare_seeds(scores, others)
        assert (result.low, result.high, result.p_value) == (None, None, None)
        assert result.value == pytest.approx(scores[0] - others[0])
    assert summarise_seeds([90.1] * 5).spread == "range"
    assert compare_seeds([80.0] * 5, [90.0, 90.1, 90.2, 90.3, 90.4]).p_value < 0.05


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
    assert one_failure.p_value > 0.05 < compare_seeds([100.0] * 5, [95.0] * 5, (20, 20)).p_value
    assert compare_seeds([100.0] * 5, [20.0] * 5, (20, 20)).p_value < 0.05
    seeds = [60.0, 90.0, 75.0, 100.0, 20.0]  # noise between the seeds is more than that of the episodes
    assert summarise_seeds(seeds, episodes=20) == summarise_seeds(seeds)


def test_success_rates_of_equal_agents_are_seldom_significant() -> None:
    """Five seeds of 20 episodes that succeed with probability 0.97, 400 times: at most 5% significant differences."""
    rates = np.random.default_rng(0).binomial(20, 0.97, (400, 2, 5)) * 5.0
    assert np.mean([compare_seeds(a, b, (20, 20)).p_value < 0.05 for a, b in rates]) <= 0.05


def test_p_values_are_adjusted_by_holms_method() -> None:
    """Three comparisons: the least p-value is tripled, the next doubled, and none is less than the one before."""
    generator = np.random.default_rng(3)
    scores = {label: generator.normal(mean, 4, 5) for label, mean in zip("abcd", (80, 74, 73, 60), strict=True)}
    alone = {label: compare_seeds(scores[label], scores["a"]) for label in "bcd"}
    compared = adjust_p_values(alone | {"few": compare_seeds([70.0, 80.0], scores["a"])})  # which is not tested
    first, second, third = sorted(alone, key=lambda label: alone[label].p_value)
    expected = {first: min(1, 3 * alone[first].p_value)}
    expected[second] = max(expected[first], min(1, 2 * alone[second].p_value))
    expected[third] = max(expected[second], alone[third].p_value)
    assert {label: compared[label].p_value for label in "bcd"} == pytest.approx(expected)
    assert {label: compared[label].low for label in "bcd"} == {label: alone[label].low for label in "bcd"}
    assert (compared["few"].value, compared["few"].p_value) == (pytest.approx(75 - scores["a"].mean()), None)


def test_equivalence_is_that_of_two_one_sided_t_tests() -> None:
    """Against scipy's one-sided Welch tests of shifted scores; unadjusted, the 90% interval is within the margin."""
    generator, decided = np.random.default_rng(0), set()
    for _ in range(30):
        a = generator.normal(80, 3, 6)
        variants = {label: generator.normal(mean, 2, 5) for label, mean in zip("bcd", (80, 82, 86), strict=True)}
        larger = []
        for scores in variants.values():
            above = stats.ttest_ind(scores + 5, a, equal_var=False, alternative="greater").pvalue
            below = stats.ttest_ind(scores - 5, a, equal_var=False, alternative="less").pvalue
            larger.append(max(above, below))
            alone = adjust_p_values({"b": compare_seeds(scores, a)}, 5.0)["b"]
            assert alone.equivalence == pytest.approx(larger[-1])
            interval = stats.ttest_ind(scores, a, equal_var=False).confidence_interval(0.9)
            assert (alone.equivalence < 0.05) == (interval.low > -5 and interval.high < 5)
            decided.add((alone.equivalence < 0.05, alone.p_value < 0.05))
        differences = {label: compare_seeds(scores, a) for label, scores in variants.items()}
        order, expected, least = np.argsort(larger), np.zeros(3), 0.0
        for rank, number in enumerate(order):  # Holm's adjustment, in a loop
            least = expected[number] = max(least, min(1.0, (3 - rank) * larger[number]))
        compared = adjust_p_values(differences, 5.0)
        assert [each.equivalence for each in compared.values()] == pytest.approx(list(expected))
        assert [each.p_value for each in compared.values()] == [
            each.p_value for each in adjust_p_values(differences).values()
        ]
    assert decided == set(itertools.product((True, False), repeat=2))


def test_mean_difference_has_the_variances_of_all_datasets() -> None:
    generator = np.random.default_rng(0)
    x, y = (interval_coverage.suite("skewed", 9, seeds, 20, generator) for seeds in (5, 7))
    for scores, others, value, error, degrees in zip(x, y, *interval_coverage.over_datasets(x, y), strict=True):
        pairs = list(zip(scores, others, strict=True))
        ours = average_differences([compare_seeds(*pair) for pair in pairs])
        assert (ours.value, ours.error, ours.degrees) == pytest.approx((value, error, degrees))
        assert (ours.low, ours.high) == pytest.approx(stats.t.interval(0.95, degrees, value, error))
        assert ours.p_value == pytest.approx(2 * stats.t.sf(abs(value) / error, degrees))
    pairs.append((np.full(5, 70.0), np.full(5, 60.0)))  # does not vary, and adds to the mean alone
    more = average_differences([compare_seeds(*pair) for pair in pairs])
    assert (more.value, more.error) == pytest.approx(((9 * ours.value + 10) / 10, 9 * ours.error / 10))
    few = average_differences([compare_seeds(*pair) for pair in [*pairs, (scores[0][:4], others[0])]])
    assert (few.low, few.p_value) == (None, None)
    assert average_differences([compare_seeds(*pairs[-1])] * 2) == Estimate(10.0)


def test_mean_difference_covers_95_percent() -> None:
    rows = list(interval_coverage.mean_differences(10_000, np.random.default_rng(0)))
    assert [row for row in rows if not 0.94 < row["coverage"] < 0.98] == []


@pytest.mark.parametrize(
    ("shapes", "level"), [(("normal", "normal"), 0.055), (("skewed", "skewed"), 0.055), (("skewed", "normal"), 0.075)]
)
def test_difference_of_the_margin_is_seldom_equivalent(shapes: tuple[str, str], level: float) -> None:
    """For nine datasets and five seeds, 5 points in either direction."""
    generator = np.random.default_rng(0)
    scores = (interval_coverage.suite(shape, 9, 5, 20_000, generator) for shape in shapes)
    value, error, degrees = interval_coverage.over_datasets(*scores)
    for shift in (-5, 5):
        assert (stats.t.cdf((np.abs(value + shift) - 5) / error, degrees) < 0.05).mean() < level


def test_interquartile_mean_drops_a_quarter_at_either_end() -> None:
    assert interquartile_mean(np.array([1000.0, 1, 2, 3, 4, 5, 6, -1000])) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert interquartile_mean(np.array([1.0, 2, 6])) == pytest.approx(3)  # too few to drop any
    scores = np.random.default_rng(0).normal(size=(9, 5))
    assert interquartile_mean(scores) == pytest.approx(sum(sorted(scores.ravel())[11:34]) / 23)  # 45 // 4 at either end


def test_bootstrap_resamples_runs_within_their_dataset() -> None:
    """Against a loop that draws one run at a time; two datasets of different level have the same mean every time."""
    assert set(bootstrap_means([np.full(8, 0.0), np.full(8, 100.0)], 100, seed=0)) == {50.0}
    scores, generator, looped = list(suite(3, 5).values()), np.random.default_rng(1), []
    for _ in range(4000):
        redrawn = sorted(values[generator.integers(len(values))] for values in scores for _ in values)
        looped.append(np.mean(redrawn[3:12]))
    ours = bootstrap_means(scores, 4000, seed=0)
    assert ours.mean() == pytest.approx(np.mean(looped), abs=4 * np.std(looped) / math.sqrt(2000))
    assert ours.std() == pytest.approx(np.std(looped), rel=0.07)


def test_aggregate_interval_is_t_times_the_bootstrap_error() -> None:
    scores = suite(9, 5)
    aggregate = aggregate_scores(scores, resamples=500, seed=3)
    error = np.std(bootstrap_means(list(scores.values()), 500, seed=3)) * math.sqrt(45 / 36)
    half = stats.t.ppf(0.975, 36) * error
    assert (aggregate.low, aggregate.high) == pytest.approx((aggregate.value - half, aggregate.value + half))
    scores = suite(9, 6)
    scores["d4"] = scores["d4"][:-1]
    assert aggregate_scores(scores).value == pytest.approx(stats.trim_mean(np.concatenate([*scores.values()]), 0.25))


def test_too_few_runs_or_datasets_have_no_interval_over_datasets() -> None:
    few = suite(FEWEST_DATASETS - 1, FEWEST_RUNS)
    for scores in (suite(9, 4), suite(1, 100), few, suite(5, 5), suite(9, 5) | {"d9": np.ones(4)}):
        assert (aggregate_scores(scores).low, aggregate_scores(scores).spread) == (None, None)
    assert compare_over_datasets(suite(9, 4), suite(9, 5)).low is None


def test_improvement_is_averaged_and_its_intervals_combined() -> None:
    """As in rliable: Mann and Whitney's U over the product of the numbers of runs, here unequal and with ties."""
    generator = np.random.default_rng(0)
    x = {name: generator.integers(0, 8, 7) for name in "abc"}
    y = {name: generator.integers(0, 8, 5) for name in "cba"}
    improvement = compare_over_datasets(x, y)
    by_hand = [stats.mannwhitneyu(x[name], y[name], alternative="greater").statistic / 35 for name in "abc"]
    assert improvement.value == pytest.approx(np.mean(by_hand))
    ends = np.array([improvement_interval(p, 7, 5) for p in by_hand])
    below, above = np.sqrt(((ends - np.array(by_hand)[:, None]) ** 2).sum(axis=0)) / 3
    expected = improvement.value - below, improvement.value + above
    assert (improvement.low, improvement.high) == pytest.approx(expected)
    scores = suite(9, 5)
    sure = compare_over_datasets(scores, {name: values - 1000 for name, values in scores.items()})
    assert (compare_over_datasets(scores, scores).value, sure.value, sure.high) == (0.5, 1.0, 1.0)
    assert 0.8 < sure.low < 1.0


@pytest.mark.parametrize(("probability", "runs", "others"), [(0.0, 5, 5), (0.36, 5, 7), (0.5, 20, 20), (1.0, 5, 5)])
def test_improvement_interval_is_within_t_standard_errors(probability: float, runs: int, others: int) -> None:
    """On a fine grid, with Hanley and McNeil's variance for equal numbers of runs, as Newcombe uses it."""
    low, high = improvement_interval(probability, runs, others)
    grid = np.linspace(1e-6, 1 - 1e-6, 200_001)
    q1, q2 = grid / (2 - grid), 2 * grid**2 / (1 + grid)
    more = (runs + others) / 2 - 1
    variance = (grid * (1 - grid) + more * (q1 - grid**2) + more * (q2 - grid**2)) / (runs * others)
    inside = grid[np.abs(grid - probability) <= stats.t.ppf(0.975, runs + others - 2) * np.sqrt(variance)]
    assert (low, high) == pytest.approx((inside[0], inside[-1]), abs=2e-5)
    assert 0 <= low <= probability <= high <= 1


def test_target_error_is_the_mean_distance_of_medians() -> None:
    returns = [np.array([-100.0]), np.array([50, 20, 1000]), np.full(4, 280.0)]  # off by 0, 50 and 20 of 500
    assert target_error([-100.0, 0.0, 300.0], returns, (-200, 300)) == pytest.approx((0 + 10 + 4) / 3)
    for count, error in ((SPREAD, 20), (49, 25)):
        targets = spread_targets(0, 1000, count)
        assert target_error(targets, [np.array([target]) for target in targets], (0, 1000)) == 0.0
        assert target_error(targets, [np.array([500.0])] * count, (0, 1000)) == pytest.approx(error, abs=1)


def test_every_interval_covers_at_least_93_percent_of_normal_scores() -> None:
    rows = [row for row in MEASURED["one dataset"] if row["interval"] == "Student's t" and row["seeds"] >= 5]
    rows = [row for row in rows + MEASURED["differences"] if row["shape"] == "normal"]
    aggregates = MEASURED["interquartile mean"]
    rows += [row for row in aggregates if (row["shape"], row["interval"], row["given"]) == ("normal", "t", "yes")]
    rows += [row for row in MEASURED["probability of improvement"] if row["interval"] == "Newcombe's"]
    assert len(rows) > 40
    assert [row for row in rows if row["coverage"] < 0.93] == []


def cases(rows: list[dict]) -> Counter:
    return Counter(tuple(row.get(key) for key in ("shape", "datasets", "seeds", "interval", "truth")) for row in rows)


@pytest.mark.parametrize(
    ("make", "table"),
    [
        ("differences", "differences"),
        pytest.param("one_dataset", "one dataset", marks=pytest.mark.slow),
        pytest.param("aggregates", "interquartile mean", marks=pytest.mark.slow),
        pytest.param("improvements", "probability of improvement", marks=pytest.mark.slow),
    ],
)
def test_coverage_json_has_every_case_of_the_script(make: str, table: str) -> None:
    measured = list(getattr(interval_coverage, make)(10, np.random.default_rng(0)))
    assert cases(measured) == cases(MEASURED[table])
    assert all(0 <= row["coverage"] <= 1 for row in measured + MEASURED[table])


def test_intervals_of_the_script_agree_with_scipy() -> None:
    scores = 100 - np.random.default_rng(0).lognormal(2.5, 0.8, 12)
    intervals = interval_coverage.mean_intervals(scores[None], np.random.default_rng(0))
    bootstrap = stats.bootstrap((scores,), np.mean, method="percentile").confidence_interval
    low, high = (end[0] for end in intervals["percentile bootstrap"])
    assert (low, high) == pytest.approx((bootstrap.low, bootstrap.high), abs=0.15 * scores.std())
    exact = stats.t.interval(0.95, len(scores) - 1, scores.mean(), stats.sem(scores))
    assert tuple(end[0] for end in intervals["Student's t"]) == pytest.approx(exact)

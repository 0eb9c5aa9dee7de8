"""Tables and findings: means, intervals, significance, failed runs, and aggregates over datasets."""

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_comparison import TARGETS, achieved, make_dataset, make_trial, of_scores, of_trials
from scipy import stats

from decision_rnn import Metric, register_metric
from decision_rnn.comparison.record import Trial
from decision_rnn.comparison.results import Comparison, write_comparison
from decision_rnn.comparison.summary import overall, target_errors
from decision_rnn.comparison.tables import Section, Table, sections
from decision_rnn.evaluation.results import MetricResult
from decision_rnn.evaluation.rollout import EPISODE
from decision_rnn.evaluation.statistics import aggregate_scores, compare_over_datasets, holm

FIVE = [50.0, 51.0, 52.0, 53.0, 60.0]
LOW = [10.0, 11.0, 12.0, 13.0, 14.0]
MAIN = "target 3600, beyond the data"
DATASETS = ("local/x", "local/y", "local/z")


def section_of(comparison: Comparison) -> Section:
    """The section of the only dataset, or that over all."""
    return sections(comparison)[0]


def table_of(comparison: Comparison, title: str = "score") -> Table:
    return next(table for table in section_of(comparison).tables if table.title.startswith(title))


def column(comparison: Comparison, head: str, title: str = "score") -> dict[str, str]:
    """Cells of a column by name of the variant, in the table whose title begins so."""
    table = table_of(comparison, title)
    return {row[0]: row[1 + table.head.index(head)] for row in table.rows}


def rows_of(comparison: Comparison) -> dict[str, dict[str, object]]:
    """The rows at the main target by label."""
    return {row["variant"]: row for row in comparison.table() if row["target_return"] == 3600}


@pytest.mark.parametrize(
    ("scores", "text"),
    [([80.2], "80.2"), ([80.2, 90.4], "85.3 (80.2, 90.4)"), ([89.6, 90.4, 90.0], "90.0 (89.6, 90.4, 90.0)")],
)
def test_few_seeds_show_each_score_and_no_test(scores: list[float], text: str) -> None:
    comparison = of_scores({"mingru": scores, "lru": scores})
    assert column(comparison, MAIN)["minGRU"] == text
    heads = table_of(comparison).head
    assert heads[:3] == [MAIN, "target 3000, best in the data", "target 1800, inside the data"]
    assert not [head for head in heads if head.startswith("difference")]
    assert {(row["p_value"], row["significant"]) for row in comparison.table()} == {(None, None)}


def test_metrics_may_not_be_called_as_what_stands_beside_them(registries: None) -> None:
    comparison = of_scores({"mingru": FIVE, "lru": LOW})
    taken = {
        *comparison.table()[0],
        *(table.title for table in section_of(comparison).tables),
        *np.dtype([*EPISODE]).names,
    }
    assert taken >= {"score", "seeds", "low", "cost", "length"}
    for name in taken:
        with pytest.raises(ValueError, match=f"{name!r}"):
            register_metric(type("Mine", (Metric,), {"name": name}))


def test_five_seeds_have_intervals_and_welchs_test() -> None:
    comparison = of_scores({"mingru": FIVE, "lru": LOW, "same": FIVE})
    t = stats.t.interval(0.95, 4, np.mean(FIVE), stats.sem(FIVE))
    assert column(comparison, MAIN)["minGRU"] == f"53.2 [{t[0]:.1f}, {t[1]:.1f}]"
    welch = stats.ttest_ind(LOW, FIVE, equal_var=False)
    low, high = welch.confidence_interval()
    differences = column(comparison, "difference from minGRU")
    assert differences["LRU"].startswith(f"-41.2 [{low:+.1f}, {high:+.1f}]")
    rows = rows_of(comparison)
    assert rows["lru"]["p_value"] == pytest.approx(2 * welch.pvalue)  # Holm over two variants
    assert (rows["lru"]["difference_low"], rows["lru"]["difference_high"]) == pytest.approx((low, high))
    assert [rows[label]["significant"] for label in ("mingru", "lru", "same")] == [None, True, False]
    assert {row["reference"] for row in rows.values()} == {"mingru"}
    finding = section_of(comparison).finding
    assert "significantly lower: LRU" in finding
    assert "no significant difference: same" in finding
    higher = section_of(of_scores({"mingru": LOW, "lru": FIVE})).finding
    for part in ("LRU scores highest", MAIN, column(comparison, MAIN)["minGRU"], "5 seeds", "significantly higher"):
        assert part in higher


def test_failed_seed_of_reference_leaves_it_and_tests_nothing() -> None:
    """The first variant is the reference whatever happens to its runs."""
    rows = rows_of(of_scores({"mingru": FIVE, "lru": LOW, "gru": LOW}, failed=[("mingru", 4)]))
    assert {row["reference"] for row in rows.values()} == {"mingru"}
    assert {row["significant"] for row in rows.values()} == {None}
    assert rows["lru"]["difference"] == pytest.approx(np.mean(LOW) - np.mean(FIVE[:4]))


def test_failed_runs_mark_the_mean_and_take_its_interval_and_test() -> None:
    """Six of eight seeds would be enough for an interval."""
    scores = [80.0, 81, 82, 83, 84, 85, 86, 87]
    comparison = of_scores({"mingru": scores, "lru": scores, "gru": scores}, failed=[("lru", 2), ("lru", 5)])
    cells = column(comparison, MAIN)
    assert cells["LRU"] == "83.5 (80.0, 81.0, 83.0, 84.0, 86.0, 87.0), 2 of 8 failed"
    assert "failed" not in cells["minGRU"]
    assert column(comparison, "difference from minGRU")["LRU"].endswith("not tested")
    rows = rows_of(comparison)
    assert (rows["lru"]["seeds"], rows["lru"]["failed"], rows["lru"]["spread"]) == (6, 2, "range")
    assert (rows["lru"]["significant"], rows["gru"]["significant"]) == (None, False)
    assert any("LRU, seed 2" in note for note in section_of(comparison).notes)
    nothing = of_scores({"mingru": FIVE, "lru": LOW}, failed=[("lru", seed) for seed in range(5)])
    assert column(nothing, MAIN)["LRU"] == "5 of 5 failed"
    assert repr(nothing).splitlines()[-1] == "  LRU: 5 of 5 failed"
    row = rows_of(nothing)["lru"]
    assert (row["seeds"], row["failed"], row["difference"]) == (0, 5, None)
    assert np.isnan(row["score"])  # type: ignore[call-overload]
    assert "the loss became NaN" in str(of_scores({"mingru": [1.0]}, failed=[("mingru", 0)]))  # no run has a result
    best = of_scores({"mingru": FIVE, "lru": [90.0, 91, 92, 93, 94]}, failed=[("lru", 0)])
    assert section_of(best).finding.startswith("minGRU")


def test_equivalence_stands_beside_significance() -> None:
    means = {"mingru": 80.0, "lru": 75.0, "gru": 79.5, "bc": 39.0}
    scores = {label: mean + np.array([-1.0, -0.5, 0.0, 0.5, 1.0]) for label, mean in means.items()}
    made = of_scores(scores)
    comparison = replace(made, margin=8.0)
    cells = column(comparison, "difference from minGRU")
    assert cells["LRU"].endswith("], significantly lower but equivalent within 8")
    assert cells["GRU"].endswith("], equivalent within 8")
    assert cells["BC"].endswith("], significantly lower")
    assert "equivalent within 8: GRU" in section_of(comparison).finding
    rows = rows_of(comparison)
    rows |= {row["variant"]: row for row in comparison.table() if row["variant"] == "bc"}
    assert {label: row["equivalent"] for label, row in rows.items()} == {
        "mingru": None,
        "lru": True,
        "gru": True,
        "bc": False,
    }
    assert "equivalent" not in str(made)
    few = replace(of_scores({label: values[:4] for label, values in scores.items()}), margin=8.0)
    assert {row["equivalent"] for row in few.table()} == {None}


def test_comparison_below_five_seeds_is_preliminary(tmp_path: Path) -> None:
    def heading(comparison: Comparison) -> str:
        """The Markdown above the first section, which the page has too."""
        write_comparison(tmp_path, comparison)
        above = str(comparison).partition("## ")[0].strip()
        page = (tmp_path / "report.html").read_text()
        assert re.findall("Preliminary: [a-z0-9 ]+", page.partition("<section>")[0]) == [above.strip("*")] * bool(above)
        return above

    assert heading(of_scores({"a": FIVE, "b": FIVE})) == ""
    assert heading(of_scores({"a": FIVE[:1], "b": LOW[:1]})) == "**Preliminary: 1 seed**"
    assert heading(of_scores({"a": FIVE[:3], "b": LOW[:3]}, DATASETS)) == "**Preliminary: 3 seeds**"
    assert heading(of_scores({"a": FIVE, "b": FIVE}, failed=[("b", 0)])) == "**Preliminary: 4 to 5 seeds**"
    assert heading(of_scores({"a": [*FIVE, 1.0], "b": [*LOW, 1.0]}, failed=[("b", 0)])) == ""
    missing = of_scores({"a": FIVE, "b": LOW}, DATASETS)
    trials = tuple(run for run in missing.trials if (run.variant, run.dataset) != ("b", "local/y"))
    assert heading(replace(missing, trials=trials)) == "**Preliminary: 0 to 5 seeds**"


def test_behaviour_cloning_has_its_score_where_variants_are_compared() -> None:
    comparison = of_scores({"mingru": FIVE, "bc": LOW})
    assert column(comparison, MAIN)["BC"] == column(comparison, "target 3000, best in the data")["BC"]
    assert column(comparison, "target 1800, inside the data")["BC"] == ""
    (cloned,) = [row for row in comparison.table() if row["variant"] == "bc"]
    assert (cloned["target_return"], cloned["roles"], cloned["significant"]) == (None, "bc", True)
    assert column(of_scores({"bc": LOW}), "score")["BC"].startswith("12.0 [")


def test_target_return_error_is_that_of_every_seed() -> None:
    returns = [
        {1000.0: [900.0, 1100.0], 2000.0: [1500.0, 1700.0]},
        {1000.0: [1000.0, 1000.0], 2000.0: [2000.0, 2000.0]},
    ]
    trials = [
        make_trial("mingru", 50, seed, targets=tuple(achieved(at, by_target.get(at, [0.0])) for at in TARGETS))
        for seed, by_target in enumerate(returns)
    ]
    comparison = of_trials(trials)
    assert target_errors(comparison, make_dataset())["mingru"] == pytest.approx([100 * (0 + 400) / 2 / 3000, 0])
    assert column(comparison, "target-return error, %")["minGRU"] == "3.3 (6.7, 0.0)"


def test_failed_runs_take_the_interval_of_every_column() -> None:
    """Of tasks, metrics and the target-return error, as of the score."""
    scores = [70.0, 71.0, 72.0, 73.0, 80.0, 75.0]
    made, trials = of_scores({"mingru": scores, "lru": scores}, failed=[("lru", 0)]), list[Trial]()
    for run in made.trials:
        score = run.targets[0].score_mean
        metrics = {"success": MetricResult(mean=score, sd=1.0, values=(score - 1, score + 1))}
        targets = tuple(replace(each, task_scores=(score, score), metrics=metrics) for each in run.targets)
        trials.append(replace(run, targets=targets))
    made = replace(made, trials=tuple(trials))
    heads = {"score": "target-return error, %", "success": MAIN, "score by task": "task 1"}
    for cells in (column(made, head, title) for title, head in heads.items()):
        assert ("[" in cells["minGRU"], "[" in cells["LRU"], cells["LRU"].count(",")) == (True, False, 4)
    rows = rows_of(made)
    assert (rows["lru"]["success_low"], rows["lru"]["success_high"]) == (71.0, 80.0)


def test_tasks_are_those_of_the_main_target() -> None:
    tasks = {"mingru": [(80.0, 20.0), (60.0, 40.0)], "bc": [(30.0, 10.0)]}
    trials = []
    for label, by_seed in tasks.items():
        for seed, scores in enumerate(by_seed):
            trial = make_trial(label, 50.0 + 4 * seed, seed)
            targets = tuple(replace(result, task_scores=scores) for result in trial.targets)
            trials.append(replace(trial, targets=targets))
    table = table_of(of_trials(trials), "score by task")
    assert table.head == ["task 1", "task 2"]
    assert table.rows == [["minGRU", "70.0 (80.0, 60.0)", "30.0 (20.0, 40.0)"], ["BC", "30.0", "10.0"]]


def test_costs_are_medians_or_minima_over_seeds_if_known() -> None:
    trials = [
        make_trial("mingru", 1, seed, training_seconds=seconds, action_microseconds=action, state_bytes=None)
        for seed, (seconds, action) in enumerate([(100.0, 30.0), (300.0, 20.0), (200.0, 25.0)])
    ]
    table = table_of(of_trials(trials), "cost")
    assert table.head == ["parameters", "training", "one action"]
    assert table.rows[0][2:] == ["200 s", "20 µs"]


def test_markdown_has_how_it_was_made_and_how_variants_act() -> None:
    made = of_scores({"mingru": [1.0, 2.0], "long": [1.0, 2.0], "bc": [3.0, 4.0]})
    first, long, bc = made.variants
    window = replace(
        long,
        name="Long",
        config={**long.config, "evaluation": {"inference": "window", "window": 7, "actions": "greedy"}},
    )
    made = replace(made, variants=(first, window, bc))
    assert [*made.names.values()] == ["minGRU", "Long (window of 7)", "BC"]
    text = str(made)
    for part in (made.command, "0123456789ab", "Test CPU", "torch 2.12.0", "20,000 steps", "seeds 0 and 1"):
        assert part in text
    assert "\n| minGRU | 1.5 (1.0, 2.0) |" in text


def random_scores(missing: Collection[tuple[str, str]] = (), seeds: int = 2) -> Comparison:
    """A comparison of a, b and bc on three datasets, without the runs of these (variant, dataset) pairs."""
    scores = np.random.default_rng(0).normal([[[80]], [[75]], [[40]]], 5, (3, 3, seeds))
    made = of_scores(dict(zip(("a", "b", "bc"), scores, strict=True)), DATASETS)
    return replace(made, trials=tuple(run for run in made.trials if (run.variant, run.dataset) not in missing))


def by_dataset(comparison: Comparison, label: str, datasets: Collection[str] = DATASETS) -> dict[str, list[float]]:
    """Scores of a variant at the main target."""
    return {name: [run.targets[0].score_mean for run in comparison.runs(name)[label]] for name in datasets}


def test_aggregates_are_over_the_datasets_that_all_share() -> None:
    comparison = random_scores({("a", "local/x")})
    summary = overall(comparison)
    assert summary is not None
    for label, aggregate in summary.aggregates.items():
        assert tuple(summary.scores[label]) == DATASETS[1:]
        scores = np.sort(np.concatenate([*by_dataset(comparison, label, DATASETS[1:]).values()]))
        assert aggregate.value == pytest.approx(scores[1:3].mean())
    assert "local/x" in section_of(comparison).notes[0]
    without = random_scores({("a", name) for name in DATASETS})
    summary = overall(without)
    assert summary is not None
    assert (list(summary.scores), summary.improvements) == (["b", "bc"], {})
    assert "a" in section_of(without).notes[0]
    few = random_scores({("a", "local/x"), ("a", "local/y")})
    assert overall(few) is None
    assert table_of(few).head == [*DATASETS]


def test_improvements_are_tested_with_holms_adjustment() -> None:
    """Against the rank-sum test of each dataset: U's summed, with the variance under the null hypothesis."""
    comparison = random_scores(seeds=10)
    summary = overall(comparison)
    assert summary is not None
    p_values = []
    for label in ("b", "bc"):
        scores, others = by_dataset(comparison, label), by_dataset(comparison, "a")
        u = sum(stats.mannwhitneyu(scores[name], others[name]).statistic for name in DATASETS)
        p_values.append(2 * stats.norm.sf(abs(u - 3 * 50) / np.sqrt(3 * 10 * 10 * 21 / 12)))
        expected, improvement = compare_over_datasets(scores, others), summary.improvements[label]
        assert (improvement.value, improvement.low) == (expected.value, expected.low)
    assert [each.p_value for each in summary.improvements.values()] == pytest.approx(holm(p_values))
    assert summary.aggregates["a"] == aggregate_scores(by_dataset(comparison, "a"))
    assert "significantly lower: BC" in section_of(comparison).finding.replace("b and BC", "BC")


def test_the_larger_number_of_datasets_and_variants_are_rows() -> None:
    scores = np.array([[10.0], [20.0], [30.0]])
    many = of_scores({"mingru": scores, "lru": scores + 5}, DATASETS)
    assert column(many, "LRU") == {"local/x": "15.0", "local/y": "25.0", "local/z": "35.0"}
    assert table_of(many).row_head == "dataset"
    few = of_scores({"mingru": scores[:2], "lru": scores[:2] + 5}, DATASETS[:2])
    assert column(few, "local/y") == {"minGRU": "20.0", "LRU": "25.0"}
    assert table_of(few).row_head == "variant"


def test_failed_run_takes_the_variants_aggregate_interval() -> None:
    scores = {label: np.arange(30.0).reshape(3, 10) for label in "abc"}
    made = of_scores(scores, DATASETS, failed=[("b", 3)])
    summary = overall(made)
    assert summary is not None
    assert [label for label, mean in summary.aggregates.items() if mean.low is None] == ["b"]
    assert [label for label, each in summary.improvements.items() if each.p_value is not None] == ["c"]
    assert column(made, "interquartile mean", "over datasets")["b"].endswith(", 3 of 30 failed")
    summary = overall(of_scores(scores, DATASETS, failed=[("a", 3)]))
    assert summary is not None
    assert {each.p_value for each in summary.improvements.values()} == {None}


def test_differences_over_datasets_are_tested_with_holms_adjustment() -> None:
    """Against the contrast of all means, with the variances of all of them and Satterthwaite's degrees of freedom."""
    comparison = replace(random_scores(seeds=6), margin=9.0)
    p_values, larger, cells = [], [], column(comparison, "mean difference from a", "over datasets")
    for label in ("b", "bc"):
        scores, others = ([*by_dataset(comparison, each).values()] for each in (label, "a"))
        variances = np.var([*scores, *others], axis=1, ddof=1) / 6
        value, error = np.mean(scores) - np.mean(others), np.sqrt(variances.sum()) / 3
        t = stats.t(5 * variances.sum() ** 2 / (variances**2).sum())
        low, high = value + error * t.ppf(0.025), value + error * t.ppf(0.975)
        assert cells["BC" if label == "bc" else label].startswith(f"{value:+.1f} [{low:+.1f}, {high:+.1f}], ")
        p_values.append(2 * t.sf(abs(value) / error))
        larger.append(max(t.sf((value + 9) / error), t.cdf((value - 9) / error)))
    summary = overall(comparison)
    assert summary is not None
    assert [each.p_value for each in summary.differences.values()] == pytest.approx(holm(p_values))
    assert [each.equivalence for each in summary.differences.values()] == pytest.approx(holm(larger))
    assert {each.equivalence for each in summary.improvements.values()} == {None}
    assert cells["b"].endswith("equivalent within 9")
    assert "equivalent within 9: b" in section_of(comparison).finding.replace("significantly lower but ", "")
    assert "significantly lower: BC" in section_of(comparison).finding
    failed = of_scores({label: np.arange(30.0).reshape(3, 10) for label in "abc"}, DATASETS, failed=[("b", 3)])
    summary = overall(failed)
    assert summary is not None
    assert [label for label, each in summary.differences.items() if each.p_value is not None] == ["c"]
    assert [head for head in table_of(random_scores(seeds=4), "over").head if "difference" in head] == []


def test_success_rates_have_the_noise_of_their_episodes() -> None:
    """Five seeds at 100% and five at 99%, of a hundred episodes each: nothing varies, and nothing is certain."""
    trials = [
        make_trial(
            label, 0, seed, targets=tuple(achieved(at, [3000.0] * count + [0.0] * (100 - count)) for at in TARGETS)
        )
        for label, count in {"mingru": 100, "lru": 99, "gru": 50}.items()
        for seed in range(5)
    ]
    rows = rows_of(of_trials(trials))
    assert rows["mingru"]["high"] > rows["mingru"]["low"]  # type: ignore[operator]
    assert (rows["lru"]["significant"], rows["gru"]["significant"]) == (False, True)

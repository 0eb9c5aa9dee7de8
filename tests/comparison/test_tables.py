"""Tables and findings: means, intervals, significance, failed runs, and aggregates over datasets."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest
from made_comparison import ROUND, achieved, made_comparison, of_scores, of_trials, trials_of_scores
from scipy import stats

from decision_rnn.comparison.plan import SPREAD
from decision_rnn.comparison.record import CheckpointScores, Trial
from decision_rnn.comparison.results import Comparison
from decision_rnn.comparison.summary import Summary
from decision_rnn.comparison.tables import Section, Table, sections
from decision_rnn.evaluation.statistics import (
    aggregate_scores,
    compare_over_datasets,
    holm,
    summarise_seeds,
    target_error,
)
from decision_rnn.evaluation.targets import spread_targets

FIVE = [50.0, 51.0, 52.0, 53.0, 60.0]
LOW = [10.0, 11.0, 12.0, 13.0, 14.0]
MAIN = "target 3600, beyond the data"
DATASETS = ("local/x", "local/y", "local/z")


def section_of(comparison: Comparison) -> Section:
    """The section of the only dataset, or that over all."""
    return sections(comparison.summary)[0]


def column(section: Section, title: str, head: str) -> dict[str, str]:
    """Cells of a column by name of the variant, in the table whose title begins so."""
    table = table_of(section, title)
    return {row[0]: row[1 + table.head.index(head)] for row in table.rows}


def table_of(section: Section, title: str) -> Table:
    return next(table for table in section.tables if table.title.startswith(title))


def failing(comparison: Comparison, label: str, seeds: Collection[int]) -> Comparison:
    """The comparison whose runs of these seeds failed."""
    made = made_comparison((label,), 5, controls=(), cloning=(), failed=[(label, seed) for seed in seeds])
    trials = [run for run in comparison.trials if not (run.variant == label and run.seed in seeds)]
    failed = [replace(run, dataset=comparison.datasets[0].data.name) for run in made.failed]
    return replace(comparison, trials=tuple(trials), failed=tuple(failed))


@pytest.mark.parametrize(
    ("scores", "text"),
    [([80.2], "80.2"), ([80.2, 90.4], "85.3 (80.2, 90.4)"), ([89.6, 90.4, 90.0], "90.0 (89.6, 90.4, 90.0)")],
)
def test_few_seeds_show_each_score_and_no_test(scores: list[float], text: str) -> None:
    comparison = of_scores(mingru=scores, lru=scores)
    section = section_of(comparison)
    assert column(section, "score", MAIN)["minGRU"] == text
    assert not [head for head in table_of(section, "score").head if head.startswith("difference")]
    assert {row["p_value"] for row in comparison.table()} == {None}
    assert {row["significant"] for row in comparison.table()} == {None}


def test_five_seeds_have_intervals_and_welchs_test() -> None:
    comparison = of_scores(mingru=FIVE, lru=LOW, same=FIVE)
    section, t = section_of(comparison), stats.t.interval(0.95, 4, np.mean(FIVE), stats.sem(FIVE))
    assert column(section, "score", MAIN)["minGRU"] == f"53.2 [{t[0]:.1f}, {t[1]:.1f}]"
    welch = stats.ttest_ind(LOW, FIVE, equal_var=False)
    low, high = welch.confidence_interval()
    differences = column(section, "score", "difference from minGRU")
    assert differences["LRU"] == f"-41.2 [{low:+.1f}, {high:+.1f}], significant"
    assert differences["same"].endswith("not significant")
    rows = {row["variant"]: row for row in comparison.table() if row["target_return"] == 3600}
    assert rows["lru"]["p_value"] == pytest.approx(2 * welch.pvalue)  # Holm over two variants
    assert (rows["lru"]["difference_low"], rows["lru"]["difference_high"]) == pytest.approx((low, high))
    assert [rows[label]["significant"] for label in ("mingru", "lru", "same")] == [None, True, False]
    assert {row["reference"] for row in rows.values()} == {"mingru"}
    assert "significantly lower: LRU" in section.differences
    assert "no significant difference: same" in section.differences


def test_failed_seed_of_reference_leaves_it_and_tests_nothing() -> None:
    """The first variant is the reference whatever happens to its runs."""
    comparison = failing(of_scores(mingru=FIVE, lru=LOW, gru=LOW), "mingru", [4])
    rows = [row for row in comparison.table() if row["target_return"] == 3600]
    assert {row["reference"] for row in rows} == {"mingru"}
    assert {row["significant"] for row in rows} == {None}
    assert rows[1]["difference"] == pytest.approx(np.mean(LOW) - np.mean(FIVE[:4]))
    assert "minGRU" in section_of(comparison).differences


def test_failed_runs_mark_the_mean_and_take_its_interval_and_test() -> None:
    """Six of eight seeds would be enough for an interval."""
    scores = [80.0, 81, 82, 83, 84, 85, 86, 87]
    comparison = failing(of_scores(mingru=scores, lru=scores, gru=scores), "lru", [2, 5])
    section = section_of(comparison)
    cells = column(section, "score", MAIN)
    assert cells["LRU"] == "83.5 (80.0, 81.0, 83.0, 84.0, 86.0, 87.0), 2 of 8 failed"
    assert "failed" not in cells["minGRU"]
    assert column(section, "score", "difference from minGRU")["LRU"].endswith("not tested")
    rows = {row["variant"]: row for row in comparison.table() if row["target_return"] == 3600}
    assert (rows["lru"]["seeds"], rows["lru"]["failed"], rows["lru"]["spread"]) == (6, 2, "range")
    assert (rows["lru"]["significant"], rows["gru"]["significant"]) == (None, False)
    assert any(note.startswith("Failed: LRU, seed 2") for note in section.notes)
    nothing = failing(of_scores(mingru=FIVE, lru=LOW), "lru", range(5))
    assert column(section_of(nothing), "score", MAIN)["LRU"] == "5 of 5 failed"
    (row,) = [row for row in nothing.table() if row["variant"] == "lru" and row["target_return"] == 3600]
    assert (row["seeds"], row["failed"], row["difference"]) == (0, 5, None)
    assert np.isnan(row["score"])


def test_variant_with_failed_runs_is_not_called_the_best() -> None:
    comparison = failing(of_scores(mingru=FIVE, lru=[90.0, 91, 92, 93, 94]), "lru", [0])
    assert section_of(comparison).finding.startswith("minGRU scores highest")


def test_finding_has_mean_interval_and_number_of_seeds() -> None:
    text = section_of(of_scores(mingru=LOW, lru=FIVE)).finding
    interval = summarise_seeds(FIVE)
    for part in ("LRU", MAIN, "53.2", f"{interval.low:.1f} to {interval.high:.1f}", "5 seeds"):
        assert part in text
    assert "BC" in section_of(of_scores(mingru=[50.0, 51.0], bc=[60.0, 61.0])).finding


def test_behaviour_cloning_has_its_score_where_variants_are_compared() -> None:
    comparison = of_scores(mingru=FIVE, bc=LOW)
    section = section_of(comparison)
    assert column(section, "score", MAIN)["BC"] == column(section, "score", "target 3000, best in the data")["BC"]
    assert column(section, "score", "target 1800, inside the data")["BC"] == ""
    cloned = [row for row in comparison.table() if row["variant"] == "bc"]
    assert [(row["target_return"], row["roles"]) for row in cloned] == [(None, "bc")]
    assert cloned[0]["significant"]
    alone = of_scores(bc=LOW)
    assert column(section_of(alone), "score", "score")["BC"].startswith("12.0 [")


def test_targets_are_named_by_where_they_are_in_the_data() -> None:
    heads = table_of(section_of(of_scores(mingru=FIVE)), "score").head
    assert heads[:3] == (MAIN, "target 3000, best in the data", "target 1800, inside the data")


def test_target_return_error_is_that_of_every_seed() -> None:
    returns = [[[900.0, 1100.0], [1500.0, 1700.0]], [[1000.0, 1000.0], [2000.0, 2000.0]]]
    spread = [target for target in ROUND.targets if target.roles == ("spread",)]
    trials = []
    for trial, of_seed in zip(trials_of_scores([50.0, 50.0]), returns, strict=True):
        played = {target.target_return: of for target, of in zip(spread, of_seed, strict=True)}
        targets = [
            achieved(ROUND.data, of.target_return, played.get(of.target_return, of.returns)) for of in trial.targets
        ]
        trials.append(replace(trial, targets=tuple(targets)))
    errors = [100 * (0 + 400) / 2 / 3000, 0.0]
    summary = Summary(of_trials(trials)).target_errors(ROUND)["mingru"]
    assert summary.score == pytest.approx(np.mean(errors))
    assert (summary.low, summary.high) == pytest.approx((min(errors), max(errors)))
    targets = spread_targets(0, 3000, SPREAD)
    middle = target_error(targets, [np.full(3, 1500.0)] * SPREAD, (0.0, 3000.0))
    assert middle == pytest.approx(20, abs=0.5)


def test_scores_by_task_are_those_of_the_main_target() -> None:
    seeds = {"mingru": [(80.0, 20.0), (60.0, 40.0)], "bc": [(30.0, 10.0)]}
    trials = [
        replace(trial, targets=tuple(replace(of, task_scores=scores) for of in trial.targets))
        for label, tasks in seeds.items()
        for trial, scores in zip(trials_of_scores([50.0] * len(tasks), label, bc=label == "bc"), tasks, strict=True)
    ]
    section = section_of(of_trials(trials))
    assert table_of(section, "score by task").head == ("task 1", "task 2")
    assert table_of(section, "score by task").rows == (
        ("minGRU", "70.0 (80.0, 60.0)", "30.0 (20.0, 40.0)"),
        ("BC", "30.0", "10.0"),
    )


def test_checkpoints_have_their_last_and_best_score_of_each_seed() -> None:
    def checkpoint(step: int, score: float) -> CheckpointScores:
        return CheckpointScores(step=step, targets=(achieved(ROUND.data, 3600.0, (30 * score,)),))

    trials = [
        replace(trial, checkpoints=(checkpoint(5_000, early), checkpoint(10_000, late)))
        for trial, (early, late) in zip(trials_of_scores([0.0, 0.0]), [(70.0, 60.0), (20.0, 40.0)], strict=True)
    ]
    table = table_of(section_of(of_trials(trials)), "checkpoint, 20 episodes")
    assert table.rows == (("minGRU", "50.0 (40.0 to 60.0)", "55.0 (40.0 to 70.0)"),)
    steps, scores = Summary(of_trials(trials)).learning_curves(ROUND)["mingru"]
    assert steps.tolist() == [5_000, 10_000]
    np.testing.assert_allclose(scores, [[70.0, 60.0], [20.0, 40.0]])
    lacking = [replace(trials[0], checkpoints=trials[0].checkpoints[1:]), trials[1]]
    assert Summary(of_trials(lacking)).learning_curves(ROUND)["mingru"][0].tolist() == [10_000]


def test_costs_are_medians_or_minima_over_seeds_if_known() -> None:
    costs = [(100.0, 30.0), (300.0, 20.0), (200.0, 25.0)]
    trials = [
        replace(trial, training_seconds=seconds, action_microseconds=action, state_bytes=None)
        for trial, (seconds, action) in zip(trials_of_scores([1.0] * 3), costs, strict=True)
    ]
    table = table_of(section_of(of_trials(trials)), "cost")
    assert table.head == ("parameters", "training", "one action")
    assert table.rows[0][2:] == ("200 s", "20 µs")


def test_detail_table_has_seeds_and_quantiles_of_returns() -> None:
    comparison = made_comparison(("mingru",), 3, controls=())
    table = table_of(section_of(comparison), "every target")
    assert table.detail
    row = next(row for row in table.rows if row[:2] == ("minGRU", "1800, inside the data"))
    results = [target for run in comparison.trials_of("mingru", "standin/hopper-medium") for target in run.targets]
    at_target = [result for result in results if result.target_return == 1800]
    assert row[2] == ", ".join(f"{result.score_mean:.1f}" for result in at_target)
    returns = np.concatenate([result.returns for result in at_target])
    assert row[4:6] == (f"{returns.mean():.0f}", f"{np.median(returns):.0f}")


def test_names_tell_how_a_variant_acts_if_not_as_the_first() -> None:
    made = of_scores(mingru=[1.0, 2.0], long=[1.0, 2.0], bc=[3.0])
    first, long, bc = made.variants
    window = replace(long, name="Long", config={**long.config, "evaluation": {"inference": "window", "window": 7}})
    assert list(replace(made, variants=(first, window, bc)).summary.names.values()) == [
        *("minGRU", "Long (window of 7)", "BC"),
    ]


def test_markdown_has_command_commit_machine_and_steps() -> None:
    made = of_scores(mingru=[1.0, 2.0])
    text = str(made)
    for part in (made.command, "0123456789ab", "Test CPU", "torch 2.12.0", "20,000 steps", "seeds 0 and 1"):
        assert part in text


def lacking(missing: Collection[tuple[str, str]], seeds: int = 2) -> Comparison:
    """A comparison of a, b and bc on three datasets, without the runs of these (variant, dataset) pairs."""
    made = made_comparison(("a", "b"), seeds, DATASETS, (), checkpoints=0)
    return replace(made, trials=tuple(run for run in made.trials if (run.variant, run.dataset) not in missing))


def by_dataset(comparison: Comparison, label: str, datasets: Sequence[str] = DATASETS) -> dict[str, list[float]]:
    """Scores of a variant at the main target."""
    return {name: [run.targets[0].score_mean for run in comparison.trials_of(label, name)] for name in datasets}


def test_aggregates_are_over_the_datasets_that_all_share() -> None:
    comparison = lacking({("a", "local/x")})
    overall = comparison.summary.overall()
    assert overall is not None
    assert overall.datasets == DATASETS[1:]
    for label, aggregate in overall.aggregates.items():
        scores = np.sort(np.concatenate([*by_dataset(comparison, label, DATASETS[1:]).values()]))
        assert aggregate.score == pytest.approx(scores[1:3].mean())
    assert any("local/x" in note for note in section_of(comparison).notes)
    without = lacking({("a", name) for name in DATASETS})
    overall = without.summary.overall()
    assert overall is not None
    assert (list(overall.scores), overall.improvements) == (["b", "bc"], {})
    assert "a" in section_of(without).notes[0]
    assert lacking({("a", "local/x"), ("a", "local/y")}).summary.overall() is None


def test_improvements_are_tested_with_holms_adjustment() -> None:
    """Against the rank-sum test of each dataset: U's summed, with the variance under the null hypothesis."""
    comparison = lacking((), seeds=10)
    overall = comparison.summary.overall()
    assert overall is not None
    assert overall.reference == "a"
    p_values = []
    for label in ("b", "bc"):
        scores, others = by_dataset(comparison, label), by_dataset(comparison, "a")
        u = sum(stats.mannwhitneyu(scores[name], others[name]).statistic for name in DATASETS)
        p_values.append(2 * stats.norm.sf(abs(u - 3 * 50) / np.sqrt(3 * 10 * 10 * 21 / 12)))
        assert overall.improvements[label] == compare_over_datasets(scores, others)
    assert list(overall.p_values.values()) == pytest.approx(holm(p_values))
    assert overall.aggregates["a"] == aggregate_scores(by_dataset(comparison, "a"))


def test_failed_run_takes_the_variants_aggregate_interval() -> None:
    made = made_comparison(("a", "b", "c"), 10, DATASETS, (), (), failed=[("b", 3)], checkpoints=0)
    overall = made.summary.overall()
    assert overall is not None
    assert [label for label, mean in overall.aggregates.items() if mean.low is None] == ["b"]
    assert list(overall.p_values) == ["c"]
    assert column(section_of(made), "over datasets", "interquartile mean")["b"].endswith(", 3 of 30 failed")
    first = made_comparison(("a", "b", "c"), 10, DATASETS, (), (), failed=[("a", 3)], checkpoints=0)
    overall = first.summary.overall()
    assert overall is not None
    assert (overall.reference, overall.p_values) == ("a", {})


def test_rank_sum_p_values_are_uniform_under_the_null() -> None:
    from decision_rnn.evaluation.statistics import improvement_p_value

    generator = np.random.default_rng(0)
    draws = generator.normal(size=(2_000, 2, 3, 5))
    below = [
        improvement_p_value(dict(enumerate(scores)), dict(enumerate(others))) < 0.05  # type: ignore[arg-type]
        for scores, others in draws
    ]
    assert 0.035 < np.mean(below) < 0.06


def test_success_rates_have_the_noise_of_their_episodes() -> None:
    """Five seeds at 100% and five at 99%, of a hundred episodes each: nothing varies, and nothing is certain."""

    def seeds(label: str, successes: int) -> list[Trial]:
        returns = [3000.0] * successes + [0.0] * (100 - successes)
        targets = tuple(achieved(ROUND.data, target.target_return, returns) for target in ROUND.targets)
        return [replace(trial, targets=targets) for trial in trials_of_scores([0.0] * 5, label)]

    comparison = of_trials([*seeds("mingru", 100), *seeds("lru", 99), *seeds("gru", 50)])
    rows = {row["variant"]: row for row in comparison.table() if row["target_return"] == 3600}
    assert rows["mingru"]["high"] > rows["mingru"]["low"]
    assert (rows["lru"]["significant"], rows["gru"]["significant"]) == (False, True)

"""A comparison in Markdown: scores, intervals, verdicts, controls, checkpoints, costs and remarks."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
from guide import ROOT
from made_comparison import LABELS, ROUND, achieved, made_comparison, of_scores, of_trials, trials_of_scores

from decision_rnn.comparison.plan import SPREAD
from decision_rnn.comparison.record import CheckpointScores, Target
from decision_rnn.comparison.report.markdown import format_comparison
from decision_rnn.comparison.report.page import build_page
from decision_rnn.comparison.summary import summarise
from decision_rnn.evaluation.report import format_return
from decision_rnn.evaluation.statistics import summarise_seeds
from decision_rnn.evaluation.target_error import spread_targets, target_error

FIVE = [50.0, 51.0, 52.0, 53.0, 60.0]


def rows(text: str, title: str) -> list[list[str]]:
    """The body rows of the first table with that title."""
    lines = [line.strip("|").split("|") for line in text.split(f"| {title}")[1].split("\n\n")[0].splitlines()[2:]]
    return [[each.strip() for each in line] for line in lines]


def head(text: str, title: str) -> list[str]:
    """The column headers of the first table with that title, but for the first."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {title}"))
    return [each.strip() for each in line.strip("|").split("|")][1:]


@pytest.mark.parametrize(
    ("scores", "text"),
    [([80.2], "80.2"), ([80.2, 90.4], "85.3 (80.2, 90.4)"), ([89.6, 90.4, 90.0], "90.0 (89.6, 90.4, 90.0)")],
)
def test_table_of_fewer_than_five_seeds_shows_each_score_and_no_interval(scores: list[float], text: str) -> None:
    table = format_comparison(of_scores(mingru=scores))
    assert rows(table, "score of the last")[0][:3] == ["mingru", text, text]
    assert "95%" not in table
    assert "[" not in table
    assert "difference from" not in table
    assert "standard deviation over seeds" not in table


def test_table_of_five_seeds_has_intervals_and_verdicts() -> None:
    made = of_scores(mingru=FIVE, lru=[10.0, 11.0, 12.0, 13.0, 14.0], same=FIVE)
    text, page = format_comparison(made), html.unescape(build_page(made))
    summary = summarise_seeds(FIVE)
    assert rows(text, "score of the last")[0][1] == f"53.2 [{summary.low:.1f}, {summary.high:.1f}]"
    assert "mean over seeds, with a 95% interval" in text
    assert "mean over seeds with Student's t 95% interval" in page
    assert "verdicts at 5% over the comparisons of one column of one dataset, by Holm's method." in page
    worse, same = rows(text, "difference from mingru")
    assert worse[0] == "lru"
    assert all(entry.startswith("-41.2 [") and entry.endswith("], worse") for entry in worse[1:])
    assert all("no difference shown" in entry for entry in same[1:])


def test_table_of_tasks_has_each_variant_at_its_first_target() -> None:
    trials = {"mingru": [(80.0, 20.0), (60.0, 40.0)], "bc": [(30.0, 10.0)]}
    made = [
        replace(trial, targets=tuple(replace(of, task_scores=scores) for of in trial.targets[:1]) + trial.targets[1:])
        for label, seeds in trials.items()
        for trial, scores in zip(trials_of_scores([50.0] * len(seeds), label, bc=label == "bc"), seeds, strict=True)
    ]
    text = format_comparison(of_trials(made))
    assert head(text, "score of each task") == ["task 1", "task 2"]
    assert rows(text, "score of each task") == [["mingru", "70 (80, 60)", "30 (20, 40)"], ["bc (control)", "30", "10"]]
    assert "score of each task" not in format_comparison(of_scores(mingru=[50.0]))


def test_one_failed_seed_removes_only_the_verdict_of_its_variant() -> None:
    """Also that of the first variant, whose place as the reference the next one takes."""
    low = [10.0, 11.0, 12.0, 13.0, 14.0]
    text = format_comparison(of_scores(mingru=FIVE, lru=low[:4], gru=low))
    lru, gru = rows(text, "difference from mingru")
    assert lru[1] == "-41.7, too few seeds"
    assert gru[1].endswith("], worse")
    text = format_comparison(of_scores(mingru=FIVE[:4], lru=FIVE, gru=low))
    mingru, gru = rows(text, "difference from lru")
    assert mingru[1].endswith(", too few seeds")
    assert gru[1].endswith("], worse")


def test_targets_beyond_the_data_with_the_episodes_of_its_best_share_its_column() -> None:
    made = of_scores(mingru=FIVE)
    same = ["target 3600, beyond the data or 3000, the data's best", "target 1800, inside the data"]
    assert head(format_comparison(made), "score of the last")[:2] == same
    first, *others = made.trials
    other = achieved(ROUND.data, 3600.0, (0.0, 9.0))
    differing = replace(made, trials=(replace(first, targets=(other, *first.targets[1:])), *others))
    assert head(format_comparison(differing), "score of the last")[:2] == [
        "target 3600, beyond the data",
        "target 1800, inside the data",
    ]


def test_table_has_standard_deviation_over_seeds_with_and_without_episode_noise() -> None:
    """mingru: episodes vary alike for all seeds, so nothing is noise; lru: seeds differ by episode noise alone."""
    lucky = [
        replace(trial, targets=tuple(achieved(ROUND.data, of.target_return, returns) for of in trial.targets))
        for trial in trials_of_scores([45.0] * 5, "lru")
        for returns in [(90.0 * (trial.seed % 2), 90.0 * ((trial.seed + 1) % 2))]
    ]
    few = trials_of_scores([1.0, 2.0, 3.0, 4.0], "few")
    made = of_trials([*trials_of_scores(FIVE), *lucky, *few])
    text = format_comparison(made)
    found = rows(text, "standard deviation over seeds")
    assert [row[:2] for row in found] == [["mingru", "4.0 (4.0)"], ["lru", "0.0 (0.0)"]]
    assert "without the noise of a finite number of episodes" in build_page(made)


def test_table_has_separate_columns_for_extrapolation_and_target_error() -> None:
    made = of_trials(trials_of_scores([50.0], remarks=("3600 is beyond the data",)))
    distinct = replace(
        made.trials[0],
        targets=tuple(replace(of, returns=(1500.0, 1500.0 + i)) for i, of in enumerate(made.trials[0].targets)),
    )
    text = format_comparison(replace(made, trials=(distinct,)))
    assert head(text, "score of the last") == [
        "target 3600, beyond the data",
        "target 1800, inside the data",
        "target 3000, the data's best",
        "target error, % of the data's range",
    ]
    assert "- 3600 is beyond the data." in text
    assert rows(text, "score of the last")[0][-1] == "16.7%"  # 1500 for 1000 and 2000: 500 off, of a range of 3000
    error = target_error(spread_targets(0.0, 1000.0, SPREAD), [np.full(3, 500.0)] * SPREAD, (0.0, 1000.0))
    assert f"an agent that always returns the middle of the range has about {error:.0f}." in build_page(made)


def test_table_of_a_dataset_without_a_target_of_its_own_has_verdicts_at_the_best() -> None:
    dataset = replace(ROUND, targets=ROUND.targets[2:])
    trials = [
        of
        for label, score in (("mingru", 0.0), ("lru", 50.0))
        for of in trials_of_scores([score] * 5, label, dataset=dataset)
    ]
    ((label, difference),) = rows(format_comparison(of_trials(trials, datasets=(dataset,))), "difference from mingru")
    assert (label, difference) == ("lru", "+50.0 [+50.0, +50.0], better")


def test_table_remark_names_its_variant_unless_it_holds_for_all() -> None:
    slow = trials_of_scores([50.0], remarks=("is slow",))
    assert "- mingru: is slow." in format_comparison(of_trials([*slow, *trials_of_scores([50.0], "lru")]))
    assert "- Is slow." in format_comparison(of_trials(slow))


def test_table_has_rows_for_behaviour_cloning_and_the_mean_of_the_data() -> None:
    mingru, bc, data = rows(format_comparison(of_scores(mingru=[80.0], bc=[40.0])), "score of the last")
    assert mingru[1:4] == ["80.0", "80.0", ""]
    assert bc == ["bc (control)", "", "", "40.0", ""]
    assert data == ["(the data's mean)", "46.7", "46.7", "46.7", ""]


def test_table_has_columns_for_the_last_and_the_best_checkpoint() -> None:
    def checkpoint(step: int, score: float) -> CheckpointScores:
        return CheckpointScores(
            step=step, targets=tuple(achieved(ROUND.data, of, [30 * score]) for of in (3600.0, 3000.0))
        )

    trials = [
        replace(trial, checkpoints=(checkpoint(5_000, early), checkpoint(10_000, late)))
        for trial, (early, late) in zip(trials_of_scores([0.0, 0.0]), [(70.0, 60.0), (20.0, 40.0)], strict=True)
    ]
    text = format_comparison(of_trials(trials))
    assert head(text, "score by checkpoint") == [
        f"{which}, target {target}"
        for target in ("3600, beyond the data", "3000, the data's best")
        for which in ("last", "best")
    ]
    assert rows(text, "score by checkpoint")[0][1:3] == ["50.0 (40.0 to 60.0)", "55.0 (40.0 to 70.0)"]
    assert "Checkpoints: 20 episodes each." in text
    assert "The best checkpoint is chosen and measured by the same episodes" in build_page(of_trials(trials))
    (summary,) = summarise(of_trials(trials))
    assert summary.steps == (5_000, 10_000)
    assert summary.curves[ROUND.targets[0]] == pytest.approx(np.array([[70.0, 60.0], [20.0, 40.0]]))
    lacking = [replace(trials[0], checkpoints=trials[0].checkpoints[1:]), trials[1]]
    assert summarise(of_trials(lacking))[0].steps == (10_000,)


def test_score_of_a_target_chosen_by_episodes_rises_to_that_of_the_best_target() -> None:
    """One of five targets scores 90, the others 0: one episode finds it in a fifth of cases, a hundred in all."""
    good = tuple(achieved(ROUND.data, of.target_return, [2700.0 * ("best" in of.roles)] * 10) for of in ROUND.targets)
    text = format_comparison(of_trials([replace(trials_of_scores([0.0])[0], targets=good)]))
    (chosen,) = rows(text, "score of a target chosen")
    assert float(chosen[1]) == pytest.approx(18, abs=4)
    assert float(chosen[-1]) == 90


def test_costs_are_medians_or_minima_over_seeds_and_empty_where_not_known() -> None:
    costs = [(100.0, 30.0), (300.0, 20.0), (200.0, 25.0)]
    trials = [
        replace(trial, training_seconds=seconds, action_microseconds=action, state_bytes=None)
        for trial, (seconds, action) in zip(trials_of_scores([1.0] * 3), costs, strict=True)
    ]
    text = format_comparison(of_trials(trials))
    assert head(text, "cost") == ["parameters", "training", "one action"]
    assert rows(text, "cost")[0][2:] == ["200 s", "20 µs"]


def test_table_names_steps_windows_and_seeds() -> None:
    made = of_scores(mingru=[1.0, 2.0], long=[1.0, 2.0], bc=[3.0])
    first, long, bc = made.variants
    assert "each trained for 20,000 steps with 2 seeds (0 and 1)" in format_comparison(made)
    window = {"evaluation": {"inference": "window", "window": 7}}
    longer = replace(long, config={**long.config, **window, "training": {"steps": 40_000}})
    text = format_comparison(replace(made, variants=(first, longer, replace(bc, config={**bc.config, **window}))))
    assert "each trained for 20,000 (mingru and bc); 40,000 (long) steps" in text
    names = ["mingru", "long (window of 7)", "bc (control, window of 7)"]
    for title in ("score of the last", "cost"):
        assert [row[0] for row in rows(text, title)][:3] == names
    assert "with carried state (mingru); window of 7 (long and bc)." in text


def test_table_names_command_commits_hardware_and_versions() -> None:
    made = of_scores(mingru=[1.0, 2.0])
    trials = tuple(
        replace(trial, commit=commit) for trial, commit in zip(made.trials, ("abc123", "def456"), strict=True)
    )
    made = replace(made, trials=trials)
    machine = "Test CPU, 2 cores, GPU: none; python 3.12.0, torch 2.12.0, decision-rnn 0.1.0"
    text = format_comparison(made)
    assert text.splitlines()[-1] == f"Made by `{made.command}` at commit abc123, def456; {machine}."


def test_report_names_the_page_of_definitions_that_has_every_column_of_its_tables() -> None:
    """In place of a paragraph below the tables."""
    made = made_comparison(datasets=("local/x", "local/y", "local/z"), seeds=10, failed=[("mingru", 0)])
    text = format_comparison(made)
    page = (ROOT / "docs" / "protocol.md").read_text()
    place, section = re.search(r'(docs/\S+), "(.*)"\.', text).groups()  # type: ignore[union-attr]
    assert place == "docs/protocol.md"
    defined = page.split(f"## {section}\n")[1].split("\n## ")[0]
    titles = [line.split("|")[1].strip() for line in text.split("\n") if line.startswith("| ")]
    named = (*LABELS, *(variant.label for variant in made.variants), "(the", "---")
    titles = {title for title in titles if title.split()[0] not in named}
    assert len(titles) == 8
    for title in titles:
        assert title.replace("mingru", "a variant") in defined, title


def test_returns_have_decimals_for_the_range_of_the_data() -> None:
    """Between 0 and 1, 0.42 and 0.44 are not both 0 or 0.4, in reports and in the terminal."""
    small = replace(ROUND.data, return_min=0.0, return_max=1.0)
    assert (format_return(0.42, small), format_return(1234.4, ROUND.data)) == ("0.42", "1234")
    assert format_return(1234.44, ROUND.data, least=1) == "1234.4"
    assert format_return(0.5, replace(small, return_max=0.0)) == "0"
    dataset = replace(ROUND, data=small, targets=ROUND.targets[2:3])
    trial = replace(trials_of_scores([1.0])[0], targets=(achieved(small, 3000.0, [0.42, 0.44]),))
    page = build_page(of_trials([trial], datasets=(dataset,)))
    assert "<td>0.43 ± 0.01</td>" in page


def test_roles_of_one_target_return_are_one_column() -> None:
    both = Target(target_return=3000.0, roles=("paper", "best"), in_range=True)
    dataset = replace(ROUND, targets=(both, *ROUND.targets[3:]))
    text = format_comparison(of_trials(trials_of_scores(FIVE, dataset=dataset), datasets=(dataset,)))
    assert head(text, "score of the last")[0] == "target 3000, the data's best"

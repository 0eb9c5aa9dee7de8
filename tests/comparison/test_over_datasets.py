"""Aggregates over datasets: which variants and datasets they cover, and their intervals."""

import html
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from made_comparison import made_comparison

from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.report.markdown import format_comparison
from decision_rnn.comparison.report.page import build_page
from decision_rnn.comparison.summary import summarise
from decision_rnn.comparison.verdicts import over_datasets
from decision_rnn.evaluation.aggregate import AGGREGATE_NOTE, IMPROVEMENT_NOTE, PROFILE_NOTE

NAMES = ("local/x", "local/y", "local/z")
TABLE = "| interquartile mean of all runs | score | runs |"
CLONED = "Behaviour cloning has no target and appears with its one score at all of them."


def lacking(missing: Collection[tuple[str, str]], seeds: int = 2) -> Comparison:
    """A comparison of a, b and cloning on three datasets, without the runs of these (variant, dataset) pairs."""
    made = made_comparison(("a", "b"), seeds, NAMES, (), checkpoints=0)
    return replace(made, trials=tuple(of for of in made.trials if (of.variant, of.dataset) not in missing))


def over_all(comparison: Comparison) -> tuple[str, dict[str, str]]:
    """The report from the title of the first aggregates on, and their scores by variant."""
    text = format_comparison(comparison)
    before, _, after = text.partition(TABLE)
    rows = [line.split("|")[1:3] for line in after.split("\n\n")[0].splitlines()[2:]]
    return before.rpartition("\n## ")[2] + TABLE + after, {label.strip(): score.strip() for label, score in rows}


def test_aggregates_are_those_of_the_datasets_that_all_variants_share() -> None:
    made = lacking({("a", "local/x")})
    text, shown = over_all(made)
    assert text.startswith("2 of 3 datasets, at the first target of each task")
    assert list(shown) == ["a", "b", "cloning (control)"]
    assert "Left out, because not every variant has a result there: local/x." in text
    assert "| improvement on a | probability | local/y | local/z |" in text
    assert CLONED in build_page(made)
    for of in over_datasets(made, summarise(made)):
        assert of.datasets == NAMES[1:]
        for label, aggregate in of.aggregates.items():
            scores = np.sort([score for name in NAMES[1:] for score in of.scores[label][name]])
            assert aggregate.score == pytest.approx(scores[1:3].mean())
            if of.role == "paper":
                assert shown[label.replace("cloning", "cloning (control)")] == f"{aggregate.score:.1f}"


def test_datasets_and_variants_without_results_are_named_as_left_out() -> None:
    text, _ = over_all(lacking({(label, "local/y") for label in ("a", "b", "cloning")}))
    assert text.startswith("2 of 3 datasets")
    assert (
        text.count("Left out, because not every variant has a result there: local/y.") == 2
    )  # for each kind of target
    made = lacking({("a", name) for name in NAMES})
    text, shown = over_all(made)
    assert text.startswith("All 3 datasets")
    assert list(shown) == ["b", "cloning (control)"]
    assert "improvement on b" in text
    for report in (text, build_page(made)):
        assert "Left out, because they have no result on any dataset: a." in report


def test_targets_of_the_task_that_are_the_best_of_the_data_are_aggregated_once() -> None:
    made = lacking(())
    first = [replace(of.targets[0], roles=("paper", "best")) for of in made.datasets]
    rest = [tuple(target for target in of.targets[1:] if target.roles != ("best",)) for of in made.datasets]
    both = [replace(of, targets=(one, *others)) for of, one, others in zip(made.datasets, first, rest, strict=True)]
    assert format_comparison(made).count(TABLE) == 2
    assert format_comparison(replace(made, datasets=tuple(both))).count(TABLE) == 1


def test_fewer_than_two_shared_datasets_give_no_aggregate_but_a_reason() -> None:
    made = lacking({("a", "local/x"), ("a", "local/y")})
    sentence = "There is no number over the datasets: fewer than two have a score of every variant."
    assert sentence in format_comparison(made)
    assert sentence in build_page(made).partition("Main finding")[2].partition("</section>")[0]
    one = made_comparison(("a", "b"), 2, NAMES[:1], (), checkpoints=0)
    assert sentence not in format_comparison(one) + build_page(one)


def test_behaviour_cloning_alone_is_aggregated_by_its_only_score() -> None:
    made = made_comparison((), 2, NAMES, (), checkpoints=0)
    scores = sorted(target.score_mean for trial in made.trials for target in trial.targets)
    assert len(scores) == 6  # three datasets, two seeds, one target each
    mean = f"{sum(scores[1:5]) / 4:.1f}"  # a quarter of six, rounded down, is dropped at either end
    assert mean != f"{sum(scores) / 6:.1f}"
    text, shown = over_all(made)
    assert text.startswith("All 3 datasets, without a target")
    assert shown == {"cloning (control)": mean}
    assert CLONED not in build_page(made)
    assert "Without a target, cloning (control) has the highest interquartile mean" in build_page(made)


@pytest.mark.parametrize(("seeds", "mean", "improvement"), [(4, False, False), (5, False, True), (10, True, True)])
def test_coverage_note_is_shown_only_with_an_interval(seeds: int, mean: bool, improvement: bool) -> None:
    made = lacking((), seeds)
    _, shown = over_all(made)
    page = html.unescape(build_page(made))
    assert ("[" in shown["a"]) == (AGGREGATE_NOTE in page) == mean
    assert (IMPROVEMENT_NOTE in page) == improvement
    assert PROFILE_NOTE in page


def test_one_failed_seed_removes_only_the_intervals_of_its_variant() -> None:
    made = lacking((), 10)
    kept = [of for of in made.trials if (of.variant, of.dataset) != ("a", "local/x") or of.seed < 4]
    text, shown = over_all(replace(made, trials=tuple(kept)))
    assert [label for label, score in shown.items() if "[" in score] == ["b", "cloning (control)"]
    assert "| improvement on b |" in text

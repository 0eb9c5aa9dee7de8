"""Aggregates over datasets in table and page: which variants and datasets they cover, and their intervals."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from made_comparison import made_comparison
from pages import Page

from decision_rnn.comparison.page.page import build_page
from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.summary import summarise
from decision_rnn.comparison.table import format_comparison
from decision_rnn.comparison.verdicts import over_datasets
from decision_rnn.evaluation.aggregate import AGGREGATE_NOTE, IMPROVEMENT_NOTE, PROFILE_NOTE

NAMES = ("own/x", "own/y", "own/z")


def lacking(missing: Collection[tuple[str, str]], seeds: int = 2) -> Comparison:
    """A comparison of a, b and cloning on three datasets, without the runs of these (variant, dataset) pairs."""
    made = made_comparison(("a", "b"), seeds, NAMES, (), checkpoints=0)
    return replace(made, trials=tuple(cell for cell in made.trials if (cell.variant, cell.dataset) not in missing))


def page_of(comparison: Comparison) -> Page:
    return Page(build_page(comparison, summarise(comparison)))


def table_over_datasets(comparison: Comparison) -> list[str]:
    """The lines of the table from the heading of the aggregates on."""
    lines = format_comparison(comparison).splitlines()
    return lines[max(i for i, line in enumerate(lines) if line.startswith("## ")) :]


def test_first_variant_is_the_reference_over_datasets_even_without_the_first_dataset() -> None:
    made = lacking({("a", "own/x")})
    title, _, head, _, *rows = table_over_datasets(made)
    assert title == "## 2 of 3 datasets"
    assert head == "| interquartile mean of all runs | at the first target | at the data's best | better than a |"
    assert [row.split("|")[1].strip() for row in rows[:3]] == ["a", "b", "cloning"]


def test_table_and_page_have_the_same_interquartile_means_over_datasets() -> None:
    made = lacking({("a", "own/x")})
    rows = table_over_datasets(made)[4:7]
    page = page_of(made)
    shown = [row.cells[:2] for row in page.tables["Interquartile means over all datasets"][1:4]]
    assert shown == [[cell.strip() for cell in row.split("|")[1:3]] for row in rows]
    for of in over_datasets(made, summarise(made)):
        assert of.datasets == NAMES[1:]
        for label, aggregate in of.aggregates.items():
            scores = np.sort([score for name in NAMES[1:] for score in of.scores[label][name]])
            assert aggregate.score == pytest.approx(scores[1:3].mean())


def test_dataset_on_which_every_run_failed_is_named_as_left_out() -> None:
    made = lacking({(label, "own/y") for label in ("a", "b", "cloning")})
    lines = table_over_datasets(made)
    assert lines[0] == "## 2 of 3 datasets"
    sentence = "Left out, because not every variant has a result there: own/y."
    assert sentence in "\n".join(lines)
    assert page_of(made).text.count(sentence) == 2  # once per kind of target


def test_variant_without_any_result_is_named_as_left_out() -> None:
    made = lacking({("a", name) for name in NAMES})
    lines = table_over_datasets(made)
    assert lines[0] == "## All 3 datasets"
    assert "better than b" in lines[2]
    sentence = "Left out, because they have no result on any dataset: a."
    assert sentence in "\n".join(lines)
    page = page_of(made)
    assert sentence in page.text
    assert [row.cells[0] for row in page.tables["Interquartile means over all datasets"][1:3]] == ["b", "cloning"]


def test_fewer_than_two_shared_datasets_give_no_aggregate_but_a_reason() -> None:
    made = lacking({("a", "own/x"), ("a", "own/y")})
    sentence = "There is no number over the datasets: fewer than two have a result of every variant."
    assert sentence in format_comparison(made)
    page = page_of(made)
    assert sentence in page.text.partition("Main finding")[2].partition("Scores")[0]
    one = made_comparison(("a", "b"), 2, NAMES[:1], (), checkpoints=0)
    assert sentence not in format_comparison(one) + page_of(one).text


def test_cloning_alone_is_aggregated_over_datasets_by_its_only_score() -> None:
    made = made_comparison((), 2, NAMES, (), checkpoints=0)
    scores = sorted(target.score_mean for cell in made.trials for target in cell.targets)
    assert len(scores) == 6  # three datasets, two seeds, one target each
    mean = f"{sum(scores[1:5]) / 4:.1f}"  # a quarter of six, rounded down, is dropped at either end
    assert mean != f"{sum(scores) / 6:.1f}"
    _, _, head, _, row, *_ = table_over_datasets(made)
    assert head == "| interquartile mean of all runs | no target |"
    assert [cell.strip() for cell in row.split("|")] == ["", "cloning", mean, ""]
    page = page_of(made)
    assert page.tables["Interquartile means over all datasets"][1].cells[:2] == ["cloning", mean]
    assert "Without a target, the control cloning has the highest interquartile mean" in page.text


def test_note_on_cloning_over_datasets_is_shown_only_with_cloning_and_targets() -> None:
    note = "Cloning has no target and appears with its one score in all columns."
    made = lacking(())
    assert note in "\n".join(table_over_datasets(made))
    assert note not in "\n".join(table_over_datasets(lacking({("cloning", name) for name in NAMES})))
    alone = made_comparison((), 2, NAMES, (), checkpoints=0)
    assert note not in "\n".join(table_over_datasets(alone))


@pytest.mark.parametrize(("seeds", "mean", "improvement"), [(4, False, False), (5, False, True), (10, True, True)])
def test_coverage_note_is_shown_only_with_an_interval(seeds: int, mean: bool, improvement: bool) -> None:
    made = lacking((), seeds)
    page = page_of(made)
    lines = table_over_datasets(made)
    shown = {
        "\n".join(lines): lines[5].split("|")[2],
        page.text: page.tables["Interquartile means over all datasets"][2].cells[1],
    }
    for text, score in shown.items():
        assert ("[" in score) == (AGGREGATE_NOTE in text) == mean
        assert (IMPROVEMENT_NOTE in text) == improvement
    assert PROFILE_NOTE in page.text

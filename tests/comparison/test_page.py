"""The HTML page of a comparison: a single file whose numbers are those of the record."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_comparison import LABELS, made_comparison
from pages import Page

from decision_rnn.cli.main import main
from decision_rnn.comparison.page.page import build_page
from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.summary import summarise

ODD = """<script>alert("1")</script>&'$x^2$"""


def page_of(comparison: Comparison) -> Page:
    return Page(build_page(comparison, summarise(comparison)))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return made_comparison()


@pytest.fixture(scope="module")
def html(comparison: Comparison) -> str:
    return build_page(comparison, summarise(comparison))


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_page_needs_no_network_and_runs_no_script(html: str, page: Page) -> None:
    for tag, name, value in page.attributes:
        if name in ("src", "srcset", "href", "xlink:href", "action", "data", "poster"):
            assert value.startswith(("#", "data:")), f"<{tag} {name}={value[:80]}>"
        assert not name.startswith("on")
        assert "url(" not in value.replace("url(#", "")
    assert not re.search(r"https?://|@import|@font-face|<script|<link|<iframe", html)
    assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in page.attributes


def test_page_has_every_id_once_and_every_reference_leads_to_one(page: Page) -> None:
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for _, name, value in page.attributes:
        named = value.split() if name == "aria-labelledby" else re.findall(r"url\(#([^)]+)\)", value)
        named += [value[1:]] if name == "href" else []
        assert set(named) <= set(ids), f"{name}={value}"


def test_page_of_eight_variants_and_five_seeds_is_small(html: str) -> None:
    assert len(html.encode()) < 1_500_000


def test_page_of_the_same_record_has_the_same_bytes() -> None:
    small = made_comparison(labels=LABELS[:1], controls=(), cloning=(), seeds=2)
    assert build_page(small, summarise(small)) == build_page(small, summarise(small))


def test_score_table_has_every_seeds_score_computed_from_the_episodes(comparison: Comparison, page: Page) -> None:
    head, *rows = page.tables["Scores on standin/hopper-medium"]
    assert [row.cells[0] for row in rows] == [*(variant.label for variant in comparison.variants), "the data"]
    assert [row.details[0].strip() for row in rows[6:]] == ["control"] * 3 + ["mean of its episodes"]
    assert "3600, beyond the data" in head.cells[1]
    assert "3118, the data's best" in head.cells[3]
    for row in rows[:-1]:
        cells = comparison.trials_of(row.cells[0], "standin/hopper-medium")
        for column in range(1, 2 if row.cells[0] == "cloning" else 4):
            returns = [np.mean(cell.targets[column - 1].returns) for cell in cells]
            scores = 100 * (np.array(returns) + 20.272305) / (3234.3 + 20.272305)
            each = re.findall(r"-?[\d.]+", row.details[column].partition("seeds:")[2])
            assert [float(score) for score in each] == pytest.approx(scores.tolist(), abs=0.0501)
            assert min(scores) <= float(row.cells[column].split()[0]) <= max(scores)
    assert rows[-1].cells[1] == "43.6"


def test_tables_behind_the_charts_have_the_records_numbers(comparison: Comparison, page: Page) -> None:
    medians = {
        (cell.variant, f"{cell.seed}", f"{target.target_return:g}"): np.median(target.returns)
        for cell in comparison.trials
        for target in cell.targets
        if target.target_return is not None
    }
    shown = {tuple(row.cells[:3]): float(row.cells[3]) for row in page.tables["Each seed's median return"][1:]}
    assert shown.keys() == medians.keys()
    for key, median in medians.items():
        assert shown[key] == pytest.approx(median, abs=0.51)
    for row in page.tables["Costs"][1:]:
        cells = comparison.trials_of(row.cells[0], "standin/hopper-medium")
        assert row.cells[1] == f"{cells[0].parameters:,}"
        assert row.cells[2] == f"{np.median([cell.training_seconds for cell in cells]):,.0f} s"
        assert row.cells[4] == f"{cells[0].state_bytes:,} bytes"
    checkpoints = page.tables["Every checkpoint's score"][1:]
    assert len(checkpoints) == 5 * (3 * 8 + 1)  # steps by targets of every checkpoint
    losses = page.tables["Loss"][1:]
    assert {row.cells[1] for row in losses} >= {"100", "20,000"}


def test_page_names_every_variant_in_every_kind_of_chart(comparison: Comparison, html: str) -> None:
    titles = re.findall(r"<title id[^>]*>([^<]*)</title><desc[^>]*>([^<]*)</desc>", html)
    for variant in comparison.variants:
        own = [title for title, _ in titles if title.startswith(f"{variant.label}: ")]
        assert len(own) == (1 if variant.label == "cloning" else 3)
        assert sum(f"{variant.label} " in said or f"{variant.label}: " in said for _, said in titles) >= 4


@pytest.mark.parametrize(("seeds", "spread"), [(1, []), (3, ["range of the seeds"]), (5, ["95% interval of the mean"])])
def test_table_of_chosen_targets_names_the_kind_of_spread_over_seeds(seeds: int, spread: list[str]) -> None:
    page = page_of(made_comparison(labels=LABELS[:1], controls=(), cloning=(), seeds=seeds, checkpoints=0))
    head, *rows = page.tables["Score over episodes spent"]
    assert head.cells == ["variant", "episodes", "score", *spread]
    assert all(len(row.cells) == len(head.cells) for row in rows)
    for row in rows if spread else ():
        low, high = map(float, row.cells[3].split(" to "))
        assert low <= float(row.cells[2]) <= high


def test_table_of_chosen_targets_has_a_column_for_each_kind_of_spread() -> None:
    lacking = [("mingru", seed) for seed in range(1, 5)] + [("minlstm", 4)]
    page = page_of(made_comparison(labels=LABELS[:3], controls=(), cloning=(), failed=lacking, checkpoints=0))
    head, *rows = page.tables["Score over episodes spent"]
    assert head.cells[3:] == ["95% interval of the mean", "range of the seeds"]
    shown = {(row.cells[0], bool(row.cells[3]), bool(row.cells[4])) for row in rows}
    assert shown == {("mingru", False, False), ("minlstm", False, True), ("lru", True, False)}


def test_page_escapes_html_in_names_commands_and_errors() -> None:
    made = made_comparison(labels=(ODD,), controls=(), seeds=2, datasets=(f"own/{ODD}",), failed=((ODD, 1),))
    odd = replace(made, command=ODD, failed=tuple(replace(run, error=ODD) for run in made.failed))
    html = build_page(odd, summarise(odd))
    assert "<script" not in html
    page = Page(html)
    assert page.headings[0] == f"Comparison on own/{ODD}"
    assert page.text.count("<script>") > 10


def test_page_names_failed_runs_and_shows_the_remaining_seeds() -> None:
    made = made_comparison(labels=LABELS[:2], controls=(), failed=(("mingru", 0), ("cloning", 2)))
    page = page_of(made)
    assert "2 runs failed and are missing from all numbers" in page.text
    assert "mingru on standin/hopper-medium, seed 0: the loss became NaN at step 120" in page.text
    mingru = page.tables["Scores on standin/hopper-medium"][1]
    assert len(mingru.details[1].split(",")) == 4


def test_page_names_a_variant_whose_every_run_failed_outside_the_score_table() -> None:
    page = page_of(made_comparison(labels=LABELS[:2], controls=(), seeds=1, failed=(("mingru", 0),)))
    assert [row.cells[0] for row in page.tables["Scores on standin/hopper-medium"][1:]] == [
        "minlstm",
        "cloning",
        "the data",
    ]
    assert "mingru on standin/hopper-medium, seed 0" in page.text


def test_page_says_over_which_comparisons_holms_method_adjusts(page: Page) -> None:
    assert "By Holm's method that level holds over all pairs of variants on this dataset at one target, " in page.text
    assert "at one target, and not over several targets or datasets." in page.text


def test_page_says_that_an_improvement_over_datasets_is_not_adjusted() -> None:
    made = made_comparison(labels=LABELS[:2], controls=(), cloning=(), datasets=("own/a", "own/b"), checkpoints=0)
    better = {"mingru": 3000.0, "minlstm": 1000.0}
    cells = [
        replace(cell, targets=tuple(replace(of, score_mean=better[cell.variant] + cell.seed) for of in cell.targets))
        for cell in made.trials
    ]
    said = page_of(replace(made, trials=tuple(cells))).text
    assert "lies above 0.5, each interval by itself. It was picked by the same scores, for which these " in said


def test_page_remarks_are_grouped_by_dataset() -> None:
    made = made_comparison(labels=LABELS[:2], controls=(), cloning=(), seeds=1, datasets=("own/a", "own/b"))
    best = {"own/a": 3232, "own/b": 3092}
    said = {
        name: f"3600 is beyond the data's best {top}: its score measures extrapolation" for name, top in best.items()
    }
    alone = [cell for cell in made.trials if (cell.variant, cell.dataset) != ("minlstm", "own/b")]
    text = page_of(
        replace(made, trials=tuple(replace(cell, remarks=(said[cell.dataset],)) for cell in alone))
    ).text.rpartition("What to know before believing the scores.")[2]
    assert text.strip().startswith(f"own/a {said['own/a']}. own/b {said['own/b']}. ")
    mixed = tuple(
        replace(cell, remarks=(said[cell.dataset],) if cell.variant == "mingru" else ()) for cell in made.trials
    )
    text = page_of(replace(made, trials=mixed)).text
    assert f"own/a mingru: {said['own/a']}. own/b mingru: {said['own/b']}. " in text


def test_page_remarks_of_a_single_dataset_omit_its_name() -> None:
    made = made_comparison(labels=("mingru", "lru"), controls=(), cloning=(), seeds=1)
    text = page_of(made).text
    assert "What to know before believing the scores. lru: lru forgets slowly and was trained on" in text


def test_page_of_one_seed_claims_no_ranking() -> None:
    page = page_of(made_comparison(labels=LABELS[:2], controls=(), seeds=1))
    assert "With a single seed a difference cannot be told from chance, so no order is claimed" in page.text
    assert "interval" not in page.text.partition("Main finding")[2].partition("Scores")[0]


def test_page_without_checkpoints_has_the_loss_alone() -> None:
    page = page_of(made_comparison(labels=LABELS[:1], controls=(), seeds=2, checkpoints=0))
    assert "Every checkpoint's score" not in page.tables
    assert "Loss" in page.tables
    assert not any("checkpoint" in head for head in page.tables["Scores on standin/hopper-medium"][0].cells)


def test_page_of_cloning_alone_has_no_charts_of_target_returns() -> None:
    page = page_of(made_comparison(labels=(), controls=(), seeds=3))
    assert "Without a target, the control cloning scores" in page.text
    assert "Target and achieved return" not in page.headings
    assert "Calibration of each seed" not in page.headings


def test_page_without_any_result_says_so() -> None:
    page = page_of(made_comparison(labels=("mingru",), controls=(), cloning=(), seeds=1, failed=(("mingru", 0),)))
    assert "On standin/hopper-medium no run has a result." in page.text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a comparison without its runs."""
    made = made_comparison(labels=LABELS[:1], controls=(), cloning=(), seeds=1, checkpoints=0)
    (tmp_path / "comparison.json").write_text(json.dumps(made.to_dict()))
    return tmp_path


def test_report_writes_the_page_beside_the_record(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    said = capsys.readouterr()
    assert said.out == f"written to {folder / 'report.html'}\n"
    sentence = "There is no clip of mingru: the run's folder or its checkpoint is not here."
    assert said.err == f"{sentence}\n"
    assert sentence in Page((folder / "report.html").read_text()).text


def test_page_names_variants_with_their_own_window() -> None:
    page = page_of(made_comparison(("mingru", "published"), windows={"published": 7, "cloning": 7}))
    carried = "the recurrent state carried over the whole episode"
    windowed = "with a window of the last 7 steps re-run for every action"
    assert f"with {carried}; published {windowed}; cloning {windowed}." in page.text
    for caption in ("Scores on standin/hopper-medium", "Costs"):
        traits = {row.cells[0]: row.details[0].strip() for row in page.tables[caption][1:]}
        assert (traits["mingru"], traits["published"]) == ("", "window of 7")
        assert (traits["mlp"], traits["cloning"]) == ("control", "control, window of 7")
    assert "unless" not in page.text


def test_report_of_comparison_json_writes_to_output_without_clips(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = folder / "new" / "page.html"
    assert main(["report", str(folder / "comparison.json"), "--output", str(output), "--clips", "0"]) == 0
    assert capsys.readouterr().err == ""
    assert "Clips" not in Page(output.read_text()).headings
    assert [path.name for path in output.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("record", "options", "says"),
    [
        (None, [], "name the folder of a comparison"),
        ("{", [], "is missing or damaged"),
        ('{"schema": 2}', [], "schema 2"),
        ("[]", [], "schema None"),
        ("", ["--clips", "-1"], "--clips is -1"),
        ("", ["--clip", "1"], "unknown key 'clip'"),
    ],
)
def test_report_of_an_invalid_comparison_or_option_prints_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: str | None, options: list[str], says: str
) -> None:
    if record is not None:
        (tmp_path / "comparison.json").write_text(record)
    assert main(["report", str(tmp_path), *options]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_report_output_that_cannot_be_written_prints_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = (folder / "comparison.json").read_bytes()
    for output, says in ((folder, "is a folder"), (folder / "comparison.json" / "page.html", "cannot write")):
        assert main(["report", str(folder), "--output", str(output), "--clips", "0"]) == 2
        out, error = capsys.readouterr()
        (line,) = error.splitlines()
        assert line.startswith("decision-rnn: ")
        assert says in line
        assert str(output) in line
        assert out == ""
    assert [path.name for path in folder.iterdir()] == ["comparison.json"]
    assert (folder / "comparison.json").read_bytes() == record


def test_page_of_several_datasets_has_aggregates_and_names_what_they_leave_out() -> None:
    made = made_comparison(labels=LABELS[:2], controls=(), datasets=("own/a", "own/b", "own/c"), checkpoints=0)
    kept = [cell for cell in made.trials if (cell.variant, cell.dataset) != ("mingru", "own/c")]
    lacking = replace(made, trials=tuple(replace(cell, loss=()) for cell in kept))
    page = page_of(lacking)
    assert "Over all datasets" in page.headings
    assert "Left out, because not every variant has a result there: own/c." in page.text
    rows = {row.cells[0]: row for row in page.tables["Interquartile means over all datasets"][1:4]}
    for label in ("mingru", "minlstm", "cloning"):
        scores = [
            cell.targets[0].score_mean for cell in kept if cell.variant == label and cell.dataset in ("own/a", "own/b")
        ]
        middle = np.sort(scores)[2:8]  # of ten, a quarter rounded down is dropped at either end
        assert float(rows[label].cells[1].split()[0]) == pytest.approx(middle.mean(), abs=0.051)
        assert rows[label].cells[2] == "10"
    assert {"Scores on own/a", "Scores on own/b", "Scores on own/c"} <= page.tables.keys()

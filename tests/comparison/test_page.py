"""The HTML page of a comparison: a single file whose numbers are those of the record."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_comparison import LABELS, made_comparison
from pages import Page
from PIL import Image

from decision_rnn.cli.main import main
from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.report import clips
from decision_rnn.comparison.report.page import build_page
from decision_rnn.evaluation.video import CLIP_BYTES, Moment, write_clip
from decision_rnn.utils.errors import InputError

ODD = """<script>alert("1")</script>&'$x^2$"""
SCORES, CHECKPOINTS = "Score of the last checkpoint", "Score of each checkpoint"


def page_of(comparison: Comparison) -> Page:
    return Page(build_page(comparison))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return made_comparison()


@pytest.fixture(scope="module")
def html(comparison: Comparison) -> str:
    return build_page(comparison)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_page_needs_no_network_and_runs_no_script(html: str, page: Page) -> None:
    for tag, name, value in page.attributes:
        if name in ("src", "srcset", "href", "xlink:href", "action", "data", "poster"):
            assert value.startswith(("#", "data:")), f"<{tag} {name}={value[:80]}>"
        assert not name.startswith("on")
        assert "url(" not in value
    assert not re.search(r"https?://|@import|@font-face|<script|<link|<iframe", html)
    assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in page.attributes
    assert len(html.encode()) < 700_000


def test_page_has_every_id_once_and_every_reference_leads_to_one(page: Page) -> None:
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for _, name, value in page.attributes:
        named = value.split() if name == "aria-labelledby" else [value[1:]] if name == "href" else []
        assert set(named) <= set(ids), f"{name}={value}"


def test_page_of_the_same_record_has_the_same_bytes(comparison: Comparison, html: str) -> None:
    assert build_page(comparison) == html


def test_score_table_has_every_seeds_score_computed_from_the_episodes(comparison: Comparison, page: Page) -> None:
    head, *rows = page.tables[SCORES]
    labels = [f"{variant.label}{' (control)' * variant.control}" for variant in comparison.variants]
    assert [row.cells[0] for row in rows] == [*labels, "(the data's mean)"]
    assert head.cells[1:5] == [
        *("target 3600, beyond the data", "target 1800, inside the data", "target 3118, the data's best", "no target")
    ]
    for row, variant in zip(rows, comparison.variants, strict=False):
        trials = comparison.trials_of(variant.label, "standin/hopper-medium")
        cloning = variant.label == "cloning"
        for column in (4,) if cloning else (1, 2, 3):
            returns = [np.mean(trial.targets[0 if cloning else column - 1].returns) for trial in trials]
            scores = 100 * (np.array(returns) + 20.272305) / (3234.3 + 20.272305)
            each = re.findall(r"-?[\d.]+", row.details[column].partition("seeds:")[2])
            assert [float(score) for score in each] == pytest.approx(scores.tolist(), abs=0.0501)
            assert float(row.cells[column].split()[0]) == pytest.approx(scores.mean(), abs=0.0501)
    assert rows[-1].cells[1] == "43.6"


def test_tables_behind_the_charts_have_the_records_numbers(comparison: Comparison, page: Page) -> None:
    head, *rows = page.tables["Achieved return"]
    assert head.cells == ["variant", "target", "median", *(f"seed {seed}" for seed in range(5)), "band"]
    shown = {(row.cells[0], row.cells[1].replace(",", "")): row.cells[3:8] for row in rows}
    for trial in comparison.trials:
        for target in (of for of in trial.targets if of.target_return is not None):
            value = shown[trial.variant, f"{target.target_return:g}"][trial.seed]
            assert float(value) == pytest.approx(np.median(target.returns), abs=0.51)
    assert len(shown) == 8 * 6  # variants by targets
    first = comparison.trials_of("lru", "standin/hopper-medium")[0].checkpoints[0]
    (row,) = (row for row in page.tables[CHECKPOINTS] if row.cells[:2] == ["lru", f"{first.step:,}"])
    index = page.tables[CHECKPOINTS][0].cells.index("seed 0")
    assert float(row.cells[index]) == pytest.approx(first.targets[0].score_mean, abs=0.051)
    assert len(page.tables[CHECKPOINTS][1:]) == 5 * 9  # steps by variants
    assert {row.cells[1] for row in page.tables["Loss"][1:]} >= {"100", "20,000"}
    for row in page.tables["Every target"][1:]:
        assert re.fullmatch(r"\d+ ± \d+", row.cells[4])


def test_page_describes_every_variant_in_every_kind_of_chart(comparison: Comparison, page: Page) -> None:
    described = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    for variant in comparison.variants:
        own = [text for text in described if text.startswith(f"{variant.label}: ")]
        assert len(own) == (1 if variant.label == "cloning" else 2)
        assert sum(f"{variant.label} " in text or f"{variant.label}: " in text for text in described) >= 4


@pytest.mark.parametrize(("seeds", "spread"), [(1, None), (3, "range of seeds"), (5, "95% interval")])
def test_table_of_chosen_targets_names_the_kind_of_spread_over_seeds(seeds: int, spread: str | None) -> None:
    page = page_of(made_comparison(labels=LABELS[:1], controls=(), cloning=(), seeds=seeds, checkpoints=0))
    head, row = page.tables["Score of a target chosen by"]
    assert head.cells[1:3] == ["1 episode", "2 episodes"]
    for score, detail in zip(row.cells[1:], row.details[1:], strict=True):
        assert (spread or "") in detail
        if spread:
            low, high = map(float, detail.removeprefix(spread).split(" to "))
            assert low <= float(score) <= high
    assert CHECKPOINTS not in page.tables
    assert "Loss" in page.tables


def test_page_escapes_html_in_names_commands_and_errors() -> None:
    made = made_comparison(labels=(ODD,), controls=(), seeds=2, datasets=(f"local/{ODD}",), failed=((ODD, 1),))
    html = build_page(replace(made, command=ODD, failed=tuple(replace(run, error=ODD) for run in made.failed)))
    assert "<script" not in html
    page = Page(html)
    assert page.headings[0] == f"Comparison on local/{ODD}"
    assert page.text.count("<script>") > 10


def test_page_names_failed_runs_and_shows_the_remaining_seeds() -> None:
    page = page_of(made_comparison(labels=LABELS[:2], controls=(), failed=(("mingru", 0), ("cloning", 2))))
    assert "Missing from all numbers: 2 failed runs, listed below." in page.text
    assert "mingru on standin/hopper-medium, seed 0: the loss became NaN at step 120" in page.text
    assert len(page.tables[SCORES][1].cells[1].split(",")) == 4
    page = page_of(made_comparison(labels=LABELS[:2], controls=(), seeds=1, failed=(("mingru", 0),)))
    assert [row.cells[0] for row in page.tables[SCORES][1:]] == ["minlstm", "cloning (control)", "(the data's mean)"]
    page = page_of(made_comparison(labels=("mingru",), controls=(), cloning=(), seeds=1, failed=(("mingru", 0),)))
    assert "On standin/hopper-medium no run has a result." in page.text


def test_page_remarks_are_grouped_by_dataset() -> None:
    made = made_comparison(labels=LABELS[:2], controls=(), cloning=(), seeds=1, datasets=("local/a", "local/b"))
    trials = tuple(
        replace(trial, remarks=(f"Remark on {trial.dataset}",) if trial.variant == "mingru" else ())
        for trial in made.trials
        if (trial.variant, trial.dataset) != ("minlstm", "local/b")
    )
    text = page_of(replace(made, trials=trials)).text.rpartition("What to know before believing the scores.")[2]
    same = "Comparability: the data are not D4RL's: compare scores with each other alone."
    assert text.strip().startswith(f"local/a {same} mingru: Remark on local/a. local/b {same} Remark on local/b. ")


def test_page_of_behaviour_cloning_alone_has_no_charts_of_target_returns() -> None:
    page = page_of(made_comparison(labels=(), controls=(), seeds=3))
    assert "No target: cloning (control) scores" in page.text
    assert "Target and achieved return" not in page.headings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a comparison without its runs."""
    made = made_comparison(labels=LABELS[:1], controls=(), cloning=(), seeds=1, checkpoints=0)
    (tmp_path / "comparison.json").write_text(json.dumps(made.to_dict()))
    return tmp_path


def test_report_writes_the_page_with_or_without_clips(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    out, errors = capsys.readouterr()
    assert out == f"written to {folder / 'report.html'}\n"
    sentence = "There is no clip of mingru: the run's folder or its checkpoint is not here."
    assert errors == f"{sentence}\n"
    assert sentence in Page((folder / "report.html").read_text()).text
    output = folder / "new" / "page.html"
    assert main(["report", str(folder / "comparison.json"), "--output", str(output), "--clips", "0"]) == 0
    assert capsys.readouterr().err == ""
    assert "Clips" not in Page(output.read_text()).headings
    assert [path.name for path in output.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        (None, [], "name the folder of a comparison"),
        ("{", [], "damaged"),
        ('{"schema": 2}', [], "schema 2"),
        ("[]", [], "schema None"),
        ("", ["--clips", "-1"], "clips is '-1'"),
        ("", ["--clip", "1"], "unknown argument '--clip'"),
    ],
)
def test_report_of_an_invalid_comparison_or_option_prints_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: str | None, options: list[str], message: str
) -> None:
    if record is not None:
        (tmp_path / "comparison.json").write_text(record)
    assert main(["report", str(tmp_path), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_report_output_that_cannot_be_written_prints_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = (folder / "comparison.json").read_bytes()
    for output, message in ((folder, "Is a directory"), (folder / "comparison.json" / "page.html", "cannot write")):
        assert main(["report", str(folder), "--output", str(output), "--clips", "0"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
        assert str(output) in line
    assert [path.name for path in folder.iterdir()] == ["comparison.json"]
    assert (folder / "comparison.json").read_bytes() == record


def test_write_clip_plays_once_within_the_size_limit(tmp_path: Path) -> None:
    smooth = np.linspace(0, 255, 240, dtype=np.uint8)
    frames = [Image.fromarray(np.roll(np.broadcast_to(smooth, (240, 240)), i, 1).copy()) for i in range(70)]
    write_clip(frames, 64.0, tmp_path / "clip.webp")
    assert (tmp_path / "clip.webp").stat().st_size <= CLIP_BYTES
    with Image.open(tmp_path / "clip.webp") as clip:
        assert clip.n_frames == 70
        assert clip.info["loop"] == 1


def test_clips_are_embedded_with_a_still_or_say_why_they_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def film(agent: Path, video: Path, target_return: float | None, *_: object, **options: object) -> list[Moment]:
        if agent.name.startswith("lru"):
            raise InputError("nothing renders here")
        assert (target_return, options["seconds"]) == (3600.0, 5.0)
        write_clip([Image.new("RGB", (24, 24), colour) for colour in ("red", "blue")], 64.0, video)
        return [Moment(600, 1234.5, False)]

    monkeypatch.setattr(clips, "last_checkpoint", lambda run: run)
    monkeypatch.setattr(clips, "film", film)
    made = made_comparison(labels=("mingru", "lru"), controls=(), cloning=(), seeds=1)
    page = Page(build_page(made, clips.clips_section(made, tmp_path, 3)))
    assert capsys.readouterr().err == "There is no clip of lru: nothing renders here.\n"
    assert "There is no clip of lru: nothing renders here." in page.text
    (alternative,) = (value for tag, name, value in page.attributes if (tag, name) == ("img", "alt"))
    assert alternative.startswith(
        "Animation: mingru on standin/hopper-medium, seed 0, target 3600, beyond the data: 600"
    )
    assert ("source", "media", "(prefers-reduced-motion: reduce)") in page.attributes


@pytest.mark.slow
def test_report_renders_clips_of_a_hopper_agent(small_cli: Callable, tmp_path: Path) -> None:
    """Skipped where neither EGL nor OSMesa renders."""
    done = small_cli(
        "compare", "hopper-medium", "--backbones", "mingru", "--controls", "none", "--seeds", "1", "--training.steps",
        "5", "--backbone.width", "16", "--evaluation.episodes", "2", "--output", "compared",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = small_cli("report", "compared")
    assert done.returncode == 0, done.stderr
    if "nothing renders here" in done.stderr:
        pytest.skip(done.stderr)
    html = (tmp_path / "compared" / "report.html").read_text()
    assert re.search(
        r'<img src="data:image/webp;base64,[^"]{3000,}" alt="Animation: mingru on standin/hopper-medium', html
    )
    assert "prefers-reduced-motion: reduce" in html

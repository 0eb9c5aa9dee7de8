"""Parts of the comparison page: the main finding, label placement, colours, number formats, clips."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from made_comparison import made_comparison
from PIL import Image

from decision_rnn.comparison.page import clips
from decision_rnn.comparison.page.axes import compact, spread_out
from decision_rnn.comparison.page.findings import findings
from decision_rnn.comparison.page.render import LARGEST, write_clip
from decision_rnn.comparison.page.style import DARK, LIGHT, VARIANTS
from decision_rnn.comparison.page.words import listed, shortened
from decision_rnn.comparison.record import Target
from decision_rnn.comparison.summary import TargetSummary, VariantSummary
from decision_rnn.evaluation import rendering
from decision_rnn.evaluation.statistics import summarise_seeds

BEST = Target(target_return=3118.0, roles=("best",), in_range=True)
CLONING = Target(target_return=None, roles=("bc",), in_range=None)


def said(**scores: list[float]) -> str:
    """The finding for the data's best return of variants with these seed scores; those named c... are controls."""
    dataset = made_comparison(labels=("a",), controls=(), cloning=(), seeds=1).datasets[0]
    found = [
        VariantSummary(
            variant=label,
            dataset=dataset.data.name,
            seeds=tuple(range(len(of))),
            targets=(
                TargetSummary(
                    target=CLONING if label.startswith("cloning") else BEST,
                    scores=summarise_seeds(of),
                    per_seed=tuple(of),
                    deviation=None,
                    return_mean=0,
                    return_sd=0,
                    return_median=0,
                    return_p10=0,
                    return_p90=0,
                ),
            ),
            obedience=None,
            curves=(),
            tuning=None,
            parameters=1,
            training_seconds=1,
            action_microseconds=1,
            state_bytes=1,
            remarks=(),
        )
        for label, of in scores.items()
    ]
    return findings(dataset, found, {label for label in scores if label.startswith("c")})[0]


def test_finding_says_that_cloning_has_no_target_return() -> None:
    text = said(a=[50.0, 51.0], cloning=[60.0, 61.0])
    assert text.startswith("At target 3118, the data's best, the control cloning, which has no target, scores")


def test_finding_names_ties_and_only_significant_differences() -> None:
    text = said(a=[80, 81, 82, 83, 84], b=[79, 81, 82, 83, 84], c=[80, 80, 81, 82, 84], d=[40, 41, 42, 43, 44])
    assert text.startswith("At target 3118, the data's best, a scores highest, 82.0 (95% interval 80.0 to 84.0).")
    assert "It is tied with b (81.8) and the control c (81.4): no difference is shown." in text
    assert "It is better than d (42.0)." in text


def test_finding_of_few_seeds_compares_ranges_without_a_test() -> None:
    apart = said(a=[80, 81, 82], b=[70, 71, 72])
    assert "Its range of seeds does not overlap with that of b (71.0)." in apart
    assert "no confidence interval" in apart
    assert "better" not in apart
    assert "It is tied with b (80.0): the ranges of their seeds overlap." in said(a=[80, 81, 82], b=[79, 80, 81])


def test_finding_of_one_seed_claims_no_ranking() -> None:
    assert said(a=[80], b=[20]).endswith(
        "With a single seed a difference cannot be told from chance, so no order is claimed."
    )
    assert said(a=[80]) == "At target 3118, the data's best, a scores 80.0."


def test_finding_names_a_control_that_is_highest_and_variants_with_too_few_seeds() -> None:
    text = said(a=[20, 21, 22, 23, 24], c=[80, 81, 82, 83, 84], few=[50, 51])
    assert "the control c scores highest" in text
    assert "It is better than a (22.0)." in text
    assert "Too few seeds tell it from few." in text


def test_finding_tests_the_best_of_five_seeds_if_the_highest_has_fewer() -> None:
    text = said(a=[95, 95.3], b=[80, 81, 82, 83, 84], c=[50, 51, 52, 53, 54])
    assert (
        "a scores highest, 95.2 (range of seeds 95.0 to 95.3). It has too few seeds for a test against the others. "
        in text
    )
    assert (
        "Of those with at least 5 seeds b (82.0) scores highest. b (82.0) is better than the control c (52.0)." in text
    )
    assert "better than c" not in text
    assert "tell it from a" not in text
    assert "It is" not in text


def test_finding_names_the_tested_variant_in_each_sentence() -> None:
    five = {"b": [80.0, 81, 82, 83, 84], "d": [79.0, 81, 82, 83, 84], "e": [50.0, 51, 52, 53, 54]}
    text = said(a=[95], few=[60, 61], **five, f=[40, 41, 42, 43, 44])
    assert "b (82.0) is tied with d (81.8): no difference is shown." in text
    assert "b (82.0) is better than e (52.0) and f (42.0)." in text
    assert text.endswith("Too few seeds tell b (82.0) from few.")
    assert "The control c (82.0) is better than e (52.0)." in said(a=[95], c=five["b"], e=five["e"])


def test_spread_out_moves_labels_apart_by_the_least_squares() -> None:
    generator = np.random.default_rng(0)
    for count in (1, 2, 5, 8):
        wishes = generator.uniform(0, 1, count).round(2)
        places = spread_out(wishes.tolist(), 0.1)
        assert min(places) >= 0
        assert max(places) <= 1
        order = np.argsort(wishes, kind="stable")
        assert np.diff(np.array(places)[order]).min(initial=1) >= 0.1 - 1e-9
        if count <= 2:  # brute force over a grid
            grid = np.linspace(0, 1, 101)
            fits = [p for p in itertools.product(grid, repeat=count) if np.diff(np.array(p)).min(initial=1) >= 0.1]
            least = min(float(((np.array(p) - wishes[order]) ** 2).sum()) for p in fits)
            assert ((np.array(places) - wishes) ** 2).sum() <= least + 1e-6
    assert spread_out([0.2, 0.6], 0.1) == [0.2, 0.6]
    assert spread_out([0.5] * 21, 0.1) == pytest.approx(np.linspace(0, 1, 21))  # more labels than there is room for


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("theme", "base"), [(0, LIGHT), (1, DARK)])
def test_page_colours_have_the_contrast_that_wcag_requires(theme: int, base: dict[str, str]) -> None:
    def contrast(colour: str) -> float:
        one, other = sorted((luminance(colour), luminance(base["surface"])))
        return (other + 0.05) / (one + 0.05)

    assert all(contrast(pair[theme]) >= 3 for pair in VARIANTS)
    assert all(contrast(base[name]) >= 4.5 for name in ("ink", "muted"))
    assert contrast(VARIANTS[0][theme]) >= 4.5  # the colour of links


def test_compact_numbers_shortened_names_and_listed_words() -> None:
    assert [compact(value) for value in (0, 0.05, 800, 1500, -1200, 2e6)] == [
        "0",
        "0.05",
        "800",
        "1.5k",
        "\N{MINUS SIGN}1.2k",
        "2M",
    ]
    assert shortened("minlstm-context20-rate-0.0003") != shortened("minlstm-context20-rate-0.0001")
    assert len(shortened("x" * 200)) == 18
    assert listed(["a", "b", "c", "d"], 3) == "a, b and 2 more"


def test_write_clip_plays_once_for_at_most_five_seconds_within_the_size_limit(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (70, 240, 240, 3), np.uint8)  # the hardest to compress
    write_clip([Image.fromarray(frame) for frame in noise[:2]], 64.0, tmp_path / "short.webp")
    smooth = np.linspace(0, 255, 240, dtype=np.uint8)
    frames = [Image.fromarray(np.roll(np.broadcast_to(smooth, (240, 240)), i, 1).copy()) for i in range(70)]
    write_clip(frames, 64.0, tmp_path / "clip.webp")
    assert (tmp_path / "clip.webp").stat().st_size <= LARGEST
    with Image.open(tmp_path / "clip.webp") as clip:
        assert clip.n_frames == 70
        assert clip.info["loop"] == 1
        clip.seek(69)
        clip.load()
        assert clip.info["timestamp"] + clip.info["duration"] <= 5_000


def test_clips_section_has_one_line_for_each_clip_that_cannot_be_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = made_comparison(labels=("mingru", "lru"), controls=(), cloning=(), seeds=1, windows={"lru": 20})
    monkeypatch.setattr(clips, "last_checkpoint", lambda run: run)
    drivers = []

    def crashes(command: list[str], **options: object) -> object:
        environment = options["env"]
        assert isinstance(environment, dict)
        drivers.append(environment.get("MUJOCO_GL"))
        jobs = json.loads(str(options["input"]))["jobs"]
        assert [job["target_return"] for job in jobs] == [3600.0, 3600.0]
        assert [job["window"] for job in jobs] == [None, 20]
        return type("Done", (), {"stderr": "gladLoadGL error\n", "returncode": -6})

    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(rendering.subprocess, "run", crashes)
    section = clips.clips_section(comparison, tmp_path, 3)
    assert section is not None
    assert drivers == list(rendering.DRIVERS)
    assert len(section.groups[0].text) == 2
    assert all("nothing renders here (gladLoadGL error)" in reason for reason in section.groups[0].text)
    assert capsys.readouterr().err == "\n".join(section.groups[0].text) + "\n"
    assert clips.clips_section(comparison, tmp_path, 0) is None


@pytest.mark.slow
def test_report_renders_clips_of_a_hopper_agent(small_cli, tmp_path: Path) -> None:
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

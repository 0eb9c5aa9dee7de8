"""Pictures show what they are given."""

from dataclasses import asdict
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

from decision_rnn import plots
from decision_rnn.evaluation.results import TargetResult
from decision_rnn.evaluation.statistics import summarise_seeds


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[plt.Figure]:
    """The figures that would have been written and closed."""
    kept: list[plt.Figure] = []
    monkeypatch.setattr(plots.plt, "close", kept.append)
    return kept


def target(asked: float | None, scores: list[float], in_range: bool | None = None) -> dict[str, object]:
    return {
        "target_return": asked,
        "in_range": in_range,
        "score_per_seed": scores,
        **asdict(summarise_seeds(scores)),
    }


def comparison(seeds: int, **variants: list[dict[str, object]]) -> dict[str, object]:
    asked = dict.fromkeys(target["target_return"] for targets in variants.values() for target in targets)
    return {
        "dataset": {"name": "standin/hopper-medium", "score_mean": 44.0},
        "protocol": {"target_returns": list(asked)},
        "seeds": list(range(seeds)),
        "variants": [{"label": label, "targets": targets} for label, targets in variants.items()],
    }


def drawn(panel: plt.Axes) -> list[list[float]]:
    """The heights of every line and group of dots."""
    return [list(line.get_ydata()) for line in panel.get_lines()]


def test_a_comparison_shows_every_seed_and_the_data(tmp_path: Path, figures: list[plt.Figure]) -> None:
    variants = {
        "mingru": [target(3600, [80, 90, 100], False), target(1800, [50, 55, 60], True)],
        "lru": [target(3600, [70, 75, 80], False), target(1800, [40, 45, 50], True)],
    }
    plots.plot_comparison(comparison(3, **variants), tmp_path / "scores.png")
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")
    left, right = figures[0].axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["mingru", "lru"]
    assert [44.0, 44.0] in drawn(left)
    assert [80, 90, 100] in drawn(left)
    assert [70, 75, 80] in drawn(left)
    assert [40, 45, 50] in drawn(right)
    assert left.get_title() == "asked for 3600, beyond the data"
    assert right.get_title() == "asked for 1800"


def test_three_seeds_have_a_line_over_their_range_and_no_interval(tmp_path: Path, figures: list[plt.Figure]) -> None:
    plots.plot_comparison(comparison(3, mingru=[target(3600, [80, 100, 91])]), tmp_path / "scores.png")
    (panel,) = figures[0].axes
    assert [80, 100] in drawn(panel)
    assert not panel.containers  # error bars
    title = figures[0].get_suptitle()
    assert "range" in title
    assert "interval" not in title


def test_one_seed_is_a_dot(tmp_path: Path, figures: list[plt.Figure]) -> None:
    plots.plot_comparison(comparison(1, mingru=[target(3600, [80])]), tmp_path / "scores.png")
    (panel,) = figures[0].axes
    assert drawn(panel) == [[44.0, 44.0], [80]]
    assert not {"range", "interval"} & set(figures[0].get_suptitle().replace(")", " ").split())


def test_five_seeds_have_an_interval(tmp_path: Path, figures: list[plt.Figure]) -> None:
    scores = [50.0, 51.0, 52.0, 53.0, 60.0]
    plots.plot_comparison(comparison(5, mingru=[target(3600, scores)]), tmp_path / "scores.png")
    (panel,) = figures[0].axes
    (bar,) = panel.containers
    (ends,) = bar.lines[2][0].get_segments()
    summary = summarise_seeds(scores)
    assert [height for _, height in ends] == pytest.approx([summary.low, summary.high])
    assert "95% interval" in figures[0].get_suptitle()


def test_scores_below_zero_are_seen(tmp_path: Path, figures: list[plt.Figure]) -> None:
    plots.plot_comparison(comparison(2, mingru=[target(3600, [-12.0, 3.0])]), tmp_path / "scores.png")
    assert figures[0].axes[0].get_ylim()[0] < -12


def test_a_variant_that_clones_has_a_panel_of_its_own(tmp_path: Path, figures: list[plt.Figure]) -> None:
    variants = {"asked": [target(3600, [80.0])], "clone": [target(None, [40.0])]}
    plots.plot_comparison(comparison(1, **variants), tmp_path / "scores.png")
    left, right = figures[0].axes
    assert [80.0] in drawn(left)
    assert [40.0] not in drawn(left)
    assert [40.0] in drawn(right)
    assert right.get_title() == "cloning"


def test_asked_against_achieved_gathers_the_seeds(tmp_path: Path, figures: list[plt.Figure]) -> None:
    def achieved(asked: float, returns: tuple[float, ...]) -> TargetResult:
        rest = {"return_mean": 0.0, "return_sd": 0.0, "score_mean": 0.0, "score_sd": 0.0, "length_mean": 0.0}
        return TargetResult(target_return=asked, in_range=True, returns=returns, **rest)

    targets = [achieved(1000, (100, 200)), achieved(2000, (300, 400)), achieved(1000, (300,)), achieved(2000, (500,))]
    plots.plot_asked_against_achieved({"mingru": targets}, 3000.0, tmp_path / "sweep.png")
    line = next(line for line in figures[0].axes[0].get_lines() if line.get_label() == "mingru")
    assert list(line.get_xdata()) == [1000, 2000]
    assert list(line.get_ydata()) == [200, 400]

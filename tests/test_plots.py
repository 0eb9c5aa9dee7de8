"""Pictures show what they are given."""

from pathlib import Path

import pytest
from matplotlib import pyplot as plt

from decision_rnn import plots


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[plt.Figure]:
    """The figures that would have been written and closed."""
    kept: list[plt.Figure] = []
    monkeypatch.setattr(plots.plt, "close", kept.append)
    return kept


def target(asked: float, scores: list[float]) -> dict[str, object]:
    mean = sum(scores) / len(scores)
    returns = [10 * score for score in scores]
    spread = {"score_iqm": mean, "score_low": min(scores), "score_high": max(scores)}
    return {"target_return": asked, "score_per_seed": scores, "returns": returns, **spread}


def test_a_comparison_shows_every_seed_and_the_data(tmp_path: Path, figures: list[plt.Figure]) -> None:
    entries = [
        {"backbone": "mingru", "targets": [target(3600, [80, 90, 100]), target(1800, [50, 55, 60])]},
        {"backbone": "lru", "targets": [target(3600, [70, 75, 80]), target(1800, [40, 45, 50])]},
    ]
    comparison = {
        "dataset": {"dataset": "standin/hopper-medium", "score_mean": 44.0},
        "protocol": {"target_returns": [3600.0, 1800.0]},
        "seeds": [0, 1, 2],
        "backbones": entries,
    }
    plots.plot_comparison(comparison, tmp_path / "scores.png")
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")
    left, right = figures[0].axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["mingru", "lru"]
    drawn = [list(line.get_ydata()) for line in left.get_lines()]
    assert [44.0, 44.0] in drawn
    assert [80, 90, 100] in drawn
    assert [70, 75, 80] in drawn
    assert [40, 45, 50] in [list(line.get_ydata()) for line in right.get_lines()]


def test_asked_against_achieved_gathers_the_seeds(tmp_path: Path, figures: list[plt.Figure]) -> None:
    curves = {"mingru": [target(1000, [10, 20]), target(2000, [30, 40]), target(1000, [30]), target(2000, [50])]}
    plots.plot_asked_against_achieved(curves, 3000.0, tmp_path / "sweep.png")
    line = next(line for line in figures[0].axes[0].get_lines() if line.get_label() == "mingru")
    assert list(line.get_xdata()) == [1000, 2000]
    assert list(line.get_ydata()) == [200, 400]

"""A comparison's table says what its numbers are: scores of few seeds are shown whole, and no interval is claimed."""

from dataclasses import asdict
from typing import Any

import pytest

from decision_rnn.comparison.table import format_comparison
from decision_rnn.evaluation.statistics import summarise_seeds


def comparison(scores: list[float], **changes: Any) -> dict[str, Any]:
    def target(asked: float, in_range: bool | None) -> dict[str, Any]:
        returns = {"return_per_seed": scores, "return_mean": 2911.2, "return_sd": 189.3}
        summary = asdict(summarise_seeds(scores))
        return {"target_return": asked, "in_range": in_range, "score_per_seed": scores, **summary, **returns}

    entry = {
        "label": "mingru",
        "config": {"training": {"steps": 10_000}},
        "seeds": list(range(len(scores))),
        "targets": [target(3600.0, False), target(1800.0, True)],
        "parameters": 498_947,
        "training_seconds": 334.8,
        "action_microseconds": 393.2,
        "comparable": "with no paper's",
        "remarks": ["3600 is beyond the data's best 3092: its score measures extrapolation"],
    }
    return {
        "dataset": {"name": "standin/hopper-medium", "score_mean": 43.7, "notes": []},
        "protocol": {"episodes": 100, "target_returns": [3600.0, 1800.0], "state": "carry", "window": None, "seed": 0},
        "seeds": list(range(len(scores))),
        "jobs": 1,
        "variants": [entry],
        "failed": [],
        **changes,
    }


def cells(text: str, row: int) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [cell.strip() for cell in lines[row].strip("|").split("|")]


@pytest.mark.parametrize(
    ("scores", "cell"),
    [
        ([80.2], "80.2"),
        ([80.2, 90.4], "85.3, range 80.2 to 90.4 (80.2, 90.4)"),
        ([89.6, 90.4, 90.0], "90.0, range 89.6 to 90.4 (89.6, 90.4, 90.0)"),
    ],
)
def test_few_seeds_are_shown_one_by_one_and_have_no_interval(scores: list[float], cell: str) -> None:
    text = format_comparison(comparison(scores))
    assert cells(text, 2)[1:3] == [cell, cell]
    assert "95%" not in text
    assert "interquartile" not in text
    assert "[" not in text


def test_five_seeds_have_an_interval() -> None:
    text = format_comparison(comparison([50.0, 51.0, 52.0, 53.0, 60.0]))
    summary = summarise_seeds([50.0, 51.0, 52.0, 53.0, 60.0])
    assert cells(text, 2)[1] == f"53.2 [{summary.low:.1f}, {summary.high:.1f}]"
    assert "mean over seeds with Student's t 95% interval" in text
    assert "results/coverage" in text
    assert "range" not in text


def test_obedience_and_extrapolation_are_never_one_column() -> None:
    text = format_comparison(comparison([1.0]))
    assert cells(text, 0)[1:3] == ["score, asked 3600, beyond the data", "score, asked 1800, inside the data"]
    assert "- 3600 is beyond the data's best 3092" in text


def test_one_episode_has_no_spread() -> None:
    protocol = {"episodes": 1, "target_returns": [3600.0, 1800.0], "state": "carry", "window": None, "seed": 0}
    assert cells(format_comparison(comparison([1.0])), 2)[3:5] == ["2911 ± 189", "2911 ± 189"]
    assert cells(format_comparison(comparison([1.0], protocol=protocol)), 2)[3:5] == ["2911", "2911"]


def test_a_window_is_named() -> None:
    protocol = {"episodes": 5, "target_returns": [3600.0, 1800.0], "state": "window", "window": 20, "seed": 0}
    assert "5 episodes per target, window of 20." in format_comparison(comparison([1.0], protocol=protocol))

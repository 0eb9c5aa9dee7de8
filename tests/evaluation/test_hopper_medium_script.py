"""The script behind results/hopper-medium: what stands under a target was asked for that target."""

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from decision_rnn.config import EvaluationConfig

PATH = Path(__file__).parents[2] / "scripts" / "hopper_medium.py"
spec = importlib.util.spec_from_file_location("hopper_medium", PATH)
script = sys.modules["hopper_medium"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


def fake_evaluate(agent: object, settings: EvaluationConfig) -> SimpleNamespace:
    """Scores what it is asked for, and 39 where it is asked for the dataset's own targets or for nothing."""
    asked = settings.target_returns or (39.0,)
    return SimpleNamespace(targets=[SimpleNamespace(target_return=t, score_mean=t, returns=[t]) for t in asked])


@pytest.mark.parametrize("asked", [[2400.0, 900.0, 300.0], [None]])
def test_the_windows_scores_are_of_the_targets_they_stand_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[float | None]
) -> None:
    runs = tmp_path / "runs" / "hopper-medium"
    runs.mkdir(parents=True)
    comparison: dict[str, Any] = {
        "protocol": {"target_returns": asked, "state": "carry"},
        "variants": [{"label": "mingru", "seeds": [0], "targets": [{"score": 7.0} for _ in asked]}],
        "seeds": [0],
        "dataset": {"return_max": 3092.0, "fingerprint": "ab" * 32},
        "versions": {},
        "hardware": {"cpu": "some", "cores": 1, "gpu": None},
        "commits": ["c0ffee"],
    }
    (runs / "comparison.json").write_text(json.dumps(comparison))
    (runs / "comparison.md").write_text("the table\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(script.subprocess, "run", lambda *arguments, **options: None)
    monkeypatch.setattr(script, "evaluate", fake_evaluate)
    monkeypatch.setattr(script, "load_agent", lambda folder: None)
    monkeypatch.setattr(script, "last_checkpoint", lambda run: run)
    monkeypatch.setattr(script, "asdict", vars)
    for draw in ("plot_comparison", "plot_asked_against_achieved"):
        monkeypatch.setattr(script, draw, lambda *arguments: None)
    monkeypatch.setattr(sys, "argv", ["hopper_medium.py"])
    script.main()
    text = (tmp_path / "results" / "hopper-medium" / "README.md").read_text()
    head, _, row = [line for line in text.splitlines() if line.startswith("|")]
    heads = ["cloning" if target is None else f"asked {target:g}" for target in asked]
    assert head == "| variant |" + "".join(f" {each}, carried | window |" for each in heads)
    assert row == "| mingru |" + "".join(f" 7.0 | {39 if target is None else target:.1f} |" for target in asked)
    assert ("Asked for more" in text) == (asked != [None])

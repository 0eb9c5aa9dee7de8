"""The commands train, evaluate and compare as a user runs them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guide import ROOT
from safetensors.torch import load_file
from small_comparison import Inline
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SMALL = ["--backbone.width", "16", "--evaluation.episodes", "2", "--training.log_every", "10"]
ALONE = ["--processes", "1"]
SmallCLI = Callable[..., "subprocess.CompletedProcess[str]"]


def read_result(run: Path, protocol: str = "recurrent") -> dict[str, Any]:
    """The only result of that protocol in a run's folder."""
    (path,) = (run / "results").glob(f"step-*-{protocol}-*.json")
    return json.loads(path.read_text())


def test_train_prints_reach_and_scores_and_writes_them(small_cli: SmallCLI, tmp_path: Path) -> None:
    """In a process of its own."""
    words = ["train", "hopper-medium", "--training.steps", "20", "--condition.rtg_quantile", "0", *SMALL, *ALONE]
    done = small_cli(*words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "d4rl/hopper-medium-v2" in lines[0]
    run = tmp_path / "runs" / "standin-hopper-medium-mingru-seed0"
    result = read_result(run)
    best = result["dataset"]["return_max"]
    (reach,) = (line for line in lines if line.startswith("target 3600: 0 of "))
    assert reach.index("target 1800: ") < reach.index(": 1 of ")
    (row,) = (line for line in lines if line.endswith("  the data's best"))
    assert row.split()[0] == f"{best:g}"
    for target, expected in zip(result["targets"], [3600, 1800, best], strict=True):
        assert target["target_return"] == expected
        assert len(target["returns"]) == 2
        mean = sum(target["returns"]) / 2
        assert target["return_mean"] == pytest.approx(mean, abs=1e-3)
        assert target["score_mean"] == pytest.approx(100 * (mean + 20.272305) / (3234.3 + 20.272305), abs=1e-3)
    assert (result["step"], result["config"]["training"]["steps"]) == (20, 20)
    assert {"torch", "mujoco", "decision-rnn"} <= result["versions"].keys()
    assert len(result["dataset"]["fingerprint"]) == 64
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if head.returncode == 0:
        assert result["commit"].removesuffix("-dirty") in head.stdout
    events = EventAccumulator(str(run)).Reload()
    for target in result["targets"]:
        (scored,) = events.Scalars(f"evaluation/score_at_{target['target_return']:g}")
        assert (scored.step, scored.value) == (20, pytest.approx(target["score_mean"], rel=1e-5))


def test_evaluate_writes_a_result_for_each_protocol(inside: Path, inline_cli: SmallCLI) -> None:
    run = inside / "run"
    done = inline_cli("train", "local/swing", "--output", "run", "--training.steps", "2", *SMALL, *ALONE)
    assert done.returncode == 0, done.stderr
    (path,) = (run / "results").iterdir()
    before = path.read_bytes()
    for options in (["--inference", "window", "--window", "5"], ["--seed", "3"]):
        done = inline_cli("evaluate", "run", "--target_returns", "[500]", *options, *ALONE)
        assert done.returncode == 0, done.stderr
    windowed = read_result(run, "window-5")
    (shown,) = EventAccumulator(str(run)).Reload().Scalars("evaluation/score_at_500")[:1]
    assert (shown.step, shown.value) == (2, pytest.approx(windowed["targets"][0]["score_mean"], rel=1e-5))
    assert [target["target_return"] for target in windowed["targets"]] == [500]
    assert inline_cli("evaluate", "run", *ALONE).returncode == 0
    assert len(list((run / "results").iterdir())) == 3
    assert json.loads(path.read_text())["targets"] == json.loads(before)["targets"]  # seeded: the same episodes


def test_compare_with_match_parameters_finds_widths_and_resumes(
    inside: Path, inline_cli: SmallCLI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each backbone gets its own width, kept in config.yaml and checkpoint; repeating a command resumes its runs."""
    monkeypatch.setattr("decision_rnn.comparison.compare.make_executor", lambda *_: Inline())
    small = ["--training.steps", "2", "--training.batch_size", "8", "--evaluation.episodes", "1"]
    command = ["compare", "local/swing", "--backbones", "mingru,lru", "--seeds", "1", "--output", "out"]
    command += ["--controls", "none", "--checkpoint_episodes", "0", *small]
    done = inline_cli(*command, "--backbone.match_parameters", "30k")
    assert done.returncode == 0, done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table[2:4]] == ["minGRU", "LRU"]
    comparison = json.loads((inside / "out" / "comparison.json").read_text())
    widths = [entry["config"]["backbone"]["width"] for entry in comparison["variants"]]
    assert widths[0] != widths[1]
    for trial, width in zip(comparison["trials"], widths, strict=True):
        run = inside / "out" / trial["run"]
        saved = load_file(run / "checkpoints" / "2" / "weights.safetensors")
        size = sum(value.numel() for name, value in saved.items() if name.startswith("backbone."))
        assert abs(size - 30_000) < 3_000
        assert read_result(run)["backbone_parameters"] == trial["backbone_parameters"] == size
        assert f"  width: {width}\n" in (run / "config.yaml").read_text()
    done = inline_cli(*command, "--backbone.match_parameters", "30000")
    assert done.returncode == 0, done.stderr
    assert "2 runs, 2 of them done" in done.stdout

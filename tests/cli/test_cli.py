"""The commands train, evaluate and compare as a user runs them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from small_comparison import Inline
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from decision_rnn.cli import COMMANDS

SMALL_CLI = Path(__file__).parents[1] / "small_cli.py"
SMALL = ["--backbone.width", "16", "--evaluation.episodes", "2", "--training.log_every", "10"]

SmallCLI = Callable[..., "subprocess.CompletedProcess[str]"]


def read_result(run: Path, protocol: str = "recurrent") -> dict[str, Any]:
    """The only result of that protocol in a run's folder."""
    (path,) = (run / "results").glob(f"step-*-{protocol}-*.json")
    return json.loads(path.read_text())


def test_train_then_evaluate(small_cli: SmallCLI, inline_cli: SmallCLI, tmp_path: Path) -> None:
    alone = ["--processes", "1"]
    done = small_cli(
        "train", "hopper-medium", "--training.steps", "20", "--condition.rtg_quantile", "0", *SMALL, *alone
    )
    assert done.returncode == 0, done.stderr
    assert "3600" in done.stdout
    assert "(the data)" in done.stdout
    (reach,) = (line for line in done.stdout.splitlines() if line.startswith("target 3600: 0 of "))
    assert reach.index("target 1800: ") < reach.index(": 1 of ")
    assert done.stdout.index(reach) < done.stdout.index(" target  ")
    (warned,) = (line for line in done.stderr.splitlines() if line.startswith("warning: "))
    assert "3600" in warned
    run = tmp_path / "runs" / "standin-hopper-medium-mingru-seed0"
    result = read_result(run)
    best = result["dataset"]["return_max"]
    assert best < 3600
    (row,) = (line for line in done.stdout.splitlines() if line.endswith("  the data's best"))
    assert row.split()[0] == f"{best:g}"
    for target, asked in zip(result["targets"], [3600, 1800, best], strict=True):
        assert target["target_return"] == asked
        assert len(target["returns"]) == 2
        mean = sum(target["returns"]) / 2
        assert target["return_mean"] == pytest.approx(mean, abs=1e-3)
        assert target["score_mean"] == pytest.approx(100 * (mean + 20.272305) / (3234.3 + 20.272305), abs=1e-3)
    assert result["step"] == 20
    assert result["config"]["training"]["steps"] == 20
    assert {"torch", "mujoco", "decision-rnn"} <= result["versions"].keys()
    assert len(result["dataset"]["fingerprint"]) == 64
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=SMALL_CLI.parent, capture_output=True, text=True)
    if head.returncode == 0:
        assert result["commit"].removesuffix("-dirty") in head.stdout
    events = EventAccumulator(str(run)).Reload()
    for target in result["targets"]:
        (scored,) = events.Scalars(f"evaluation/score_at_{target['target_return']:g}")
        assert (scored.step, scored.value) == (20, pytest.approx(target["score_mean"], rel=1e-5))

    (path,) = (run / "results").iterdir()
    assert "d4rl/hopper-medium-v2" in done.stdout.splitlines()[0]
    before = path.read_bytes()
    for options in (["--inference", "window", "--window", "5"], ["--seed", "3"]):
        done = inline_cli("evaluate", str(run), "--target_returns", "[500]", *options, *alone)
        assert done.returncode == 0, done.stderr
        assert "the data's best" not in done.stdout
    windowed = read_result(run, "window-5")
    (shown,) = EventAccumulator(str(run)).Reload().Scalars("evaluation/score_at_500")[:1]
    assert (shown.step, shown.value) == (20, pytest.approx(windowed["targets"][0]["score_mean"], rel=1e-5))
    assert [target["target_return"] for target in windowed["targets"]] == [500]
    assert len(list((run / "results").iterdir())) == 3
    assert path.read_bytes() == before
    done = inline_cli("evaluate", str(run), *alone)
    assert done.returncode == 0
    assert row in done.stdout.splitlines()
    assert len(list((run / "results").iterdir())) == 3
    assert json.loads(path.read_text())["targets"] == result["targets"]  # seeded: the same episodes


def test_train_with_evaluation_episodes_0_writes_no_result(inline_cli: SmallCLI, tmp_path: Path) -> None:
    none = ["--training.steps", "10", *SMALL, "--evaluation.episodes", "0"]
    done = inline_cli("train", "hopper-medium", "--output", "run", *none)
    assert done.returncode == 0, done.stderr
    assert "not evaluated" in done.stdout
    assert not (tmp_path / "run" / "results").exists()
    done = inline_cli("evaluate", "run", "--episodes", "0")
    assert done.returncode == 2
    assert "episodes" in done.stderr
    assert inline_cli("evaluate", "run", "--episodes", "1", "--processes", "1").returncode == 0
    assert read_result(tmp_path / "run")["protocol"]["episodes"] == 1


def test_compare_with_match_parameters_finds_widths_and_resumes(
    inline_cli: SmallCLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each backbone gets its own width, kept in config.yaml and checkpoint; repeating a command resumes its runs."""
    monkeypatch.setattr("decision_rnn.comparison.compare.make_executor", lambda *_: Inline())
    command = ["compare", "hopper-medium", "--backbones", "mingru,mlstm", "--seeds", "1", "--output", "out"]
    command += ["--controls", "none", "--checkpoint_episodes", "0"]
    command += ["--training.steps", "10", "--evaluation.episodes", "2"]
    done = inline_cli(*command, "--backbone.match_parameters", "30k")
    assert done.returncode == 0, done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table[2:4]] == ["minGRU", "mLSTM"]
    assert "warning: " not in done.stderr  # it would otherwise be printed once per run
    comparison = json.loads((tmp_path / "out" / "comparison.json").read_text())
    widths = [entry["config"]["backbone"]["width"] for entry in comparison["variants"]]
    assert widths[0] != widths[1]
    for trial, width in zip(comparison["trials"], widths, strict=True):
        run = tmp_path / "out" / trial["run"]
        saved = load_file(run / "checkpoints" / "10" / "weights.safetensors")
        size = sum(value.numel() for name, value in saved.items() if name.startswith("backbone."))
        assert abs(size - 30_000) < 3_000
        assert read_result(run)["backbone_parameters"] == size
        assert f"  width: {width}\n" in (run / "config.yaml").read_text()
        assert trial["backbone_parameters"] == size
    done = inline_cli(*command, "--backbone.match_parameters", "30000")
    assert done.returncode == 0, done.stderr
    assert "2 runs, of which 2 are done" in done.stdout
    train = ["train", "hopper-medium", "--training.steps", "10", "--evaluation.episodes", "2"]
    train += ["--output", "out/standin-hopper-medium/mingru-seed0", "--resume", "--processes", "1"]
    done = inline_cli(*train, "--backbone.match_parameters", "60k")
    assert done.returncode == 2
    assert f"started with backbone.width {widths[0]}" in done.stderr
    assert inline_cli(*train, "--backbone.match_parameters", "0.03m").returncode == 0


def test_closed_output_pipe_is_not_an_error(small_environment: dict[str, str]) -> None:
    lines = f"{sys.executable} -u {SMALL_CLI} data list | head -n 1"
    done = subprocess.run(lines, shell=True, env=small_environment, capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_help_lists_commands_and_the_options_of_the_chosen_backbone(inline_cli: SmallCLI) -> None:
    listed = inline_cli("--help").stdout
    assert all(f"  {name} " in listed for name in COMMANDS)
    for words in (["train", "--backbone", "lru"], ["train", "--backbone.name=lru", "--plugins", ""]):
        done = inline_cli(*words, "--help")
        assert done.returncode == 0
        assert "--backbone.max_phase" in done.stdout
        assert "--training.steps" in done.stdout
        assert "Probability of dropping a channel" in done.stdout

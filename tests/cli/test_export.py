"""`decision-rnn export`, and `decision-rnn evaluate` of the exported policy."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
import yaml
from made_policy import made_agent

from decision_rnn.agent import NoConditionConfig
from decision_rnn.backbones import registered
from decision_rnn.config import to_dict
from decision_rnn.evaluation import rollout
from decision_rnn.training.checkpoint import save_checkpoint

POLICIES = "decision_rnn.evaluation.policies"
Cli = Callable[..., CompletedProcess[str]]


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    trained = made_agent(registered("mlp").config(width=8, layers=1))
    folder = tmp_path / "run"
    save_checkpoint(folder, trained, {})
    (folder / "config.yaml").write_text(yaml.safe_dump(to_dict(trained.config)))
    return folder


def test_exported_policy_has_the_same_scores_as_its_run(inline_cli: Cli, run_folder: Path) -> None:
    of_run = inline_cli("evaluate", str(run_folder), "--episodes", "2", "--processes", "1")
    assert of_run.returncode == 0, of_run.stderr
    done = inline_cli("export", str(run_folder), "--target_return", "1700")
    assert done.returncode == 0, done.stderr
    assert "largest difference from the agent's actions over 300 steps" in done.stdout
    policy = run_folder / "policy.onnx"
    output = run_folder.parent / "of the policy"
    of_policy = inline_cli("evaluate", str(policy), "--episodes", "2", "--processes", "1", "--output", str(output))
    assert of_policy.returncode == 0, of_policy.stderr
    ours_printed, its_printed = (done.stdout.partition("written to")[0].splitlines() for done in (of_run, of_policy))
    (limited,) = set(ours_printed) - set(its_printed)  # a file does not report what its agent saw
    assert limited.startswith("auto: return-to-go limited")
    assert [line for line in ours_printed if line != limited] == its_printed
    (ours,), (its,) = (list((folder / "results").glob("*.json")) for folder in (run_folder, output))
    assert ours.name == its.name

    from decision_rnn.deploy import Policy

    metadata = Policy.load(policy).metadata
    assert metadata["target_return"]["default"] == 1700
    returns = json.loads(ours.read_text())["targets"][0]["return_mean"]
    assert metadata["scores"][0]["targets"][0]["return_mean"] == returns

    for option, told in (
        (("--inference", "window"), "carries its state"),
        (("--window", "60"), "window is 60"),
    ):
        refused = inline_cli("evaluate", str(policy), "--episodes", "2", *option)
        assert refused.returncode == 2
        assert told in refused.stderr


def test_export_and_evaluate_refuse_invalid_arguments_and_a_missing_onnxruntime_before_any_work(
    inline_cli: Cli, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is traced, played or written."""
    monkeypatch.setattr(torch.export, "export", lambda *_, **__: pytest.fail("the agent was traced"))
    monkeypatch.setattr(rollout, "play_group", lambda *_, **__: pytest.fail("an episode was played"))
    before = contents(tmp_path)
    in_new_folder = ["--output", "new/policy.onnx"]
    for arguments, word in [
        (["export", "nowhere"], "nowhere"),
        (["export", str(run_folder), "--output", str(run_folder), "--weights", "int4"], "int4"),
        (["export", str(run_folder), "--output", str(run_folder / "config.yaml" / "policy.onnx")], "Not a directory"),
        (["export", str(run_folder), *in_new_folder, "--target_return", "nan"], "target_return"),
        (["evaluate", str(run_folder / "absent.onnx"), "--episodes", "1"], "absent.onnx"),
    ]:
        assert word in error_line(inline_cli(*arguments))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for name in [name for name in sys.modules if name.startswith(("decision_rnn.deploy.", POLICIES))]:
        monkeypatch.delitem(sys.modules, name)
    for arguments in (["export", str(run_folder), *in_new_folder], ["evaluate", str(run_folder / "policy.onnx")]):
        assert "decision-rnn[onnx]" in error_line(inline_cli(*arguments))
    assert contents(tmp_path) == before


def error_line(done: "CompletedProcess[str]") -> str:
    """The only line on stderr of a refused command."""
    assert done.returncode == 2, done.args
    (line,) = done.stderr.splitlines()
    assert line.startswith("decision-rnn: ")
    return line


def contents(folder: Path) -> dict[Path, bytes]:
    """Every path in a folder, with the bytes of files."""
    return {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_export_of_cloning_refuses_a_target_return_before_any_work(
    inline_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloning = made_agent(registered("mlp").config(width=8, layers=1), condition=NoConditionConfig())
    save_checkpoint(tmp_path / "cloning", cloning, {})
    (tmp_path / "cloning" / "config.yaml").write_text(yaml.safe_dump(to_dict(cloning.config)))
    monkeypatch.setattr(torch.export, "export", lambda *_, **__: pytest.fail("the agent was traced"))
    before = contents(tmp_path)
    done = inline_cli("export", "cloning", "--target_return", "5", "--output", "new/policy.onnx")
    assert "takes no target return" in error_line(done)
    assert contents(tmp_path) == before

"""`decision-rnn export`, and `decision-rnn evaluate` of the exported policy."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from made_policy import made_agent

from decision_rnn.backbones import registered
from decision_rnn.checkpoint import save_checkpoint
from decision_rnn.config import to_dict

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
    done = inline_cli("export", str(run_folder), "--target-return", "1700")
    assert done.returncode == 0, done.stderr
    assert "largest difference from the agent's actions over 300 steps" in done.stdout
    policy = run_folder / "policy.onnx"
    output = run_folder.parent / "of the policy"
    of_policy = inline_cli("evaluate", str(policy), "--episodes", "2", "--processes", "1", "--output", str(output))
    assert of_policy.returncode == 0, of_policy.stderr
    tables = [done.stdout.partition("written to")[0] for done in (of_run, of_policy)]
    assert tables[0] == tables[1]
    (ours,), (its,) = (list((folder / "results").glob("*.json")) for folder in (run_folder, output))
    assert ours.name == its.name

    from decision_rnn.deploy import Policy

    metadata = Policy.load(policy).metadata
    assert metadata["target_return"]["default"] == 1700
    returns = json.loads(ours.read_text())["targets"][0]["return_mean"]
    assert metadata["scores"][0]["targets"][0]["return_mean"] == returns

    for option, told in (
        (("--state", "window"), "carried state"),
        (("--window", "60"), "window is 60 but the state is carried"),
        (("--return_limit", "0.5"), "return limit"),
    ):
        refused = inline_cli("evaluate", str(policy), "--episodes", "2", *option)
        assert refused.returncode == 2
        assert told in refused.stderr


def test_export_and_evaluate_refuse_invalid_arguments_and_a_missing_onnxruntime(
    inline_cli: Cli, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, word in [
        (["export", "nowhere"], "not a run folder"),
        (["export", str(run_folder), "--output", str(run_folder)], "name a file"),
        (["export", str(run_folder), "--target-return", "nan"], "target-return"),
        (["export", str(run_folder), "--format", "pickle"], "format"),
        (["evaluate", str(run_folder / "absent.onnx"), "--episodes", "1"], "cannot read"),
    ]:
        done = inline_cli(*arguments)
        assert done.returncode == 2, arguments
        assert word in done.stderr
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for name in [name for name in sys.modules if name.startswith("decision_rnn.deploy.")]:
        monkeypatch.delitem(sys.modules, name)
    for arguments in (["export", str(run_folder)], ["evaluate", str(run_folder / "policy.onnx")]):
        done = inline_cli(*arguments)
        assert done.returncode == 2
        assert "decision-rnn[onnx]" in done.stderr

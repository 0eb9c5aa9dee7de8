"""`decision-rnn export`, and `decision-rnn evaluate` of the exported policy."""

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
from decision_rnn.deploy import Policy
from decision_rnn.evaluation import rollout
from decision_rnn.runs.checkpoint import save_checkpoint

Cli = Callable[..., CompletedProcess[str]]
EPISODES = ("--episodes", "2", "--processes", "1")


@pytest.fixture(autouse=True)
def runs(tmp_path: Path) -> None:
    """Two runs in the working folder: `run`, and `cloning`, which takes no target return."""
    for name, options in (("run", {}), ("cloning", {"condition": NoConditionConfig()})):
        trained = made_agent(registered("mlp").config(width=8, layers=1), **options)
        save_checkpoint(tmp_path / name, trained, {})
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump(to_dict(trained.config)))


def test_exported_policy_has_the_same_scores_as_its_run(inline_cli: Cli, tmp_path: Path) -> None:
    of_run = inline_cli("evaluate", "run", *EPISODES)
    assert of_run.returncode == 0, of_run.stderr
    done = inline_cli("export", "run", "--target_return", "1700")
    assert done.returncode == 0, done.stderr
    assert "over 300 steps" in done.stdout
    of_policy = inline_cli("evaluate", "run/policy.onnx", *EPISODES, "--output", "of the policy")
    assert of_policy.returncode == 0, of_policy.stderr
    tables = [done.stdout.partition("written to")[0].splitlines() for done in (of_run, of_policy)]
    (limited,) = set(tables[0]) - set(tables[1])  # a file does not report what its agent saw
    assert [line for line in tables[0] if line != limited] == tables[1]
    (ours,), (theirs,) = (list((tmp_path / name / "results").iterdir()) for name in ("run", "of the policy"))
    assert ours.name == theirs.name

    metadata = Policy.load(tmp_path / "run" / "policy.onnx").metadata
    assert metadata["target_return"]["default"] == 1700

    refused = inline_cli("evaluate", "run/policy.onnx", *EPISODES, "--inference", "window")
    assert refused.returncode == 2
    assert "carries its state" in refused.stderr


def test_invalid_arguments_or_a_missing_package_stop_before_any_work(
    inline_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is traced, played or written."""

    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def assert_refused(arguments: str, name: str) -> None:
        done = inline_cli(*arguments.split())
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), arguments
        assert name in done.stderr

    monkeypatch.setattr(torch.export, "export", lambda *_, **__: pytest.fail("the agent was traced"))
    monkeypatch.setattr(rollout, "score_group", lambda *_, **__: pytest.fail("an episode was played"))
    before = contents()
    assert_refused("export nowhere", "nowhere")
    assert_refused("export run --output run/config.yaml/policy.onnx", "Not a directory")
    assert_refused("export run --output new/policy.onnx --target_return nan", "target_return")
    assert_refused("export cloning --output new/policy.onnx --target_return 5", "target return")
    assert_refused("evaluate run/absent.onnx --episodes 1", "absent.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for name in [name for name in sys.modules if name.startswith("decision_rnn.deploy.")]:
        monkeypatch.delitem(sys.modules, name)
    assert_refused("export run --output new/policy.onnx", ".[onnx]")
    assert_refused("evaluate run/policy.onnx", ".[onnx]")
    assert contents() == before

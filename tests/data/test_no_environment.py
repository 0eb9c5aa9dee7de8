"""Data of no environment, such as a robot's logs: everything works but playing, which says so in a sentence."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import decision_rnn
from decision_rnn import Episode, EpisodeStore, InputError, Run, open_dataset, write_store
from decision_rnn.deploy.runtime import Policy

SMALL = {"backbone": {"name": "mingru", "width": 8, "layers": 1}, "steps": 2, "training": {"context": 5}}
Command = Callable[..., "subprocess.CompletedProcess[str]"]


def logs() -> list[Episode]:
    random = np.random.default_rng(0)
    return [
        Episode(
            random.normal(size=(length + 1, 4)),
            np.clip(random.normal(0, 2, (length, 2)), -3, 3),
            random.normal(length, 1, length),
            terminated=False,
            truncated=True,
        )
        for length in (20, 30, 15)
    ]


@pytest.fixture
def robot(inline_cli: Command, folders: Path) -> EpisodeStore:
    """The dataset local/robot, of three episodes with actions from -3 to 3."""
    return write_store("local/robot", logs())


def test_agent_is_trained_acts_and_is_exported(
    robot: EpisodeStore, inline_cli: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert robot.environment_id is open_dataset("local/robot").spec.environment_id is None
    run = decision_rnn.train("local/robot", output="run", **SMALL)
    printed = capfd.readouterr().out.splitlines()
    assert any("local/robot names no environment" in line for line in printed)
    assert "" not in printed  # where no target return is a number
    assert (run.config.evaluation.episodes, run.agent.provenance.environment_id) == (0, None)
    box = Run("run").agent.provenance.action_space
    np.testing.assert_array_equal([box.low, box.high], [robot.actions.min(0), robot.actions.max(0)])
    action = Run("run").actor(30)(robot.observations[0], 0.0)
    assert ((action >= box.low) & (action <= box.high)).all()
    assert decision_rnn.train(output="run", resume=True).agent.step == 2
    with pytest.raises(InputError, match="environment"):
        run.evaluate()

    done = inline_cli("package", "run", "--output", "shared")
    assert done.returncode == 0, done.stderr
    assert "decision-rnn evaluate" not in done.stderr  # which cannot give it scores
    policy = Policy.load("shared/policy.onnx")
    policy.reset(30.0)
    np.testing.assert_allclose(policy(robot.observations[0], 0.0), action, atol=1e-5)
    assert "None" not in (tmp_path / "shared" / "README.md").read_text()
    assert decision_rnn.load_agent("shared").provenance.environment_id is None


def test_commands_work_but_those_that_play(
    robot: EpisodeStore, inline_cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = ["--backbone.width", "8", "--training.steps", "2", "--training.context", "5"]
    done = inline_cli("train", "local/robot", "--output", "run", *short)
    assert done.returncode == 0, done.stderr
    assert "not evaluated" in done.stdout
    assert "none: 4 observations, 2 actions" in inline_cli("data", "info", "local/robot").stdout
    for words, name in (
        (["evaluate", "run"], "environment"),
        (["play", "run", "--video", "run.mp4"], "environment"),
        (["compare", "local/robot", "--seeds", "1", "--output", "compared"], "environment"),
        (["train", "local/robot", "--output", "masked", "--observation.mask", "velocity", *short], "velocities"),
    ):
        done = inline_cli(*words)
        assert done.returncode == 2, words
        (line,) = done.stderr.splitlines()
        assert name in line
        assert "--evaluation.episodes" not in line  # which would help none of these

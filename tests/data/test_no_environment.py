"""Data of no environment, such as a robot's logs: everything works but playing, which says so in a sentence."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_files import random_episode

import decision_rnn
from decision_rnn import EpisodeStore, InputError, Run, open_dataset, write_store
from decision_rnn.deploy.runtime import Policy

SMALL = ("--backbone.width", "8", "--training.steps", "2", "--training.context", "5")
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def robot(inline_cli: Command, folders: Path) -> EpisodeStore:
    """The dataset local/robot, of three episodes with actions from -3 to 3."""
    generator = np.random.default_rng(0)
    episodes = [random_episode(generator, (length, False, True)) for length in (20, 30, 15)]
    return write_store("local/robot", [replace(episode, actions=3 * episode.actions) for episode in episodes])


def test_agent_is_trained_acts_and_is_exported(robot: EpisodeStore, inline_cli: Command, tmp_path: Path) -> None:
    assert robot.environment_id is open_dataset("local/robot").spec.environment_id is None
    assert "none: 4 observations, 2 actions" in inline_cli("data", "info", "local/robot").stdout
    done = inline_cli("train", "local/robot", "--output", "run", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "local/robot names no environment" in done.stdout
    assert "not evaluated" in done.stdout
    assert "" not in done.stdout.splitlines()  # where no target return is a number
    run = Run("run")
    assert (run.config.evaluation.episodes, run.agent.provenance.environment_id) == (0, None)
    box = run.agent.provenance.action_space
    np.testing.assert_array_equal([box.low, box.high], [robot.actions.min(0), robot.actions.max(0)])
    action = run.actor(30)(robot.observations[0], 0.0)
    assert ((action >= box.low) & (action <= box.high)).all()
    assert decision_rnn.train(output="run", resume=True).agent.step == 2

    done = inline_cli("package", "run", "--output", "shared")
    assert done.returncode == 0, done.stderr
    assert "decision-rnn evaluate" not in done.stderr  # which cannot give it scores
    policy = Policy.load("shared/policy.onnx")
    policy.reset(30.0)
    np.testing.assert_allclose(policy(robot.observations[0], 0.0), action, atol=1e-5)
    assert "None" not in (tmp_path / "shared" / "README.md").read_text()
    assert decision_rnn.load_agent("shared").provenance.environment_id is None

    with pytest.raises(InputError, match="environment"):
        run.evaluate()
    for words, name in (
        (["evaluate", "run"], "environment"),
        (["play", "run", "--video", "run.mp4"], "environment"),
        (["compare", "local/robot", "--seeds", "1", "--output", "compared"], "environment"),
        (["train", "local/robot", "--output", "masked", "--observation.mask", "velocity", *SMALL], "velocities"),
    ):
        done = inline_cli(*words)
        assert done.returncode == 2, words
        (line,) = done.stderr.splitlines()
        assert name in line
        assert "--evaluation.episodes" not in line  # which would help none of these

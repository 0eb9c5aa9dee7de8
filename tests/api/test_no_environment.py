"""Data of no environment, such as a robot's logs: everything works but playing, which says so in a sentence."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import decision_rnn
from decision_rnn import Episode, EpisodeStore, InputError, Run, open_dataset, write_store
from decision_rnn.deploy.runtime import Policy

SMALL = {"name": "mingru", "width": 8, "layers": 1}
SHORT = ("--backbone.width", "8", "--training.steps", "2", "--training.context", "5")
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def robot(inline_cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EpisodeStore:
    """The dataset local/robot, of three episodes with actions from -3 to 3."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DECISION_RNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return write_store("local/robot", logs())


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


def test_agent_is_trained_without_evaluation_and_acts(robot: EpisodeStore, capfd: pytest.CaptureFixture[str]) -> None:
    assert robot.environment_id is None
    assert open_dataset("local/robot").spec.environment_id is None
    run = decision_rnn.train("local/robot", SMALL, steps=2, output="run", training={"context": 5})
    captured = capfd.readouterr()
    assert "local/robot names no environment" in captured.out
    assert (run.config.evaluation.episodes, run.agent.provenance.environment_id) == (0, None)
    again = Run("run")
    box = again.agent.provenance.action_space
    np.testing.assert_array_equal([box.low, box.high], [robot.actions.min(0), robot.actions.max(0)])
    actor = again.actor(30)
    first = actor(robot.observations[0], 0.0)
    assert first.shape == (2,)
    assert ((first >= box.low) & (first <= box.high)).all()
    resumed = decision_rnn.train("local/robot", SMALL, steps=2, output="run", resume=True, training={"context": 5})
    assert resumed.agent.step == 2
    for play in (again.evaluate, lambda: decision_rnn.evaluate("run", 30, episodes=1)):
        with pytest.raises(InputError, match="environment"):
            play()


def test_commands_work_but_those_that_play(
    robot: EpisodeStore, inline_cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = inline_cli("train", "local/robot", "--output", "run", *SHORT)
    assert done.returncode == 0, done.stderr
    assert "local/robot names no environment" in done.stdout
    assert "trained in run, and not evaluated" in done.stdout
    done = inline_cli("data", "info", "local/robot")
    assert done.returncode == 0, done.stderr
    assert "none: 4 observations, 2 actions" in done.stdout
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for words in (
        ("evaluate", "run"),
        ("play", "run"),
        ("play", "run", "--video", "run.mp4"),
        ("compare", "local/robot", "--seeds", "1", "--output", "compared"),
        ("train", "local/robot", "--output", "masked", "--observation.mask", "velocity", *SHORT),
    ):
        done = inline_cli(*words)
        assert done.returncode == 2, words
        assert "environment" in done.stderr or "velocities" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert "--evaluation.episodes" not in done.stderr  # which would help none of these


def test_agent_is_exported_and_packaged(robot: EpisodeStore, inline_cli: Command, tmp_path: Path) -> None:
    run = decision_rnn.train("local/robot", SMALL, steps=2, output="run", progress=False, training={"context": 5})
    done = inline_cli("export", "run", "--output", "robot.onnx")
    assert done.returncode == 0, done.stderr
    policy = Policy.load("robot.onnx")
    policy.reset(30.0)
    action = policy(robot.observations[0], 0.0)
    np.testing.assert_allclose(action, run.actor(30.0)(robot.observations[0], 0.0), atol=1e-5)
    done = inline_cli("package", "run", "--output", "shared")
    assert done.returncode == 0, done.stderr
    assert "decision-rnn evaluate" not in done.stderr  # which cannot give it scores
    card = (tmp_path / "shared" / "README.md").read_text()
    assert "None" not in card
    assert "action = actor(observation, reward)" in card
    assert decision_rnn.load_agent("shared").provenance.environment_id is None


def test_dataset_is_appended_to_merged_and_exported(robot: EpisodeStore, inline_cli: Command) -> None:
    write_store("local/other", logs())
    assert decision_rnn.merge_datasets("local/both", ["local/robot", "local/other"]).store.num_episodes == 6
    assert write_store("local/other", logs(), append=True).num_episodes == 6
    with pytest.raises(InputError, match=r"local/robot.*Reacher-v5"):
        write_store("local/robot", logs(), "Reacher-v5", append=True)
    assert (
        inline_cli("data", "export", "local/robot", "--format", "minari", "--output", "robot/logs-v0").returncode == 0
    )
    back = open_dataset("minari/robot/logs-v0").store
    assert (back.fingerprint, back.environment_id) == (robot.fingerprint, None)
    assert inline_cli("data", "export", "local/robot", "--format", "d4rl", "--output", "robot.hdf5").returncode == 0


def test_no_empty_line_is_printed_where_no_target_return_is_a_number(
    robot: EpisodeStore, capfd: pytest.CaptureFixture[str]
) -> None:
    store = write_store("local/once", logs()[:1])
    decision_rnn.train(store, SMALL, steps=2, output="once", training={"context": 5})
    assert "" not in capfd.readouterr().out.splitlines()

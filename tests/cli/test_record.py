"""`decision-rnn record`, as a user runs it: the same dataset as `decision_rnn.record`."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import decision_rnn
from decision_rnn import EpisodeStore, open_dataset

CAR = "MountainCarContinuous-v0"
POLICY = """
import os, signal
import gymnasium
import numpy as np

def push(observation):
    return np.where(observation[..., 1:] > 0, 1.0, -1.0)

def interrupted(observation, calls=[]):
    calls.append(1)
    if len(calls) == 130:
        os.kill(os.getpid(), signal.SIGINT)
    return push(observation)

gymnasium.register("car/ByPlugin-v0", lambda: gymnasium.make("MountainCarContinuous-v0").unwrapped)
number = 3
"""
Command = Callable[..., "subprocess.CompletedProcess[str]"]


def push(observation: np.ndarray) -> np.ndarray:
    return np.where(observation[..., 1:] > 0, 1.0, -1.0)


@pytest.fixture
def record(inline_cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`decision-rnn record`, in a folder with the module pushing.py."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "pushing.py").write_text(POLICY)
    return lambda *words: inline_cli("record", *words)


def stored(name: str) -> EpisodeStore:
    return open_dataset(name).store


def test_command_records_what_record_does(record: Command) -> None:
    words = [CAR, "--policy", "pushing.push", "--output", "local/shell"]
    done = record(*words, "--episodes", "2", "--seed", "3")
    assert done.returncode == 0, done.stderr
    store = decision_rnn.record(push, CAR, "local/python", episodes=2, seed=3, progress=False).store
    assert stored("local/shell").fingerprint == store.fingerprint
    assert done.stdout.startswith(f"local/shell: 2 episodes, {store.steps:,} steps, returns ")
    again = record(*words, "--steps", "30", "--seed", "3", "--append", "--max_episode_steps", "20")
    assert again.returncode == 0, again.stderr
    assert stored("local/shell").episode_lengths.tolist() == [*store.episode_lengths.tolist(), 20, 20]
    assert record(*words, "--episodes", "1").returncode == 2  # it exists


def test_command_records_an_agent(record: Command) -> None:
    decision_rnn.record(push, CAR, "local/swing", episodes=2, progress=False)
    small = {"name": "mingru", "width": 8, "layers": 1}
    decision_rnn.train("local/swing", small, steps=1, output="run", progress=False)
    words = [CAR, "--agent", "run", "--output", "local/agent", "--episodes", "2", "--target_return", "90"]
    done = record(*words, "--max_episode_steps", "30")
    assert done.returncode == 0, done.stderr
    assert stored("local/agent").episode_lengths.tolist() == [30, 30]


def test_command_records_random_actions(record: Command) -> None:
    done = record(CAR, "--policy", "random", "--output", "local/random", "--steps", "9", "--max_episode_steps", "5")
    assert done.returncode == 0, done.stderr
    assert stored("local/random").episode_lengths.tolist() == [5, 5]


def test_command_interrupted_keeps_what_was_finished_and_exits_130(record: Command) -> None:
    words = ["car/ByPlugin-v0", "--plugins", "pushing", "--policy", "pushing.interrupted", "--output", "local/part"]
    done = record(*words, "--episodes", "9")
    assert done.returncode == 130
    assert "1 finished episode written to" in done.stderr
    assert "after 10,000 steps (max_episode_steps)" in done.stderr
    assert stored("local/part").num_episodes == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([CAR], "--policy --agent"),
        ([CAR, "--policy", "pushing.push", "--agent", "run"], "--policy"),
        ([CAR, "--policy", "push"], "push"),
        ([CAR, "--policy", "pushing.pull"], "pushing.pull"),
        ([CAR, "--policy", "pushing.number"], "pushing.number"),
        ([CAR, "--policy", "shoving.push"], "'shoving'"),
        ([CAR, "--agent", "runs/absent"], "runs/absent"),
        (["MountainCarContinous-v0", "--policy", "pushing.push"], "MountainCarContinuous-v0"),
    ],
)
def test_command_with_bad_input_exits_2_with_one_line(record: Command, words: list[str], message: str) -> None:
    done = record(*words, "--output", "local/none", "--episodes", "1")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "local/none" not in decision_rnn.data.dataset.dataset_names()

"""`decision-rnn record`, as a user runs it: the same dataset as `decision_rnn.record`."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from swing import CAR, push

import decision_rnn
from decision_rnn import Run, open_dataset

POLICY = """
import os, signal
import gymnasium
from swing import push

def interrupted(observation, calls=[]):
    calls.append(1)
    if len(calls) == 130:
        os.kill(os.getpid(), signal.SIGINT)
    return push(observation)

gymnasium.register("car/ByPlugin-v0", lambda: gymnasium.make("MountainCarContinuous-v0").unwrapped)
"""
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def record(inline_cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`decision-rnn record`, in a folder with the module pushing.py."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "pushing.py").write_text(POLICY)
    return lambda *words: inline_cli("record", *words)


def test_command_records_what_record_does(record: Command) -> None:
    words = [CAR, "--policy", "pushing.push", "--output", "local/shell", "--seed", "3"]
    done = record(*words, "--episodes", "2")
    assert done.returncode == 0, done.stderr
    store = decision_rnn.record(push, CAR, "local/python", episodes=2, seed=3, progress=False).store
    assert open_dataset("local/shell").store.fingerprint == store.fingerprint
    assert done.stdout.startswith(f"local/shell: 2 episodes, {store.steps:,} steps, returns ")
    assert record(*words, "--steps", "30", "--overwrite", "--max_episode_steps", "20").returncode == 0
    assert open_dataset("local/shell").store.episode_lengths.tolist() == [20, 20]
    assert record(*words, "--episodes", "1").returncode == 2  # it exists


def test_command_records_an_agent_or_random_actions(run: Run, record: Command) -> None:
    size = ["--steps", "9", "--max_episode_steps", "5"]
    agent = ["--agent", str(run.folder), "--target_return", "90"]
    for name, policy in (("agent", agent), ("random", ["--policy", "random"])):
        done = record(CAR, *policy, "--output", f"local/{name}", *size)
        assert done.returncode == 0, done.stderr
        assert open_dataset(f"local/{name}").store.episode_lengths.tolist() == [5, 5]


def test_interrupted_command_keeps_finished_episodes_and_exits_130(record: Command) -> None:
    words = ["car/ByPlugin-v0", "--plugins", "pushing", "--policy", "pushing.interrupted", "--output", "local/part"]
    done = record(*words, "--episodes", "9")
    assert done.returncode == 130
    assert "1 finished episode" in done.stderr
    assert open_dataset("local/part").store.num_episodes == 1


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([CAR, "--policy", "pushing.push", "--agent", "run"], "--policy"),
        ([CAR, "--policy", "pushing.pull"], "pushing.pull"),
        ([CAR, "--policy", "shoving.push"], "'shoving'"),
        ([CAR, "--agent", "runs/absent"], "runs/absent"),
        (["MountainCarContinous-v0", "--policy", "pushing.push"], "MountainCarContinuous-v0"),
    ],
)
def test_invalid_arguments_are_named_in_one_line(record: Command, words: list[str], name: str) -> None:
    done = record(*words, "--output", "local/none", "--episodes", "1")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert name in done.stderr
    assert "local/none" not in decision_rnn.data.dataset.dataset_names()

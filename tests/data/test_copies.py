"""Actions among the observations, and logs faster than their decisions, planted in a log and reported by name."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from decision_rnn import Episode, write_store
from decision_rnn.data.info import warn_of_copies
from decision_rnn.data.store import EpisodeStore

NAMES = {"observations": ["speed", "pid_0", "last_0", "range"], "actions": ["motor_0", "motor_1"]}


@pytest.fixture
def log(folders: Path) -> Callable[..., EpisodeStore]:
    """Writes a log in which the controller's output may be among the observations, and whose actions are repeated so
    many times."""

    def store(leaks: bool = False, repeats: int = 1, length: int = 60) -> EpisodeStore:
        generator, episodes = np.random.default_rng(0), []
        for _ in range(6):
            chosen = generator.uniform(-1, 1, (length // repeats, 2))
            chosen[: len(chosen) // 2, 1] = 0.25  # an idle motor
            actions, observations = np.repeat(chosen, repeats, axis=0), generator.normal(size=(length + 1, 4))
            if leaks:
                observations[:-1, 1] = np.round(actions[:, 0], 5)
            observations[1:, 2] = actions[:, 0]  # the action of the step before, which the agent has too
            episodes.append(Episode(observations, actions, np.zeros(length), False, True))
        return write_store("local/log", episodes, columns=NAMES)

    return store


@pytest.mark.parametrize("options", [{}, {"leaks": True, "length": 1}], ids=["clean", "single steps"])
def test_clean_log_is_silent(log: Callable[..., EpisodeStore], options: dict[str, Any]) -> None:
    assert list(warn_of_copies(log(**options))) == []


def test_action_among_the_observations_is_a_leak(log: Callable[..., EpisodeStore]) -> None:
    (sentence,) = warn_of_copies(log(leaks=True))
    assert ("1 (pid_0)" in sentence, "0 (motor_0)" in sentence, "last_0" in sentence) == (True, True, False)


@pytest.mark.parametrize(("repeats", "reported"), [(10, False), (100, True)])
def test_log_faster_than_its_decisions(log: Callable[..., EpisodeStore], repeats: int, reported: bool) -> None:
    store = log(repeats=repeats, length=1000)
    sentences = list(warn_of_copies(store))
    assert len(sentences) == reported
    pairs = [(episode.actions[:-1], episode.actions[1:]) for episode in store]
    before, after = (np.concatenate(each).astype(float) for each in zip(*pairs, strict=True))
    explained = 1 - np.mean([np.mean((a - b) ** 2) / np.var(a) for a, b in zip(after.T, before.T, strict=True)])
    assert all("--every" in sentence and f"{explained:.1%}" in sentence for sentence in sentences)


def test_commands_report_copies(
    log: Callable[..., EpisodeStore], inline_cli: Callable[..., "CompletedProcess[str]"], tmp_path: Path
) -> None:
    store = log(leaks=True)
    rows = np.concatenate([store.observations, store.actions], axis=1)
    header = ",".join(NAMES["observations"] + NAMES["actions"])
    np.savetxt(tmp_path / "log.csv", rows, fmt="%.9g", delimiter=",", header=header, comments="")
    words = ("--name", "local/csv", "--observations", "speed,p*", "--actions", "motor_*")
    done = inline_cli("data", "import", "log.csv", *words)
    assert "pid_0" in done.stdout
    assert "1 (pid_0)" in done.stderr
    assert "1 (pid_0)" in inline_cli("data", "info", "local/csv").stdout

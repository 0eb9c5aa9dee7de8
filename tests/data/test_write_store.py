"""`write_store`: what it accepts as an episode, and one writer per name."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from d4rl_files import hopper_episodes
from minari.dataset.episode_data import EpisodeData

import decision_rnn
from decision_rnn import Episode, EpisodeStore, InputError, write_store
from decision_rnn.data.dataset import open_dataset

KINDS = [(7, True, False), (9, False, True), (4, False, False)]

WRITING = """
import sys, time
from pathlib import Path
from d4rl_files import hopper_episodes
from decision_rnn import InputError, write_store

def episodes():
    for index, episode in enumerate(hopper_episodes([(7, True, False)] * 3, seed={seed})):
        if index == 1:
            Path("{begun}").touch()
            while not Path("{go}").exists():
                time.sleep(0.01)
        yield episode

try:
    print(write_store("local/mine", episodes(), "Hopper-v5").fingerprint)
except InputError as error:
    sys.exit(str(error))
"""


def writing(folder: Path, seed: int, go: str) -> "subprocess.Popen[str]":
    script = WRITING.format(seed=seed, begun=folder / f"begun-{seed}", go=folder / go)
    path = os.pathsep.join([str(Path(decision_rnn.__file__).parents[1]), str(Path(__file__).parent), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_write_store_into_unwritable_folder_raises_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"local/mine into .*file/local: Not a directory; .*DECISION_RNN_DATA"):
        write_store("local/mine", hopper_episodes(KINDS), "Hopper-v5")


def test_second_process_that_writes_the_same_own_dataset_is_refused(local: Path, tmp_path: Path) -> None:
    """At once, not after an hour of writing, and its data must not be taken for those of the first one."""
    first = writing(tmp_path, 1, go="go")
    deadline = time.monotonic() + 120
    while not (tmp_path / "begun-1").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    second = writing(tmp_path, 2, go="never")
    try:
        _, error = second.communicate(timeout=120)
    finally:
        second.kill()
        (tmp_path / "go").touch()
    assert second.returncode == 1
    assert "another process is writing local/mine" in error
    printed, error = first.communicate(timeout=120)
    assert first.returncode == 0, error
    assert open_dataset("local/mine").store.fingerprint + "\n" == printed
    assert [path.name for path in local.iterdir()] == ["mine"]
    third = writing(tmp_path, 3, go="go")
    assert "local/mine exists" in third.communicate(timeout=120)[1]


@pytest.mark.usefixtures("local")
def test_write_store_accepts_minari_episode_data(tmp_path: Path) -> None:
    episodes = hopper_episodes(KINDS)
    theirs = []
    for index, episode in enumerate(episodes):
        last = np.arange(len(episode.rewards)) == len(episode.rewards) - 1
        ends = (last & episode.terminated, last & episode.truncated)
        theirs.append(EpisodeData(index, episode.observations, episode.actions, episode.rewards, *ends, {}))
    store = write_store("local/mine", iter(theirs), "Hopper-v5")
    directly = EpisodeStore.write(tmp_path / "directly", episodes, environment_id="Hopper-v5", source={})
    assert store.fingerprint == directly.fingerprint
    early = replace(theirs[0], terminations=np.ones(7, bool))
    with pytest.raises(InputError, match=r"local/two: episode 1 has terminated before its last step"):
        write_store("local/two", [theirs[1], early], "Hopper-v5")


EPISODE = hopper_episodes([(7, True, False)])[0]
AS_TUPLE = (EPISODE.observations, EPISODE.actions, EPISODE.rewards, True, False)


@pytest.mark.parametrize(
    ("episodes", "told"),
    [
        ([vars(EPISODE)], r"episode 0, of type dict, has no observations: make a decision_rnn\.Episode"),
        ((AS_TUPLE for _ in range(1)), "episode 0, of type tuple, has no observations"),
        (EPISODE, "Episode is no sequence of episodes"),
        (None, "NoneType is no sequence of episodes"),
        ("local/mine", "str is no sequence of episodes"),
        ([SimpleNamespace(observations=1, actions=1, rewards=1)], "episode 0 has terminated .*must be true or false"),
        ([replace(EPISODE, terminated=np.zeros(6, bool))], r"terminated array\(\[False.*must be true or false"),
        ([replace(EPISODE, truncated=None)], "truncated array.*must be true or false"),
        ([replace(EPISODE, truncated="no")], "truncated array.*must be true or false"),
    ],
)
def test_write_store_with_invalid_episodes_raises_one_line_error(episodes: Any, told: str, local: Path) -> None:
    with pytest.raises(InputError, match=f"local/mine: .*{told}") as raised:
        write_store("local/mine", episodes, "Hopper-v5")
    assert len(str(raised.value).splitlines()) == 1
    assert not local.exists() or not list(local.iterdir())


def test_write_store_passes_on_exceptions_of_the_users_generator(local: Path) -> None:
    def episodes() -> Iterator[Episode]:
        yield EPISODE
        raise TimeoutError("the robot does not answer")

    with pytest.raises(TimeoutError, match="robot"):
        write_store("local/mine", episodes(), "Hopper-v5")

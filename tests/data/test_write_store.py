"""`write_store`: what it accepts as an episode, and one writer per name."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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


def test_unwritable_folder_raises_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "file"))
    with pytest.raises(InputError, match="DECISION_RNN_DATA"):
        write_store("local/mine", hopper_episodes(KINDS), "Hopper-v5")


def test_second_process_that_writes_the_same_name_is_refused(local: Path, tmp_path: Path) -> None:
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
    assert "another process" in error
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


def test_exceptions_of_the_users_generator_are_passed_on(local: Path) -> None:
    def episodes() -> Iterator[Episode]:
        yield hopper_episodes(KINDS)[0]
        raise TimeoutError("the robot does not answer")

    with pytest.raises(TimeoutError, match="robot"):
        write_store("local/mine", episodes(), "Hopper-v5")


@pytest.mark.usefixtures("local")
def test_episodes_with_missing_numbers_are_dropped_or_ended(episodes: list[Episode]) -> None:
    whole, broken = episodes[1], episodes[2]
    broken.rewards[5] = np.nan
    with pytest.raises(InputError, match=r"episode 1 has rewards .* 5"):
        write_store("local/error", [whole, broken])
    dropped = write_store("local/dropped", [whole, broken], missing="drop_episode")
    assert dropped.fingerprint == write_store("local/whole", [whole]).fingerprint
    ended = write_store("local/ended", [whole, broken], missing="end_episode")
    cut = Episode(broken.observations[:6], broken.actions[:5], broken.rewards[:5], False, False)
    assert ended.fingerprint == write_store("local/cut", [whole, cut]).fingerprint
    (note,) = ended.source["notes"]
    assert note == "1 of 2 episodes had missing numbers: cut before the first (missing end_episode)"


@pytest.mark.usefixtures("local")
def test_missing_final_observation_keeps_the_steps_and_end(episodes: list[Episode]) -> None:
    episodes[1].observations[-1, 2] = np.inf
    (read,) = write_store("local/last", episodes[1:2], missing="end_episode")
    assert read.terminated
    np.testing.assert_array_equal(read.rewards, episodes[1].rewards)
    np.testing.assert_array_equal(read.observations[-1], read.observations[-2])


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("missing", ["error", "end_episode"])
def test_as_many_observations_as_actions_raise(episodes: list[Episode], missing: str) -> None:
    log = replace(episodes[1], observations=episodes[1].observations[:-1])
    with pytest.raises(InputError, match=r"episode 0 .*observations"):
        write_store("local/log", [log], missing=missing)

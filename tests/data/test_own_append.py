"""Own datasets that are appended to, merged and removed; a process killed on the way loses nothing."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from d4rl_files import hopper_episodes
from gymnasium.spaces import Box, Discrete
from random_episodes import rewards_of

from decision_rnn import Dataset, Episode, InputError, merge_datasets, open_dataset, remove_dataset, write_store
from decision_rnn.cli.main import main
from decision_rnn.data.catalog import names
from decision_rnn.data.sources import own as own_source

FIRST = hopper_episodes([(7, True, False), (9, False, True)], seed=1)
SECOND = hopper_episodes([(4, False, False)], seed=2)


def whole(name: str) -> str:
    return write_store(name, [*FIRST, *SECOND], "Hopper-v5").fingerprint


@pytest.mark.usefixtures("own")
def test_appended_dataset_is_that_of_all_episodes_written_at_once() -> None:
    write_store("own/mine", FIRST, "Hopper-v5", append=True)  # there is none yet
    store = write_store("own/mine", SECOND, "Hopper-v5", append=True)
    assert store.fingerprint == open_dataset("own/mine").open().fingerprint == whole("own/whole")
    rewards = np.concatenate([episode.rewards for episode in (*FIRST, *SECOND)])
    np.testing.assert_array_equal(rewards_of(store), rewards)
    assert names()[-2:] == ["own/mine", "own/whole"]


@pytest.mark.usefixtures("own")
def test_append_of_other_episodes_raises_and_changes_nothing() -> None:
    before = write_store("own/mine", FIRST, "Hopper-v5").fingerprint
    narrow = [replace(SECOND[0], observations=SECOND[0].observations[:, :5])]
    for episodes, environment_id, settings, message in (
        (SECOND, "Hopper-v4", None, "own/mine has episodes of Hopper-v5 .* and these are of Hopper-v4"),
        (SECOND, "Hopper-v5", {"kwargs": {"frame_skip": 2}}, "these are of Hopper-v5 {'kwargs': {'frame_skip': 2}}"),
        (narrow, "Hopper-v5", None, r"episode 2 has observations and actions of \(5, 3\) numbers where \(11, 3\)"),
    ):
        with pytest.raises(InputError, match=message):
            write_store("own/mine", episodes, environment_id, environment_settings=settings, append=True)
        assert open_dataset("own/mine").open().fingerprint == before


@pytest.mark.usefixtures("own")
def test_space_that_is_first_given_with_an_append_is_kept_and_must_be_that_of_the_episodes_before() -> None:
    numbers = Episode(np.zeros((4, 3)), np.full((3, 2), 0.3), np.zeros(3), False, True)
    write_store("own/plain", [numbers])
    with pytest.raises(InputError, match=r"own/plain was written without this space of actions: .* not one-hot"):
        chosen = replace(numbers, actions=np.array([0, 1, 1]))
        write_store("own/plain", [chosen], append=True, action_space=Discrete(2))
    box = Box(-4, 4, (2,))
    write_store("own/plain", [numbers], append=True, action_space=box)
    assert open_dataset("own/plain").spec.action_space == box


@pytest.mark.usefixtures("own")
def test_appended_and_merged_datasets_keep_to_the_spaces_of_the_first() -> None:
    observations, chosen, pushes = Box(-1, 1, (2,)), Discrete(2), Box(-1, 1, (2,))
    seen, choices = np.zeros((4, 2)), Episode(np.zeros((4, 2)), np.array([0, 1, 1]), np.ones(3), True, False)
    numbers = Episode(seen, np.full((3, 2), 0.3), np.ones(3), True, False)
    spaces = {"observation_space": observations, "action_space": chosen}
    before = write_store("own/chosen", [choices], **spaces)
    with pytest.raises(InputError, match=r"own/chosen has actions in Discrete\(2\) and these are actions in Box"):
        write_store("own/chosen", [numbers], append=True, **(spaces | {"action_space": pushes}))
    with pytest.raises(InputError, match=r"it must be a whole number from 0 to 1"):
        write_store("own/chosen", [replace(numbers, actions=np.full(3, 0.3))], append=True)
    assert open_dataset("own/chosen").open().fingerprint == before.fingerprint
    np.testing.assert_array_equal(
        write_store("own/chosen", [choices], append=True).actions, np.tile(np.eye(2)[[0, 1, 1]], (2, 1))
    )
    write_store("own/pushed", [numbers], observation_space=observations, action_space=pushes)
    with pytest.raises(InputError, match=r"own/pushed has actions in Box.*, and own/chosen actions in Discrete\(2\)"):
        merge_datasets("own/both", ["own/chosen", "own/pushed"])


KILLED = """
import os, sys
from pathlib import Path
from d4rl_files import hopper_episodes
from decision_rnn import write_store
from decision_rnn.data.sources import own

calls = 0
def dying(function):
    def call(*arguments):
        global calls
        calls += 1
        if calls == int(sys.argv[1]):
            os.kill(os.getpid(), 9)
        return function(*arguments)
    return call

own.remove_directory = dying(own.remove_directory)
own.Path.rename = dying(own.Path.rename)
own.EpisodeStore.read_episodes = dying(own.EpisodeStore.read_episodes)
write_store("own/mine", hopper_episodes([(4, False, False)], seed=2), "Hopper-v5", append=True)
"""


@pytest.mark.parametrize(("call", "appended"), [(1, False), (2, True), (3, True), (4, True)])
def test_process_killed_while_it_appends_loses_no_episode(call: int, appended: bool, own: Path) -> None:
    """Before the episodes are written; then before and after the dataset is moved away, and before the new one is."""
    before = write_store("own/mine", FIRST, "Hopper-v5").fingerprint
    code = [sys.executable, "-c", KILLED, str(call)]
    done = subprocess.run(code, env=environment(), capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert "own/mine" in names()
    assert open_dataset("own/mine").open().fingerprint == (whole("own/whole") if appended else before)
    write_store("own/mine", SECOND, "Hopper-v5", append=True)
    assert open_dataset("own/mine").open().episodes == (4 if appended else 3)
    assert not list(own.glob("*.appended"))


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(own_source.__file__).parents[3]), str(Path(__file__).parent), *sys.path])
    return {**os.environ, "PYTHONPATH": path}


@pytest.mark.usefixtures("own")
def test_merged_dataset_is_that_of_all_episodes_written_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    write_store("own/first", FIRST, "Hopper-v5")
    second = write_store("own/second", SECOND, "Hopper-v5")
    merged = merge_datasets("own/both", ["own/first", open_dataset("own/second")])
    assert isinstance(merged, Dataset)
    assert merged.open().fingerprint == whole("own/whole")
    assert merged.open().manifest["source"]["merged"]["own/second"] == second.fingerprint
    assert main(["data", "merge", "own/other", "own/first", "own/second"]) == 0
    assert open_dataset("own/other").open().fingerprint == merged.open().fingerprint
    assert "3 episodes, 20 steps in" in capsys.readouterr().out


@pytest.mark.usefixtures("own")
def test_merge_of_datasets_that_do_not_fit_raises_and_writes_nothing() -> None:
    write_store("own/first", FIRST, "Hopper-v5")
    write_store("own/second", SECOND, "Hopper-v5", environment_settings={"max_episode_steps": 4})
    write_store("own/old", SECOND, "Hopper-v4")
    for name, parts, message in (
        (
            "own/new",
            ["own/first", "own/second"],
            "own/second is of Hopper-v5 {'max_episode_steps': 4}.* and own/first of Hopper-v5 {",
        ),
        ("own/new", ["own/first", "own/old"], "own/old is of Hopper-v4 .* and own/first of Hopper-v5"),
        ("own/new", ["own/first"], "at least two"),
        ("own/new", ["own/first", "own/first"], "each once"),
        ("own/first", ["own/old", "own/second"], "own/second is of"),
        ("new", ["own/first", "own/first"], "each once"),
    ):
        with pytest.raises(InputError, match=message):
            merge_datasets(name, parts)
    assert names()[-3:] == ["own/first", "own/old", "own/second"]


def test_removed_dataset_is_gone_even_if_it_is_damaged(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store("own/mine", FIRST, "Hopper-v5")
    write_store("own/damaged", FIRST, "Hopper-v5")
    (own / "damaged" / "manifest.json").unlink()
    remove_dataset("own/damaged")
    assert main(["data", "remove", "own/mine"]) == 0
    assert list(own.iterdir()) == []
    for name in ("own/mine", "hopper-medium", "own/../own"):
        assert main(["data", "remove", name]) == 2
    error = capsys.readouterr().err
    assert "there is no dataset own/mine" in error
    assert "'hopper-medium' is not an own dataset" in error
    assert whole("own/mine")  # the name is free again

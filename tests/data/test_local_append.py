"""Local datasets that are appended to, merged and removed; a process killed on the way loses nothing."""

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
from decision_rnn.data.dataset import dataset_names
from decision_rnn.data.sources import local as local_source

FIRST = hopper_episodes([(7, True, False), (9, False, True)], seed=1)
SECOND = hopper_episodes([(4, False, False)], seed=2)


def whole(name: str) -> str:
    return write_store(name, [*FIRST, *SECOND], "Hopper-v5").fingerprint


@pytest.mark.usefixtures("local")
def test_append_gives_the_dataset_of_all_episodes() -> None:
    write_store("local/mine", FIRST, "Hopper-v5", append=True)  # there is none yet
    store = write_store("local/mine", SECOND, "Hopper-v5", append=True)
    assert store.fingerprint == open_dataset("local/mine").store.fingerprint == whole("local/whole")
    rewards = np.concatenate([episode.rewards for episode in (*FIRST, *SECOND)])
    np.testing.assert_array_equal(rewards_of(store), rewards)
    assert dataset_names()[-2:] == ["local/mine", "local/whole"]


@pytest.mark.usefixtures("local")
def test_append_of_other_episodes_raises_and_changes_nothing() -> None:
    before = write_store("local/mine", FIRST, "Hopper-v5").fingerprint
    narrow = [replace(SECOND[0], observations=SECOND[0].observations[:, :5])]
    for episodes, environment_id, settings, message in (
        (SECOND, "Hopper-v4", None, "Hopper-v4"),
        (SECOND, "Hopper-v5", {"kwargs": {"frame_skip": 2}}, "frame_skip"),
        (narrow, "Hopper-v5", None, r"episode 2 .*\(5, 5\).*\(T\+1, 11\)"),
    ):
        with pytest.raises(InputError, match=message):
            write_store("local/mine", episodes, environment_id, environment_settings=settings, append=True)
        assert open_dataset("local/mine").store.fingerprint == before


@pytest.mark.usefixtures("local")
def test_space_given_with_an_append_holds_for_earlier_episodes() -> None:
    numbers = Episode(np.zeros((4, 3)), np.full((3, 2), 0.3), np.zeros(3), False, True)
    write_store("local/plain", [numbers])
    with pytest.raises(InputError, match="one-hot"):
        chosen = replace(numbers, actions=np.array([0, 1, 1]))
        write_store("local/plain", [chosen], append=True, action_space=Discrete(2))
    box = Box(-4, 4, (2,))
    write_store("local/plain", [numbers], append=True, action_space=box)
    assert open_dataset("local/plain").spec.action_space == box


@pytest.mark.usefixtures("local")
def test_append_and_merge_keep_to_the_spaces_of_the_first() -> None:
    observations, chosen, pushes = Box(-1, 1, (2,)), Discrete(2), Box(-1, 1, (2,))
    seen, choices = np.zeros((4, 2)), Episode(np.zeros((4, 2)), np.array([0, 1, 1]), np.ones(3), True, False)
    numbers = Episode(seen, np.full((3, 2), 0.3), np.ones(3), True, False)
    spaces = {"observation_space": observations, "action_space": chosen}
    before = write_store("local/chosen", [choices], **spaces)
    with pytest.raises(InputError, match=r"local/chosen .*Discrete\(2\)"):
        write_store("local/chosen", [numbers], append=True, **(spaces | {"action_space": pushes}))
    with pytest.raises(InputError, match="from 0 to 1"):
        write_store("local/chosen", [replace(numbers, actions=np.full(3, 0.3))], append=True)
    assert open_dataset("local/chosen").store.fingerprint == before.fingerprint
    np.testing.assert_array_equal(
        write_store("local/chosen", [choices], append=True).actions, np.tile(np.eye(2)[[0, 1, 1]], (2, 1))
    )
    write_store("local/pushed", [numbers], observation_space=observations, action_space=pushes)
    with pytest.raises(InputError, match=r"local/pushed .*Discrete\(2\)"):
        merge_datasets("local/both", ["local/chosen", "local/pushed"])


KILLED = """
import os, sys
from pathlib import Path
from d4rl_files import hopper_episodes
from decision_rnn import write_store
from decision_rnn.data.sources import local as own

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
own.EpisodeStore.__iter__ = dying(own.EpisodeStore.__iter__)
write_store("local/mine", hopper_episodes([(4, False, False)], seed=2), "Hopper-v5", append=True)
"""


@pytest.mark.parametrize(("call", "appended"), [(1, False), (2, True), (3, True), (4, True)])
def test_process_killed_while_it_appends_loses_no_episode(call: int, appended: bool, local: Path) -> None:
    """Before the episodes are written; then before and after the dataset is moved away, and before the new one is."""
    before = write_store("local/mine", FIRST, "Hopper-v5").fingerprint
    code = [sys.executable, "-c", KILLED, str(call)]
    done = subprocess.run(code, env=environment(), capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert "local/mine" in dataset_names()
    assert open_dataset("local/mine").store.fingerprint == (whole("local/whole") if appended else before)
    write_store("local/mine", SECOND, "Hopper-v5", append=True)
    assert open_dataset("local/mine").store.num_episodes == (4 if appended else 3)
    assert not list(local.glob("*.appended"))


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(local_source.__file__).parents[3]), str(Path(__file__).parent), *sys.path])
    return {**os.environ, "PYTHONPATH": path}


@pytest.mark.usefixtures("local")
def test_merged_dataset_is_that_of_all_episodes_written_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    write_store("local/first", FIRST, "Hopper-v5")
    second = write_store("local/second", SECOND, "Hopper-v5")
    merged = merge_datasets("local/both", ["local/first", open_dataset("local/second")])
    assert isinstance(merged, Dataset)
    assert merged.store.fingerprint == whole("local/whole")
    assert merged.store.source["merged"]["local/second"] == second.fingerprint
    assert main(["data", "merge", "local/other", "local/first", "local/second"]) == 0
    assert open_dataset("local/other").store.fingerprint == merged.store.fingerprint
    assert "3 episodes, 20 steps" in capsys.readouterr().out


@pytest.mark.usefixtures("local")
def test_merge_of_datasets_that_do_not_fit_raises_and_writes_nothing() -> None:
    write_store("local/first", FIRST, "Hopper-v5")
    write_store("local/second", SECOND, "Hopper-v5", environment_settings={"max_episode_steps": 4})
    write_store("local/old", SECOND, "Hopper-v4")
    for name, parts, message in (
        (
            "local/new",
            ["local/first", "local/second"],
            "local/second.*max_episode_steps",
        ),
        ("local/new", ["local/first", "local/old"], "local/old.*Hopper-v4"),
        ("local/first", ["local/old"], "local/first exists"),
        ("new", ["local/first"], "local/"),
    ):
        with pytest.raises(InputError, match=message):
            merge_datasets(name, parts)
    assert dataset_names()[-3:] == ["local/first", "local/old", "local/second"]


def test_removed_dataset_is_gone_even_if_it_is_damaged(local: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store("local/mine", FIRST, "Hopper-v5")
    write_store("local/damaged", FIRST, "Hopper-v5")
    (local / "damaged" / "manifest.json").unlink()
    remove_dataset("local/damaged")
    assert main(["data", "remove", "local/mine"]) == 0
    assert list(local.iterdir()) == []
    for name in ("local/mine", "hopper-medium", "local/../local"):
        assert main(["data", "remove", name]) == 2
    error = capsys.readouterr().err
    assert "local/mine" in error
    assert "hopper-medium" in error
    assert whole("local/mine")  # the name is free again

"""Datasets by name, as episodes in memory, and what their scores mean."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from d4rl_files import hopper_episodes

import decision_rnn
from decision_rnn import EpisodeStore, InputError, write_store
from decision_rnn.data import store as store_module
from decision_rnn.data.dataset import as_dataset, check_name, open_dataset
from decision_rnn.data.store import open_or_make, store_folder
from decision_rnn.environments.ogbench import environment_id

KINDS = [(7, True, False), (9, False, True), (4, False, False)]


def processes(folder: Path, script: str, count: int) -> list[str]:
    """What processes print that run a script at the same time, in a cache and a data folder below `folder`."""
    path = os.pathsep.join([str(Path(decision_rnn.__file__).parents[1]), str(Path(__file__).parent), *sys.path])
    folders = {"DECISION_RNN_CACHE": str(folder / "cache"), "DECISION_RNN_DATA": str(folder / "data")}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, **folders},
        )
        for _ in range(count)
    ]
    outputs = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * count, outputs
    return [output for output, _ in outputs]


def test_two_processes_with_the_same_episodes_share_them(tmp_path: Path) -> None:
    script = """
from d4rl_files import hopper_episodes
from decision_rnn.data.dataset import as_dataset
for _ in range(5):
    dataset = as_dataset(hopper_episodes([(7, True, False), (9, False, True)]), "Hopper-v5")
print(dataset.name, len(dataset.store))
"""
    first, second = processes(tmp_path, script, 2)
    assert first == second
    assert first.startswith("episodes/")
    assert not (tmp_path / "data").exists()
    folder = next((tmp_path / "cache").glob("stores-*")) / "episodes"
    assert [f"episodes/{path.name}" for path in folder.iterdir()] == [first.split()[0]]


def test_two_processes_make_a_store_once(tmp_path: Path) -> None:
    script = """
import time
from d4rl_files import hopper_episodes
from decision_rnn.data.store import EpisodeStore, open_or_make
def make(folder):
    print("made")
    time.sleep(1)
    return EpisodeStore.write(folder, hopper_episodes([(7, True, False)]), environment_id=None, source={"version": 1})
open_or_make("toy/one", lambda source: source["version"] == 1, make)
"""
    assert sorted(processes(tmp_path, script, 2)) == ["", "made\n"]


@pytest.mark.usefixtures("local")
def test_name_of_episodes_depends_on_their_contents() -> None:
    episodes = hopper_episodes(KINDS)
    name = as_dataset(episodes, "Hopper-v5").name
    assert as_dataset(iter(episodes), "Hopper-v5").name == name == open_dataset(name).name
    ended = [*episodes[:2], replace(episodes[2], truncated=True)]
    others = [as_dataset(ended, "Hopper-v5"), as_dataset(episodes, "Hopper-v4"), as_dataset(episodes[:2], "Hopper-v5")]
    assert len({name, *(other.name for other in others)}) == 4


@pytest.mark.usefixtures("local")
def test_selection_of_a_store_keeps_its_environment_and_spaces() -> None:
    store = write_store("local/mine", hopper_episodes(KINDS), "Hopper-v5")
    assert as_dataset(store).name == "local/mine"
    part = as_dataset(store.select(np.array([True, False, True])))
    assert part.name.startswith("episodes/")
    assert (part.spec.environment_id, part.spec.action_space) == ("Hopper-v5", store.action_space)
    assert len(part.store) == 2


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize(
    ("data", "arguments", "word"),
    [
        (7, {}, "int"),
        ({"a": 1}, {}, "dict"),
        ([], {}, "environment_id"),
        ([], {"environment_id": "Hopper-v5"}, "no episodes"),
        (hopper_episodes(KINDS), {"environment_id": "Hopper-v5", "path": "x.hdf5"}, "path"),
        ("local/mine", {"environment_id": "Hopper-v5"}, "environment_id"),
        ("nowhere/x", {}, "nowhere/x"),
        ("episodes/0123456789abcdef", {}, "episodes/0123456789abcdef"),
    ],
)
def test_data_that_are_no_dataset_raise(data: object, arguments: dict[str, str], word: str) -> None:
    with pytest.raises(InputError, match=word):
        as_dataset(data, **arguments)


def test_unknown_standin_is_refused_with_the_nearest_name() -> None:
    assert check_name("hopper-medium") == "standin/hopper-medium"
    with pytest.raises(InputError, match="standin/hopper-medium"):
        check_name("hopper-medum")


@pytest.mark.usefixtures("local")
def test_scores_of_complete_episodes_are_between_their_returns() -> None:
    """The lowest return is that of a partial episode, which is dropped: 0 is no random policy's return."""
    lowest = replace(hopper_episodes(KINDS)[2], rewards=np.full(4, -100.0))
    episodes = [*hopper_episodes(KINDS)[:2], lowest]
    write_store("local/plain", episodes)
    for partial, count in (("keep", 3), ("drop", 2)):
        dataset = open_dataset("local/plain", partial=partial)
        returns = dataset.store.episode_returns
        assert len(returns) == count
        assert (dataset.spec.reference_min, dataset.spec.reference_max) == (returns.min(), returns.max())
        assert dataset.spec.score_meaning == "0 is the data's lowest return, 100 its highest"


def test_score_meaning_of_single_tasks_is_not_a_random_policy(tmp_path: Path) -> None:
    """The references of cube-single are -200 and 0, and episodes of the data are longer than those of evaluation."""
    source = decision_rnn.data.sources.SOURCES["ogbench"]
    episodes = [replace(e, rewards=np.full(len(e.rewards), -1.0)) for e in hopper_episodes([(300, False, True)])]
    name = "ogbench/cube-single-play-singletask-v0"
    store = EpisodeStore.write(
        tmp_path / "store", episodes, environment_id=environment_id("cube-single-singletask"), source={}
    )
    spec = source.spec(name, store)
    assert spec.reference_min > spec.return_min
    assert "random" not in spec.score_meaning
    assert "goal" in spec.score_meaning


def test_opening_builds_no_environment(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_store("local/mine", hopper_episodes(KINDS), "Hopper-v5")
    monkeypatch.setattr("gymnasium.make", lambda *_, **__: pytest.fail("an environment is built"))
    dataset = open_dataset("local/mine")
    assert dataset.spec.action_space == dataset.store.action_space
    assert dataset.spec.action_space.shape == (3,)


def test_unwritable_cache_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DECISION_RNN_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="DECISION_RNN_CACHE"):
        open_or_make("toy/one", lambda source: True, lambda folder: pytest.fail("it is made"))
    monkeypatch.setattr(store_module, "FORMAT", 99)
    assert store_folder("toy/one").parts[-3:] == ("stores-99", "toy", "one")

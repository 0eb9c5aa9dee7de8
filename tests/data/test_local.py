"""Local datasets and episodes in memory: written, merged and removed; a killed process loses nothing."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import h5py
import numpy as np
import pytest
from data_files import KINDS, assert_equal, forked, hopper_episodes, written
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from gymnasium.spaces.utils import flatten
from minari.dataset.episode_data import EpisodeData

from decision_rnn import Episode, InputError, import_log, merge_datasets, open_dataset, remove_dataset, write_store
from decision_rnn.cli.main import main
from decision_rnn.data.dataset import as_dataset, dataset_names, is_ready
from decision_rnn.data.info import format_info
from decision_rnn.data.sources import local as local_source
from decision_rnn.data.store import store_folder

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
FIRST, SECOND = hopper_episodes(KINDS[:2], seed=1), hopper_episodes(KINDS[2:], seed=2)
ENDED: dict[str, Any] = {"rewards": np.zeros(3), "terminated": True, "truncated": False}
NUMBERS = Episode(np.zeros((4, 3)), np.full((3, 2), 0.3), **ENDED)


def whole(name: str) -> str:
    return write_store(name, [*FIRST, *SECOND], "Hopper-v5").fingerprint


def test_written_dataset_is_listed_and_opened(local: Path, tmp_path: Path) -> None:
    store = write_store("local/mine", iter(FIRST), environment_id="Hopper-v5")
    assert store.fingerprint == written(tmp_path / "directly", FIRST).fingerprint
    dataset = open_dataset("local/mine")
    assert_equal(dataset.store, FIRST)
    assert (dataset.store.path, dataset.spec.reference_max) == (local / "mine", 3234.3)
    assert "local/mine" in dataset_names()
    assert is_ready("local/mine")
    assert as_dataset(store).name == "local/mine"
    part = as_dataset(store.select([0])).spec
    assert (part.environment_id, part.action_space) == ("Hopper-v5", store.action_space)


class Reaching(gymnasium.Env[Any, Any]):
    """Its keys are not in alphabetical order, and the gear is one of two."""

    observation_space = Dict(place=Box(-9, 9, (2,)), goal=Box(-9, 9, (2,)), gear=Discrete(2))
    action_space = Box(-1, 1, (2,))


@pytest.mark.usefixtures("local")
def test_dictionaries_are_read_by_the_names_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(gymnasium.registry, "Reaching-v0", EnvSpec("Reaching-v0", Reaching))
    parts = {"gear": np.array([0, 1, 1, 0]), "goal": np.full((4, 2), 5.0), "place": np.arange(8.0).reshape(4, 2)}
    episode = {"observations": parts, "actions": np.full((3, 2), 0.3), "rewards": np.zeros(3), "terminated": True}
    values = [{key: part[step] for key, part in parts.items()} for step in range(4)]
    expected = [flatten(Reaching.observation_space, value).tolist() for value in values]
    with h5py.File(tmp_path / "log.hdf5", "w") as file:
        for key, array in episode.items():
            for name, part in array.items() if isinstance(array, dict) else [("", array)]:
                file[f"episode_0/{key}/{name}".rstrip("/")] = part
    for store in (
        write_store("local/written", [episode], "Reaching-v0"),
        as_dataset([episode], "Reaching-v0").store,
        import_log(tmp_path / "log.hdf5", "local/log", environment_id="Reaching-v0", progress=False).store,
    ):
        assert store.observation_space == Reaching.observation_space
        assert store[0].observations.tolist() == expected


@pytest.mark.usefixtures("local")
def test_write_store_accepts_lists_and_minari_episodes() -> None:
    episodes = hopper_episodes()
    lists = [Episode(e.observations.tolist(), e.actions.tolist(), e.rewards.tolist(), *KINDS[0][1:]) for e in episodes]
    assert_equal(write_store("local/lists", lists), [replace(e, terminated=True, truncated=False) for e in episodes])
    theirs = []
    for index, episode in enumerate(episodes):
        last = np.arange(len(episode.rewards)) == len(episode.rewards) - 1
        ends = (last & episode.terminated, last & episode.truncated)
        theirs.append(EpisodeData(index, episode.observations, episode.actions, episode.rewards, *ends, {}))
    assert_equal(write_store("local/mine", iter(theirs), "Hopper-v5"), episodes)


@pytest.mark.parametrize("environment", ["os:Hopper-v5", "Walker2d-v5"])
def test_unusable_environment_raises(environment: str, local: Path) -> None:
    with pytest.raises(InputError, match=environment):
        write_store("local/mine", FIRST, environment)
    assert not list(local.glob("*"))


@pytest.mark.parametrize(
    ("kind", "space"),
    [
        ("observation", gymnasium.spaces.Sequence(Discrete(2))),
        ("action", Dict(turn=Discrete(2), push=Box(-1, 1, (1,)))),
        ("action", Tuple([Discrete(2)])),
        ("action", MultiBinary(3)),
        ("action", Box(0, 3, (2,), int)),
    ],
)
def test_spaces_that_agents_do_not_use_are_refused_first(kind: str, space: gymnasium.Space[Any], local: Path) -> None:
    unread = (pytest.fail("it is read") for _ in range(1))
    with pytest.raises(InputError, match=f"{kind}s of local/bad"):
        write_store("local/bad", unread, **{f"{kind}_space": space})
    assert not list(local.glob("*"))


@pytest.mark.usefixtures("local")
def test_episodes_with_missing_numbers_are_dropped_or_ended(episodes: list[Episode]) -> None:
    good, broken = episodes[1], episodes[2]
    broken.rewards[5] = np.nan
    with pytest.raises(InputError, match=r"episode 1 has rewards .* 5"):
        write_store("local/error", [good, broken])
    with pytest.raises(InputError, match="missing"):
        write_store("local/error", [good, broken], missing="drop")  # type: ignore[arg-type]
    for item in ("observations", SimpleNamespace(observations=good.observations)):  # keys of a dictionary; no actions
        with pytest.raises(InputError, match=r"episode 1 .*Episode"):
            write_store("local/error", [good, item])  # type: ignore[list-item]
    assert_equal(write_store("local/dropped", [good, broken], missing="drop_episode"), [good])
    ended = write_store("local/ended", [good, broken], missing="end_episode")
    assert_equal(ended, [good, Episode(broken.observations[:6], broken.actions[:5], broken.rewards[:5], False, False)])
    assert ended.source["notes"] == [
        "1 of 2 episodes had missing numbers: cut before the first of these, which leaves out 35 steps"
    ]
    good.observations[-1, 2] = np.inf  # the final one: all steps and the end stay
    (read,) = write_store("local/last", [good], missing="end_episode")
    assert read.terminated
    np.testing.assert_array_equal(read.rewards, good.rewards)
    np.testing.assert_array_equal(read.observations[-1], read.observations[-2])


def test_exceptions_of_the_users_generator_are_passed_on(local: Path) -> None:
    def episodes() -> Iterator[Episode]:
        yield FIRST[0]
        raise TimeoutError("the robot does not answer")

    with pytest.raises(TimeoutError, match="robot"):
        write_store("local/mine", episodes(), "Hopper-v5")
    assert list(local.iterdir()) == []


@pytest.mark.usefixtures("local")
def test_merge_of_other_episodes_writes_nothing() -> None:
    altered = {"kwargs": {"frame_skip": 2}}
    narrow = [replace(SECOND[0], observations=SECOND[0].observations[:, :5])]
    write_store("local/mine", FIRST, "Hopper-v5")
    write_store("local/second", SECOND, "Hopper-v5", environment_settings=altered)
    write_store("local/old", SECOND, "Hopper-v4")
    write_store("local/unknown", FIRST)
    write_store("local/narrow", narrow)
    write_store("local/chosen", [replace(NUMBERS, actions=np.array([0, 1, 1]))], action_space=Discrete(2))
    write_store("local/pushed", [NUMBERS], action_space=Box(-1, 1, (2,)))
    before = dataset_names()
    for name, parts, message in (
        ("local/new", ["local/mine", "local/second"], "local/second.*frame_skip"),
        ("local/new", ["local/mine", "local/old"], "local/old.*Hopper-v4"),
        ("local/new", ["local/unknown", "local/narrow"], r"episode 2 .*\(5, 5\).*\(T\+1, 11\)"),
        ("local/new", ["local/chosen", "local/pushed"], r"local/pushed .*Discrete\(2\)"),
        ("local/mine", ["local/old"], "local/mine exists"),
        ("new", ["local/mine"], "local/"),
        ("local/new", [], "no parts of local/new"),
    ):
        with pytest.raises(InputError, match=message):
            merge_datasets(name, parts)
    assert dataset_names() == before


@pytest.mark.usefixtures("local")
def test_merged_actions_are_within_the_bounds_of_all_parts(capsys: pytest.CaptureFixture[str]) -> None:
    parts = []
    for high in (1, 60):
        episode, space = replace(NUMBERS, actions=np.full((3, 2), high)), Box(-1, high, (2,))
        parts.append(write_store(f"local/{high}", [episode], action_space=space))
    assert merge_datasets("local/all", [*parts]).store.action_space == Box(-1, 60, (2,))
    assert "bounds" in capsys.readouterr().err
    assert merge_datasets("local/same", [parts[0], parts[0]]).store.action_space == Box(-1, 1, (2,))
    assert "bounds" not in capsys.readouterr().err


def overwrite_and_die(number: int) -> None:
    """Write all episodes in place of FIRST, but be killed at the call of this number of what moves folders."""
    calls = itertools.count(1)

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)

        return call

    local_source.remove_directory = dying(local_source.remove_directory)
    Path.rename = dying(Path.rename)
    write_store("local/mine", [*FIRST, *SECOND], "Hopper-v5", overwrite=True)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_process_killed_while_it_overwrites_loses_no_episode(call: int, local: Path) -> None:
    """Before and after the dataset is moved away, and before the new one is."""
    write_store("local/mine", FIRST, "Hopper-v5")
    process = forked(overwrite_and_die, call)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert "local/mine" in dataset_names()
    assert open_dataset("local/mine").store.fingerprint == whole("local/whole")
    assert [path.name for path in local.iterdir() if not path.name.endswith(".decision_rnn")] == ["mine", "whole"]


@pytest.mark.usefixtures("local")
def test_merged_dataset_is_that_of_all_episodes_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    write_store("local/first", FIRST, "Hopper-v5")
    second = write_store("local/second", SECOND, "Hopper-v5")
    merged = merge_datasets("local/both", ["local/first", open_dataset("local/second")])
    assert merged.store.fingerprint == whole("local/whole")
    assert merged.store.source["merged"]["local/second"] == second.fingerprint
    assert main(["data", "merge", "local/other", "local/first", "local/second"]) == 0
    assert open_dataset("local/other").store.fingerprint == merged.store.fingerprint
    assert "3 episodes, 20 steps" in capsys.readouterr().out


def test_removed_dataset_is_gone_even_if_it_is_damaged(local: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store("local/mine", FIRST, "Hopper-v5")
    (write_store("local/damaged", FIRST, "Hopper-v5").path / "manifest.json").unlink()
    remove_dataset("local/damaged")
    assert main(["data", "remove", "local/mine"]) == 0
    assert list(local.iterdir()) == []
    for name in ("local/mine", "hopper-medium", "local/../local"):
        assert main(["data", "remove", name]) == 2
        assert name in capsys.readouterr().err
    assert whole("local/mine")  # the name is free again


@pytest.mark.usefixtures("local")
def test_name_that_is_being_written_is_refused_at_once() -> None:
    """Not after an hour of writing; and its data must not be taken for those of the first one."""

    def episodes() -> Iterator[Episode]:
        yield FIRST[0]
        with pytest.raises(BlockingIOError, match=r"another process .*mine"):
            write_store("local/mine", SECOND, "Hopper-v5")
        yield FIRST[1]

    write_store("local/mine", episodes(), "Hopper-v5")
    assert_equal(open_dataset("local/mine").store, FIRST)
    with pytest.raises(InputError, match="local/mine exists"):
        write_store("local/mine", FIRST, "Hopper-v5")


def share() -> None:
    for _ in range(5):
        as_dataset(hopper_episodes(), "Hopper-v5")


def test_two_processes_share_the_same_episodes(folders: Path) -> None:
    processes = [forked(share) for _ in range(2)]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    name = as_dataset(hopper_episodes(), "Hopper-v5").name
    assert [f"episodes/{path.name}" for path in store_folder("episodes").iterdir()] == [name]
    assert not (folders / "data").exists()


@pytest.mark.usefixtures("local")
def test_name_of_episodes_depends_on_their_contents() -> None:
    episodes = hopper_episodes()
    name = as_dataset(episodes, "Hopper-v5").name
    assert as_dataset(iter(episodes), "Hopper-v5").name == name == open_dataset(name).name
    ended = [*episodes[:2], replace(episodes[2], truncated=True)]
    others = [as_dataset(ended, "Hopper-v5"), as_dataset(episodes, "Hopper-v4"), as_dataset(episodes[:2], "Hopper-v5")]
    assert len({name, *(other.name for other in others)}) == 4


@pytest.mark.usefixtures("local")
def test_data_that_are_no_dataset_raise() -> None:
    write_store("local/mine", FIRST, "Hopper-v5")
    for data, arguments, word in (
        (FIRST[0].__dict__, {}, "import_log"),
        (FIRST, {"environment_id": "Hopper-v5", "path": "x.hdf5"}, "path"),
        ("local/mine", {"environment_id": "Hopper-v5"}, "environment_id"),
        ("nowhere/x", {}, "nowhere/x"),
        ("local/mime", {}, "local/mine"),
        ("hopper-medum", {}, "standin/hopper-medium"),
        ("episodes/0123456789abcdef", {}, "episodes/0123456789abcdef"),
    ):
        with pytest.raises(InputError, match=word):
            as_dataset(data, **arguments)


@pytest.mark.usefixtures("local")
def test_scores_of_complete_episodes_are_between_their_returns() -> None:
    """The lowest return is that of a partial episode, which is dropped: 0 is no random policy's return."""
    episodes = hopper_episodes()
    episodes[2].rewards[:] = -100
    write_store("local/plain", episodes)
    for partial, count in (("keep", 3), ("drop", 2)):
        dataset = open_dataset("local/plain", partial=partial)
        returns = dataset.store.episode_returns
        assert len(returns) == count
        assert (dataset.spec.reference_min, dataset.spec.reference_max) == (returns.min(), returns.max())
        assert dataset.spec.score_meaning == "0 is the data's lowest return, 100 its highest"


@pytest.mark.usefixtures("local")
def test_opening_builds_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    write_store("local/mine", FIRST, "Hopper-v5")
    write_store("local/plant", FIRST, "factory/Plant-v0")  # which is not installed
    assert "factory/Plant-v0" in format_info(open_dataset("local/plant"))
    monkeypatch.setattr("gymnasium.make", lambda *_, **__: pytest.fail("an environment is built"))
    dataset = open_dataset("local/mine")
    assert dataset.spec.action_space == dataset.store.action_space
    assert dataset.spec.action_space.shape == (3,)

"""Minari's datasets: reading, writing, environments, reference scores, concatenation, and the converted store."""

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pytest
from faults import assert_nothing_made, pickled_objects
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Text
from minari.data_collector import EpisodeBuffer
from minari.serialization import serialize_space
from minari_files import edit, play, publish, specification
from random_episodes import rewards_of

from decision_rnn.data.dataset import dataset_names, open_dataset
from decision_rnn.data.episode import Episode
from decision_rnn.data.sources.minari import dataset_folder, write_minari
from decision_rnn.data.spec import spec_of_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.registry import check_environment
from decision_rnn.utils.errors import InputError

MEDIUM, EXPERT = "mujoco/hopper/medium-v0", "mujoco/hopper/expert-v0"

pytestmark = [
    pytest.mark.usefixtures("folders"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # about metadata that Minari misses
]


def store_of(episodes: list[Episode], folder: Path) -> EpisodeStore:
    return EpisodeStore.write(folder, episodes, environment_id="Hopper-v5", source={})


def test_local_dataset_has_its_environment_and_references(folders: Path) -> None:
    episodes = play("Hopper-v5")
    publish("theirs/random-v3", episodes)
    store = open_dataset("minari/theirs/random-v3").store
    assert store.environment_id == "Hopper-v5"
    assert store.fingerprint == store_of(episodes, folders / "directly").fingerprint
    spec = open_dataset("minari/theirs/random-v3").spec
    assert (spec.environment_id, spec.reference_max, spec.target_returns) == ("Hopper-v5", 3234.3, (3600.0, 1800.0))
    assert "D4RL's for the same task" in spec.comparable
    assert "minari/theirs/random-v3" in dataset_names()
    publish("theirs/scored-v0", episodes, ref_min_score=5.0, ref_max_score=50.0)
    spec = open_dataset("minari/theirs/scored-v0").spec
    assert (spec.reference_min, spec.reference_max) == (5.0, 50.0)
    assert "the dataset's own" in spec.comparable
    with pytest.raises(InputError, match="--path"):
        open_dataset("minari/theirs/random-v3", path=folders / "f.hdf5")


def test_unknown_task_is_scored_between_its_returns() -> None:
    episodes = play("Pendulum-v1", 5)
    publish("pendulum/random-v0", episodes, "Pendulum-v1")
    dataset = open_dataset("minari/pendulum/random-v0")
    spec = dataset.spec
    returns = sorted(float(e.rewards.astype(np.float32).sum(dtype=np.float64)) for e in episodes)
    assert (spec.reference_min, spec.reference_max) == pytest.approx((returns[0], returns[-1]))
    assert spec.target_returns == pytest.approx((returns[-1], returns[2]))
    assert 1 <= abs(returns[0]) / spec.return_scale < 10
    assert spec.score_meaning == "0 is the data's lowest return, 100 its highest"


def test_store_round_trips_through_minari_bit_for_bit(folders: Path) -> None:
    generator = np.random.default_rng(0)
    kinds = [(1, True, False), (7, False, False), (9, True, True), (4, False, True), (2, False, False)]
    episodes = [
        Episode(generator.normal(size=(n + 1, 11)), generator.normal(size=(n, 3)), generator.normal(3, 1, n), *ends)
        for n, *ends in kinds
    ]
    store = store_of(episodes, folders / "store")
    write_minari("local/copy-v0", store, spec_of_store("local/copy", store))
    again = open_dataset("minari/local/copy-v0").store
    assert again.fingerprint == store.fingerprint
    np.testing.assert_array_equal(rewards_of(again), rewards_of(store))


def test_minari_medium_expert_concatenates_medium_and_expert(folders: Path) -> None:
    medium, expert = play("Hopper-v5", seed=1), play("Hopper-v5", seed=2)
    publish(MEDIUM, medium)
    publish(EXPERT, expert)
    store = open_dataset("minari/mujoco/hopper/medium-expert-v0").store
    assert store.fingerprint == store_of([*medium, *expert], folders / "both").fingerprint
    assert store.source["minari"] == [MEDIUM, EXPERT]


def test_minari_data_of_other_environments_than_the_name_says_raise() -> None:
    publish(MEDIUM, play("Hopper-v5"))
    publish(EXPERT, play("Hopper-v4"), "Hopper-v4")
    with pytest.raises(InputError, match="not what its name says"):
        open_dataset("minari/mujoco/hopper/medium-expert-v0")
    minari.delete_dataset(MEDIUM)
    publish(MEDIUM, play("HalfCheetah-v5"), "HalfCheetah-v5")
    with pytest.raises(InputError, match="HalfCheetah-v5"):
        open_dataset(f"minari/{MEDIUM}")


def test_actions_that_agents_are_not_trained_on_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = publish("theirs/switches-v0", play("Hopper-v5"))
    edit(folder, env_spec=None, action_space=serialize_space(MultiBinary(3)))
    monkeypatch.setattr("decision_rnn.data.sources.minari.read_minari", lambda dataset_id: pytest.fail("it is read"))
    with pytest.raises(InputError, match=r"switches-v0.*MultiBinary"):
        open_dataset("minari/theirs/switches-v0")


def test_changed_minari_dataset_is_converted_again(capfd: pytest.CaptureFixture[str]) -> None:
    publish(MEDIUM, play("Hopper-v5", seed=1))
    first = open_dataset(f"minari/{MEDIUM}").store
    made = (first.path / "manifest.json").stat().st_mtime_ns
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint == first.fingerprint
    assert (first.path / "manifest.json").stat().st_mtime_ns == made
    minari.delete_dataset(MEDIUM)
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint == first.fingerprint  # the store outlives it
    publish(MEDIUM, play("Hopper-v5", seed=2))
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint != first.fingerprint
    assert "making it again" in capfd.readouterr().err


def test_entry_point_in_minari_metadata_is_never_run(folders: Path) -> None:
    """gymnasium.make would call os.mkdir here."""
    mark = folders / "mark"
    hostile = specification(entry_point="os:mkdir", kwargs={"path": str(mark)})
    folder = publish("theirs/random-v0", play("Hopper-v5"))
    edit(folder, env_spec=hostile, observation_space=None, action_space=None)
    spec = open_dataset("minari/theirs/random-v0").spec
    with pytest.raises(InputError, match="with kwargs"):
        check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    edit(folder, env_spec=specification(id="no_such_module:X-v0", entry_point="os:getcwd"))
    with pytest.raises(InputError, match="theirs/random-v0"):
        open_dataset("minari/theirs/random-v0")
    assert not mark.exists()


@pytest.mark.parametrize(
    "specified",
    [
        "garbage",
        "{}",
        "[]",
        7,
        *('{"id": 5}', '{"id": ["x"]}', '{"id": "os:Hopper-v5"}', '{"id": "a\\nb-v0"}'),
        "[" * 9999,
    ],
)
def test_minari_dataset_without_usable_environment_raises(specified: Any) -> None:
    edit(publish("theirs/random-v0", play("Hopper-v5", 1)), env_spec=specified)
    with pytest.raises(InputError, match="theirs/random-v0"):
        open_dataset("minari/theirs/random-v0")


@pytest.mark.parametrize("specified", [None, ""])
def test_dataset_without_environment_is_read(specified: Any) -> None:
    edit(publish("theirs/random-v0", play("Hopper-v5", 1)), env_spec=specified)
    assert open_dataset("minari/theirs/random-v0").store.environment_id is None
    edit(publish(MEDIUM, play("Hopper-v5", 1)), env_spec=specified)
    with pytest.raises(InputError, match="it is not what its name says"):
        open_dataset(f"minari/{MEDIUM}")


@pytest.mark.parametrize("changes", [{"kwargs": {"frame_skip": 2}}, {"max_episode_steps": 50}])
def test_altered_environment_is_not_the_registered_one(changes: dict[str, Any]) -> None:
    edit(publish(MEDIUM, play("Hopper-v5", 1)), env_spec=specification(**changes))
    with pytest.raises(InputError, match=f"Hopper-v5.*{next(iter(changes))}"):
        open_dataset(f"minari/{MEDIUM}")


def test_render_mode_alters_no_environment() -> None:
    edit(publish("theirs/random-v0", play("Hopper-v5", 1)), env_spec=specification(kwargs={"render_mode": "rgb_array"}))
    assert open_dataset("minari/theirs/random-v0").store.environment_id == "Hopper-v5"


def test_observations_of_another_size_raise() -> None:
    episodes = [replace(e, observations=e.observations[:, :5]) for e in play("Hopper-v5")]
    publish("theirs/random-v0", episodes)
    with pytest.raises(InputError, match=r"minari/theirs/random-v0 .*episode 0 "):
        open_dataset("minari/theirs/random-v0")


@pytest.mark.parametrize("error", [ImportError("no hub"), ConnectionError(), KeyError("x")])
def test_failed_download_raises_and_is_tried_again(
    folders: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(dataset_id: str, force_download: bool) -> None:
        part = dataset_folder(dataset_id) / "data"
        part.mkdir(parents=True)
        (part / "metadata.json").write_text("{")
        raise error

    monkeypatch.setattr(minari, "download_dataset", fail)
    with pytest.raises(InputError, match="mujoco/hopper/medium-v0"):
        open_dataset(f"minari/{MEDIUM}")
    episodes = play("Hopper-v5")
    resumed = []

    def fetch(dataset_id: str, force_download: bool) -> None:
        resumed.append(force_download)
        shutil.rmtree(folders / "minari" / dataset_id)
        publish(dataset_id, episodes)

    monkeypatch.setattr(minari, "download_dataset", fetch)
    assert open_dataset(f"minari/{MEDIUM}").store.num_episodes == 3
    assert resumed == [True]


def test_missing_minari_dataset_is_downloaded_once(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = play("Hopper-v5")
    calls = []

    def fetch(dataset_id: str, force_download: bool) -> None:
        calls.append(dataset_id)
        print("Downloading")
        publish(dataset_id, episodes)

    monkeypatch.setattr(minari, "download_dataset", fetch)
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint == store_of(episodes, folders / "directly").fingerprint
    open_dataset(f"minari/{MEDIUM}")
    assert calls == [MEDIUM]
    assert list(minari.list_local_datasets()) == [MEDIUM]


def test_minari_loads_an_exported_dataset(folders: Path) -> None:
    store = store_of(play("Hopper-v5"), folders / "store")
    spec = replace(spec_of_store("local/toy", store), reference_min=-20.0, reference_max=80.0)
    write_minari("local/toy-v0", store, spec)
    dataset = minari.load_dataset("local/toy-v0")
    assert (dataset.total_episodes, dataset.total_steps) == (3, store.steps)
    for ours, theirs in zip(store, dataset, strict=True):
        np.testing.assert_array_equal(theirs.observations, ours.observations)
        np.testing.assert_array_equal(theirs.actions, ours.actions)
        np.testing.assert_array_equal(theirs.rewards, ours.rewards)
        last = np.arange(len(ours.rewards)) == len(ours.rewards) - 1
        np.testing.assert_array_equal(theirs.terminations, last & ours.terminated)
        np.testing.assert_array_equal(theirs.truncations, last & ours.truncated)
    assert dataset.recover_environment().spec.id == "Hopper-v5"
    assert minari.get_normalized_score(dataset, np.array([30.0])) == pytest.approx(0.5)
    assert list(minari.list_local_datasets()) == ["local/toy-v0"]


@pytest.mark.parametrize(
    "metadata",
    [{"total_episodes": 4}, {"data_format": "pickle"}, {"total_episodes": "x"}],
)
def test_metadata_that_do_not_fit_the_data_raise(metadata: dict[str, Any]) -> None:
    edit(publish("theirs/bad-v0", play("Hopper-v5")), **metadata)
    with pytest.raises(InputError, match="theirs/bad-v0"):
        open_dataset("minari/theirs/bad-v0")


@pytest.mark.parametrize("fault", ["truncated", "no rewards", "pickle"])
def test_damaged_minari_data_raise(fault: str) -> None:
    file = publish("theirs/bad-v0", play("Hopper-v5")) / "main_data.hdf5"
    if fault == "truncated":
        file.write_bytes(file.read_bytes()[:-500])
    with h5py.File(file, "a") if fault != "truncated" else contextlib.nullcontext({}) as data:
        if data:
            del data["episode_1/rewards"]
        if fault == "pickle":
            data["episode_1/rewards"] = pickled_objects(file.with_name("mark"))
    with pytest.raises(InputError, match="theirs/bad-v0"):
        open_dataset("minari/theirs/bad-v0")
    assert_nothing_made(file.parent)


def test_dict_observations_are_flattened_as_gymnasium_does() -> None:
    """In the form of Minari's point mazes and Minigrid sets: goals in a Dict, small images, text, numbered actions."""
    point = gymnasium.spaces.Box(-1, 1, (2,))
    image, heading, mission = Box(0, 255, (3, 3, 3), np.uint8), Discrete(4), Text(20)
    space = Dict(
        {"observation": point, "desired_goal": point, "image": image, "direction": heading, "mission": mission}
    )
    buffer = EpisodeBuffer(
        observations={key: [entry.sample() for _ in range(3)] for key, entry in space.spaces.items()},
        actions=[np.int64(2), np.int64(0)],
        rewards=[0.0, 1.0],
        terminations=[False, True],
        truncations=[False, False],
    )
    given = {"observation_space": space, "action_space": Discrete(3)}
    minari.create_dataset_from_buffers("theirs/dict-v0", [buffer], **given)
    (episode,) = open_dataset("minari/theirs/dict-v0").store
    numbers = Dict({key: entry for key, entry in space.spaces.items() if key != "mission"})
    values = [{key: buffer.observations[key][i] for key in numbers.spaces} for i in range(3)]
    expected = np.array([gymnasium.spaces.flatten(numbers, value) for value in values])
    np.testing.assert_array_equal(episode.observations, expected.astype(np.float32))
    np.testing.assert_array_equal(episode.actions, [[0, 0, 1], [1, 0, 0]])

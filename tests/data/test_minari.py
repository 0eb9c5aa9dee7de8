"""Minari's datasets: reading, writing, environments that are altered or missing, and the converted store."""

import json
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pytest
from data_files import (
    assert_equal,
    assert_nothing_made,
    edit,
    pickled_objects,
    publish,
    random_episode,
    rewards_of,
    specification,
    written,
)
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Text
from minari.data_collector import EpisodeBuffer
from minari.serialization import serialize_space

from decision_rnn import Episode, write_store
from decision_rnn.cli.main import main
from decision_rnn.data.dataset import dataset_names, open_dataset
from decision_rnn.data.info import format_info
from decision_rnn.data.sources.minari import dataset_folder, write_minari
from decision_rnn.data.spec import D4RL_REFERENCES, spec_of_store
from decision_rnn.environments.registry import check_environment
from decision_rnn.environments.tasks import TASKS
from decision_rnn.utils.errors import InputError

MEDIUM = "mujoco/hopper/medium-v0"
REACH = {"id": "FetchReachFlat-v4", "kwargs": {"reward_type": "dense"}, "max_episode_steps": 50}
ROBOTICS = ["gymnasium-robotics >= 1.3.1"]

pytestmark = [
    pytest.mark.usefixtures("folders"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # about metadata that Minari misses
]


def noise(seed: int = 0, sizes: tuple[int, int] = (11, 3)) -> list[Episode]:
    generator = np.random.default_rng(seed)
    kinds = [(1, True, False), (7, False, False), (9, True, True), (4, False, True), (2, False, False)]
    return [random_episode(generator, kind, sizes) for kind in kinds]


def read(dataset_id: str) -> list[Episode]:
    return list(open_dataset(f"minari/{dataset_id}").store)


def test_local_dataset_has_its_environment_and_references() -> None:
    publish("theirs/random-v3", noise())
    dataset = open_dataset("minari/theirs/random-v3")
    assert_equal(dataset.store, noise())
    spec = dataset.spec
    assert (spec.environment_id, spec.reference_max, spec.target_returns) == ("Hopper-v5", 3234.3, (3600.0, 1800.0))
    assert "D4RL's for the same task" in spec.comparable
    assert "minari/theirs/random-v3" in dataset_names()
    edit(publish("theirs/scored-v0", noise(), ref_min_score=5.0, ref_max_score=50.0), env_spec=None)
    spec = open_dataset("minari/theirs/scored-v0").spec
    assert (spec.environment_id, spec.reference_min, spec.reference_max) == (None, 5.0, 50.0)
    assert "the dataset's own" in spec.comparable


@pytest.mark.parametrize("task", ["hopper", "walker2d", "halfcheetah", "ant"])
def test_published_mujoco_datasets_have_references_of_d4rl(task: str) -> None:
    """Farama-Foundation/Minari#323: they state none themselves. If they come to, those are theirs."""
    name, known = f"mujoco/{task}/medium-v0", TASKS[task]
    sizes = (105 if task == "ant" else known.observation_dim, known.action_dim)
    folder = publish(name, noise(sizes=sizes), f"{known.environment}-v5")
    dataset = open_dataset(f"minari/{name}")
    spec = dataset.spec
    assert (spec.reference_min, spec.reference_max) == (known.reference_min, known.reference_max)
    assert (spec.target_returns, spec.return_scale) == (known.target_returns, 1000)
    assert "D4RL's for the same task" in spec.comparable
    assert spec.comparable in format_info(dataset)
    edit(folder, ref_min_score=5.0, ref_max_score=50.0)
    spec = open_dataset(f"minari/{name}").spec
    assert (spec.reference_min, spec.reference_max) == (5.0, 50.0)
    assert "the dataset's own" in spec.comparable


def test_decision_transformer_trains_on_a_published_dataset(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the command of the tutorial, made smaller; the result says whose references it has."""
    monkeypatch.chdir(folders)
    generator = np.random.default_rng(0)
    publish(MEDIUM, [random_episode(generator, (30, True, False), (11, 3)) for _ in range(4)])
    small = "--training.steps 2 --training.warmup_steps 1 --backbone.width 8 --evaluation.episodes 1 --processes 1"
    config = Path(__file__).parents[2] / "configs/decision-transformer/hopper.yaml"
    assert main(["train", f"minari/{MEDIUM}", "--config", str(config), "--output", "run", *small.split()]) == 0
    assert D4RL_REFERENCES in capfd.readouterr().out
    (result,) = (folders / "run/results").glob("*.json")
    dataset = json.loads(result.read_text())["dataset"]
    assert (dataset["comparable"], dataset["environment_id"]) == (D4RL_REFERENCES, "Hopper-v5")
    assert (dataset["reference_min"], dataset["reference_max"]) == (-20.272305, 3234.3)


def test_unknown_task_is_scored_between_its_returns() -> None:
    episodes = noise(sizes=(3, 1))
    publish("pendulum/random-v0", episodes, "Pendulum-v1")
    spec = open_dataset("minari/pendulum/random-v0").spec
    returns = sorted(episode.rewards.sum() for episode in episodes)
    assert (spec.reference_min, spec.reference_max) == pytest.approx((returns[0], returns[-1]))
    assert spec.target_returns == pytest.approx((returns[-1], returns[2]))
    assert 1 <= max(map(abs, returns)) / spec.return_scale < 10


def test_changed_dataset_is_converted_again(capfd: pytest.CaptureFixture[str]) -> None:
    publish(MEDIUM, noise(1))
    first = open_dataset(f"minari/{MEDIUM}").store
    made = (first.path / "manifest.json").stat().st_mtime_ns
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint == first.fingerprint
    assert (first.path / "manifest.json").stat().st_mtime_ns == made
    minari.delete_dataset(MEDIUM)
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint == first.fingerprint  # the store outlives it
    publish(MEDIUM, noise(2))
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint != first.fingerprint
    assert "making it again" in capfd.readouterr().err


def test_entry_point_in_metadata_is_never_run(folders: Path) -> None:
    """gymnasium.make would call os.mkdir here."""
    mark = folders / "mark"
    folder = publish("theirs/random-v0", noise())
    hostile = specification(entry_point="os:mkdir", kwargs={"path": str(mark)})
    edit(folder, env_spec=hostile, observation_space=None, action_space=None)
    spec = open_dataset("minari/theirs/random-v0").spec
    with pytest.raises(InputError, match="with kwargs"):
        check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    edit(folder, env_spec=specification(id="no_such_module:X-v0", entry_point="os:getcwd"))
    with pytest.raises(InputError, match="theirs/random-v0"):
        open_dataset("minari/theirs/random-v0")
    assert not mark.exists()


@pytest.mark.parametrize("specified", ["garbage", "{}", 7, '{"id": 5}', '{"id": "os:Hopper-v5"}'])
def test_dataset_without_usable_environment_raises(specified: Any) -> None:
    edit(publish("theirs/random-v0", noise()), env_spec=specified)
    with pytest.raises(InputError, match="theirs/random-v0"):
        open_dataset("minari/theirs/random-v0")


@pytest.mark.parametrize(
    ("metadata", "match"),
    [
        ({"total_episodes": 9}, "bad-v0"),
        ({"data_format": "pickle"}, "bad-v0"),
        ({"env_spec": None, "action_space": serialize_space(MultiBinary(3))}, r"bad-v0.*MultiBinary"),
        ({"observation_space": serialize_space(Box(-1, 1, (5,)))}, r"bad-v0.*episode 0 .*11.*5"),
    ],
)
def test_metadata_that_do_not_fit_the_data_raise(metadata: dict[str, Any], match: str) -> None:
    edit(publish("theirs/bad-v0", noise()), **metadata)
    with pytest.raises(InputError, match=match):
        open_dataset("minari/theirs/bad-v0")


@pytest.mark.parametrize("fault", ["truncated", "no rewards", "pickle"])
def test_damaged_data_raise(fault: str) -> None:
    file = publish("theirs/bad-v0", noise()) / "main_data.hdf5"
    with h5py.File(file, "a") as data:
        del data["episode_1/rewards"]
        if fault == "pickle":
            data["episode_1/rewards"] = pickled_objects(file.with_name("mark"))
    if fault == "truncated":
        file.write_bytes(file.read_bytes()[:-500])
    with pytest.raises(InputError, match="theirs/bad-v0"):
        open_dataset("minari/theirs/bad-v0")
    assert_nothing_made(file.parent)


def test_download_is_tried_again_and_made_once(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail(dataset_id: str, force_download: bool) -> None:
        part = dataset_folder(dataset_id) / "data"
        part.mkdir(parents=True)
        (part / "metadata.json").write_text("{")
        raise ConnectionError

    def fetch(dataset_id: str, force_download: bool) -> None:
        calls.append((dataset_id, force_download))
        shutil.rmtree(folders / "minari" / dataset_id)
        publish(dataset_id, noise())

    monkeypatch.setattr(minari, "download_dataset", fail)
    with pytest.raises(InputError, match=MEDIUM):
        open_dataset(f"minari/{MEDIUM}")
    monkeypatch.setattr(minari, "download_dataset", fetch)
    assert_equal(read(MEDIUM), noise())
    open_dataset(f"minari/{MEDIUM}")
    assert calls == [(MEDIUM, True)]
    assert list(minari.list_local_datasets()) == [MEDIUM]


def test_exported_dataset_is_loaded_by_minari_and_here(folders: Path) -> None:
    store = written(folders / "store", noise())
    store.source["notes"] = []
    spec = replace(spec_of_store("local/toy", store), reference_min=-20.0, reference_max=80.0)
    write_minari("local/toy-v0", store, spec)
    dataset = minari.load_dataset("local/toy-v0")
    assert (dataset.total_episodes, dataset.total_steps) == (5, store.steps)
    for ours, theirs in zip(store, dataset, strict=True):
        for key in ("observations", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(theirs, key), getattr(ours, key))
        last = np.arange(len(ours.rewards)) == len(ours.rewards) - 1
        np.testing.assert_array_equal(theirs.terminations, last & ours.terminated)
        np.testing.assert_array_equal(theirs.truncations, last & ours.truncated)
    assert dataset.recover_environment().spec.id == "Hopper-v5"
    assert minari.get_normalized_score(dataset, np.array([30.0])) == pytest.approx(0.5)
    again = open_dataset("minari/local/toy-v0").store
    assert again.fingerprint == store.fingerprint
    np.testing.assert_array_equal(rewards_of(again), rewards_of(store))


def test_dict_observations_are_flattened_as_gymnasium_does() -> None:
    """In the form of Minari's point mazes and Minigrid sets: goals in a Dict, small images, text, numbered actions."""
    point = Box(-1, 1, (2,))
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
    minari.create_dataset_from_buffers("theirs/dict-v0", [buffer], observation_space=space, action_space=Discrete(3))
    (episode,) = read("theirs/dict-v0")
    numbers = Dict({key: entry for key, entry in space.spaces.items() if key != "mission"})
    values = [{key: buffer.observations[key][i] for key in numbers.spaces} for i in range(3)]
    expected = np.array([gymnasium.spaces.flatten(numbers, value) for value in values])
    np.testing.assert_array_equal(episode.observations, expected.astype(np.float32))
    np.testing.assert_array_equal(episode.actions, [[0, 0, 1], [1, 0, 0]])


@pytest.fixture
def absent(folders: Path) -> Path:
    """The data folder of a Minari dataset whose environment is not installed."""
    folder = publish("reach/medium-v0", noise(sizes=(3, 1)), "Pendulum-v1")
    edit(folder, env_spec=json.dumps(REACH), requirements=ROBOTICS)
    return folder


@pytest.mark.usefixtures("absent")
def test_dataset_is_read_and_exported_without_its_environment() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = open_dataset("minari/reach/medium-v0")
    assert_equal(dataset.store, noise(sizes=(3, 1)))
    spec = dataset.spec
    assert (spec.environment_id, spec.requirements) == ("FetchReachFlat-v4", tuple(ROBOTICS))
    with pytest.raises(InputError, match=r"'FetchReachFlat-v4'.*'gymnasium-robotics >= 1\.3\.1'"):
        check_environment(spec.environment_id, spec.requirements)
    assert ROBOTICS[0] in format_info(dataset)
    write_minari("copy/reach-v0", dataset.store, spec)
    again = open_dataset("minari/copy/reach-v0").spec
    assert (again.fingerprint, again.environment_id) == (spec.fingerprint, spec.environment_id)
    assert (again.requirements, again.environment_settings) == (spec.requirements, spec.environment_settings)


@pytest.mark.parametrize(
    "changes",
    [
        {"kwargs": {"g": 9.0}},
        {"max_episode_steps": 50},
        {"additional_wrappers": [{"name": "x", "entry_point": "os:system", "kwargs": {"command": "touch mark"}}]},
    ],
)
def test_data_of_an_altered_environment_are_read_not_evaluated(
    changes: dict[str, Any], absent: Path, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluation would use the registered environment, and its scores would be those of another one."""
    monkeypatch.chdir(folders)
    edit(absent, env_spec=specification("Pendulum-v1", **changes))
    dataset = open_dataset("minari/reach/medium-v0")
    spec = dataset.spec
    assert spec.environment_id == "Pendulum-v1"
    with pytest.raises(InputError, match=f"Pendulum-v1 with {next(iter(changes))}"):
        check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    assert next(iter(changes)) in format_info(dataset)
    assert not (folders / "mark").exists()


def test_environment_registered_with_a_class_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    """As environments in a user's own module are: JSON cannot name a class."""
    registered = EnvSpec("Swing-v0", PendulumEnv, kwargs={"g": 9.0}, max_episode_steps=200)
    monkeypatch.setitem(gymnasium.registry, "Swing-v0", registered)
    store = write_store("local/swing", noise(sizes=(3, 1)), environment_id="Swing-v0")
    write_minari("swing/x-v0", store, open_dataset("local/swing").spec)
    spec = open_dataset("minari/swing/x-v0").spec
    assert spec.environment_settings == {"kwargs": {"g": 9.0}, "max_episode_steps": 200, "additional_wrappers": []}
    check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    monkeypatch.setitem(gymnasium.registry, "Swing-v0", replace(registered, kwargs={"g": 3.7}))
    with pytest.raises(InputError, match="Swing-v0 with kwargs"):
        check_environment(spec.environment_id, spec.requirements, spec.environment_settings)

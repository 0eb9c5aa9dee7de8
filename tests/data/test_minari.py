import json
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer
from minari_files import publish

from decision_rnn.data.formats.minari import dataset_folder, read_episodes, read_source, write_dataset
from decision_rnn.data.store.episode import Episode
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError

ID = "standin/toy-v0"


def hopper_episodes(count: int = 3) -> list[Episode]:
    """Short random episodes of Hopper, truncated after 15 steps."""
    environment = gymnasium.make("Hopper-v5")
    environment.action_space.seed(0)
    episodes = []
    for seed in range(count):
        observations, actions, rewards = [environment.reset(seed=seed)[0]], [], []
        terminated = False
        while not terminated and len(rewards) < 15:
            actions.append(environment.action_space.sample())
            observation, reward, terminated, _, _ = environment.step(actions[-1])
            observations.append(observation)
            rewards.append(reward)
        episodes.append(
            Episode(np.stack(observations), np.stack(actions), np.array(rewards), terminated, not terminated, seed)
        )
    return episodes


def write(episodes: list[Episode]) -> None:
    metadata: dict[str, Any] = {
        "author": {"us"},
        "description": "a test",
        "ref_min_score": -20.0,
        "ref_max_score": 80.0,
    }
    write_dataset(ID, episodes, environment_id="Hopper-v5", metadata=metadata, source={"recipe": "random"})


@pytest.mark.usefixtures("folders")
def test_minari_loads_a_dataset_written_by_write_dataset() -> None:
    episodes = hopper_episodes()
    write(episodes)
    dataset = minari.load_dataset(ID)
    assert (dataset.total_episodes, dataset.total_steps) == (3, sum(len(e.rewards) for e in episodes))
    for ours, theirs in zip(episodes, dataset, strict=True):
        np.testing.assert_array_equal(theirs.observations, ours.observations)
        np.testing.assert_array_equal(theirs.actions, ours.actions)
        np.testing.assert_array_equal(theirs.rewards, ours.rewards)
        last = np.arange(len(ours.rewards)) == len(ours.rewards) - 1
        np.testing.assert_array_equal(theirs.terminations, last & ours.terminated)
        np.testing.assert_array_equal(theirs.truncations, last & ours.truncated)
    assert [m["seed"] for m in dataset.storage.get_episode_metadata(range(3))] == [0, 1, 2]
    assert dataset.recover_environment().spec.id == "Hopper-v5"
    assert dataset.recover_environment(eval_env=True).spec.id == "Hopper-v5"
    assert minari.get_normalized_score(dataset, np.array([30.0])) == pytest.approx(0.5)
    assert dataset.storage.metadata["author"] == {"us"}
    assert list(minari.list_local_datasets()) == [ID]


@pytest.mark.usefixtures("folders")
@pytest.mark.filterwarnings("ignore::UserWarning")  # about metadata that Minari misses
def test_read_episodes_reads_a_dataset_written_by_minari() -> None:
    episodes = hopper_episodes()
    publish("theirs/random-v3", episodes)
    for ours, read in zip(episodes, read_episodes("theirs/random-v3"), strict=True):
        np.testing.assert_array_equal(read.observations, ours.observations)
        np.testing.assert_array_equal(read.actions, ours.actions)
        np.testing.assert_array_equal(read.rewards, ours.rewards)
        assert (read.terminated, read.truncated) == (ours.terminated, ours.truncated)


def test_store_made_through_minari_equals_store_made_directly(folders: Path) -> None:
    episodes = hopper_episodes()
    write(episodes)
    through = EpisodeStore.write(
        folders / "through", read_episodes(ID), environment_id="Hopper-v5", source=read_source(ID)
    )
    directly = EpisodeStore.write(folders / "directly", episodes, environment_id="Hopper-v5", source={})
    assert through.fingerprint == directly.fingerprint


@pytest.mark.usefixtures("folders")
def test_failed_write_dataset_leaves_no_minari_dataset() -> None:
    def failing() -> Any:
        yield hopper_episodes(1)[0]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_dataset(ID, failing(), environment_id="Hopper-v5", metadata={}, source={})
    assert minari.list_local_datasets() == {}
    assert not any(path.name.startswith(".") for path in dataset_folder(ID).parent.iterdir())


@pytest.mark.usefixtures("folders")
def test_read_source_returns_the_recipe_and_raises_if_data_are_corrupt() -> None:
    write(hopper_episodes())
    assert read_source(ID)["recipe"] == "random"
    data = dataset_folder(ID) / "data" / "main_data.hdf5"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(InputError, match=r"data .* are corrupt"):
        read_source(ID)
    data.unlink()
    with pytest.raises(InputError, match=r"data .* are corrupt"):
        read_source(ID)


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("metadata", ["garbage", json.dumps({"total_steps": 3})])
def test_read_source_of_foreign_minari_dataset_raises(metadata: str) -> None:
    write(hopper_episodes())
    (dataset_folder(ID) / "data" / "metadata.json").write_text(metadata)
    with pytest.raises(InputError, match="not made by decision_rnn"):
        read_source(ID)


@pytest.mark.usefixtures("folders")
def test_read_episodes_of_missing_minari_dataset_raises_naming_the_folder() -> None:
    with pytest.raises(InputError, match=r"no Minari dataset nobody/has-v0 in .*minari"):
        list(read_episodes("nobody/has-v0"))


@pytest.mark.usefixtures("folders")
def test_read_episodes_of_truncated_minari_dataset_raises() -> None:
    write(hopper_episodes())
    data = dataset_folder(ID) / "data" / "main_data.hdf5"
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    with pytest.raises(InputError, match="cannot be read"):
        list(read_episodes(ID))


@pytest.mark.usefixtures("folders")
@pytest.mark.filterwarnings("ignore::UserWarning")  # about metadata that Minari misses
def test_read_episodes_with_dict_observations_raises() -> None:
    space = gymnasium.spaces.Dict({"x": gymnasium.spaces.Box(-1, 1, (1,))})
    buffer = EpisodeBuffer(
        observations={"x": [np.zeros(1, np.float32)] * 2},
        actions=[np.zeros(1, np.float32)],
        rewards=[0.0],
        terminations=[True],
        truncations=[False],
    )
    minari.create_dataset_from_buffers(
        "theirs/dict-v0",
        [buffer],
        observation_space=space,
        action_space=gymnasium.spaces.Box(-1, 1, (1,)),
    )
    with pytest.raises(InputError, match="observations that are not flat vectors"):
        list(read_episodes("theirs/dict-v0"))

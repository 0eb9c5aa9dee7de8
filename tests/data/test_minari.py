from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text
from minari.data_collector import EpisodeBuffer
from minari_files import boxes, play

from decision_rnn.data.episode import Episode
from decision_rnn.data.formats.minari import dataset_folder, read_minari, read_source, write_dataset
from decision_rnn.utils.errors import InputError

ID = "standin/toy-v0"


def write(episodes: list[Episode]) -> None:
    metadata: dict[str, Any] = {
        "author": {"us"},
        "description": "a test",
        "ref_min_score": -20.0,
        "ref_max_score": 80.0,
    }
    source = {"recipe": "random"}
    write_dataset(ID, episodes, environment_id="Hopper-v5", spaces=boxes(11, 3), metadata=metadata, source=source)


@pytest.mark.usefixtures("folders")
def test_minari_loads_a_dataset_written_by_write_dataset() -> None:
    episodes = play("Hopper-v5")
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
def test_failed_write_dataset_leaves_no_minari_dataset() -> None:
    def failing() -> Any:
        yield play("Hopper-v5", 1)[0]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_dataset(ID, failing(), environment_id="Hopper-v5", spaces=boxes(11, 3), metadata={}, source={})
    assert minari.list_local_datasets() == {}
    assert not any(path.name.startswith(".") for path in dataset_folder(ID).parent.iterdir())


@pytest.mark.usefixtures("folders")
def test_read_source_returns_the_recipe_and_raises_if_data_are_corrupt() -> None:
    write(play("Hopper-v5"))
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
@pytest.mark.filterwarnings("ignore::UserWarning")  # about metadata that Minari misses
def test_read_episodes_flattens_dict_observations_and_discrete_actions_as_gymnasium_does() -> None:
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
    (episode,) = read_minari("theirs/dict-v0")
    numbers = Dict({key: entry for key, entry in space.spaces.items() if key != "mission"})
    values = [{key: buffer.observations[key][i] for key in numbers.spaces} for i in range(3)]
    np.testing.assert_array_equal(episode.observations, [gymnasium.spaces.flatten(numbers, value) for value in values])
    np.testing.assert_array_equal(episode.actions, [[0, 0, 1], [1, 0, 0]])

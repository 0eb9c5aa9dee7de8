"""The datasets under memory/: their stores and specs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete

from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.sources.memory import DATASETS, memory_dataset
from decision_rnn.data.warnings import warn_of_observations
from decision_rnn.utils.errors import InputError


def test_store_holds_the_recipes_episodes(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "memory/dark-key-to-door"
    recipe = replace(DATASETS[name].recipe, episodes=2)
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], recipe=recipe))
    store = open_dataset(name).store
    assert (store.observation_space, store.action_space) == (MultiDiscrete([9, 9, 2, 2]), Discrete(5))
    assert store.environment_id == "decision_rnn/DarkKeyToDoor-v0"
    for index, episode in enumerate(store):
        played = recipe.play(index)
        np.testing.assert_array_equal(episode.observations, played.observations)
        np.testing.assert_array_equal(episode.actions, played.actions)
        np.testing.assert_array_equal(episode.rewards, played.rewards)
    tmaze = replace(DATASETS["memory/tmaze-9"], recipe=replace(DATASETS["memory/tmaze-9"].recipe, episodes=20))
    monkeypatch.setitem(DATASETS, "memory/tmaze-9", tmaze)
    store = open_dataset("memory/tmaze-9").store
    assert (store.num_episodes, store.episode_returns.mean(), store.action_dim) == (20, 0.5, 4)
    assert list(warn_of_observations(store)) == []  # y is 0 wherever an agent acts, in the environment too


def test_references_and_targets_of_every_dataset() -> None:
    assert SOURCES["memory"].names() == list(DATASETS)
    for name in (*DATASETS, "memory/repeat-previous-33", "memory/tmaze-33"):
        dataset = memory_dataset(name)
        assert dataset.references[0] < dataset.references[1] == dataset.target_returns[0]
    assert dataset.recipe.environment_id == "decision_rnn/TMaze-33-v0"


@pytest.mark.parametrize(
    "name", ["memory/tmaze-2", "memory/tmaze-03", "memory/repeat-previous-0", "memory/repeat-firts-easy"]
)
def test_unknown_dataset_raises_naming_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name}.*memory/repeat-first-easy"):
        open_dataset(name)


def test_path_of_a_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"memory/tmaze-9.*--path"):
        open_dataset("memory/tmaze-9", path="x.hdf5")

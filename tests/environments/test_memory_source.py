"""The datasets under memory/: their stores and specs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete

from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.info import warn_of_observations
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.sources.memory import DATASETS, memory_dataset
from decision_rnn.environments.registry import environment_spaces
from decision_rnn.utils.errors import InputError


@pytest.mark.parametrize(("name", "episodes"), [("memory/dark-key-to-door", 2), ("memory/tmaze-9", 20)])
def test_store_holds_the_recipes_episodes(
    name: str, episodes: int, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(DATASETS[name].recipe, episodes=episodes)
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], recipe=recipe))
    store = open_dataset(name).store
    assert (store.num_episodes, store.environment_id) == (episodes, recipe.environment_id)
    if name == "memory/tmaze-9":
        assert (store.episode_returns.mean(), store.action_dim) == (0.5, 4)
        assert list(warn_of_observations(store)) == []  # y is 0 wherever an agent acts, in the environment too
    else:
        assert (store.observation_space, store.action_space) == (MultiDiscrete([9, 9, 2, 2]), Discrete(5))
    for index, episode in enumerate(store):
        for key in ("observations", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(episode, key), getattr(recipe.player()(index), key))


@pytest.mark.parametrize("name", [*DATASETS, "memory/repeat-previous-33", "memory/tmaze-33"])
def test_datasets_have_references_targets_and_spaces(name: str) -> None:
    dataset = memory_dataset(name)
    assert dataset.references[0] < dataset.references[1] == dataset.target_returns[0]
    assert (name in SOURCES["memory"].names()) == (name in DATASETS)
    if dataset.requirements:
        pytest.importorskip("popgym")
    assert dataset.spaces == environment_spaces(dataset.recipe.environment_id)


@pytest.mark.parametrize("name", ["tmaze-2", "tmaze-03", "repeat-previous-0", "repeat-firts-easy"])
def test_unknown_dataset_is_named_with_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match=rf"memory/{name}.*memory/repeat-first-easy"):
        open_dataset(f"memory/{name}")


def test_path_of_a_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"memory/tmaze-9.*--path"):
        open_dataset("memory/tmaze-9", path="x.hdf5")

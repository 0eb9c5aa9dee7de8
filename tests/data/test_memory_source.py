"""The datasets under memory/: their stores and specs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete, flatten

from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.spaces import spaces_of
from decision_rnn.data.warnings import warn_of_observations
from decision_rnn.environments.memory.recipes import RECIPES
from decision_rnn.utils.errors import InputError


def test_store_holds_the_recipes_episodes_as_gymnasium_flattens_them(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(RECIPES["memory/dark-key-to-door"], episodes=2)
    monkeypatch.setitem(RECIPES, "memory/dark-key-to-door", recipe)
    store = open_dataset("memory/dark-key-to-door").open(progress=False)
    observations, actions = MultiDiscrete([9, 9, 2, 2]), Discrete(5)
    assert spaces_of(store) == (observations, actions)
    assert store.environment_id == "decision_rnn/DarkKeyToDoor-v0"
    for index, episode in enumerate(store):
        played = recipe.play(index)
        np.testing.assert_array_equal(episode.observations, [flatten(observations, row) for row in played.observations])
        np.testing.assert_array_equal(episode.actions, [flatten(actions, row) for row in played.actions])
        np.testing.assert_array_equal(episode.rewards, played.rewards)


def test_store_is_made_once_and_again_by_another_recipe(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    dataset, recipe = open_dataset("memory/tmaze-9"), replace(RECIPES["memory/tmaze-9"], episodes=20)
    monkeypatch.setitem(RECIPES, "memory/tmaze-9", recipe)
    assert not dataset.ready
    first = dataset.open(progress=False)
    assert (first.episodes, first.episode_returns.mean(), first.action_dim) == (20, 0.5, 4)
    assert list(warn_of_observations(first)) == []  # y is 0 wherever an agent acts, in the environment too
    monkeypatch.setattr(type(recipe), "play", None)
    assert dataset.open(progress=False).fingerprint == first.fingerprint
    assert capfd.readouterr().err == ""
    monkeypatch.undo()
    monkeypatch.setenv("DECISION_RNN_CACHE", str(folders / "cache"))
    monkeypatch.setitem(RECIPES, "memory/tmaze-9", replace(recipe, version=2))
    assert dataset.open(progress=False).fingerprint == first.fingerprint
    assert "making it again" in capfd.readouterr().err


def test_specs_are_known_without_the_data(folders: Path) -> None:
    assert SOURCES["memory"].dataset_names() == list(RECIPES)
    for name in (*RECIPES, "memory/repeat-previous-33", "memory/tmaze-33"):
        spec = open_dataset(name).spec
        assert spec.reference_min < spec.reference_max
        assert spec.target_returns[0] == spec.reference_max
        assert None not in (spec.observation_space, spec.action_space)
    assert spec.environment_id == "decision_rnn/TMaze-33-v0"
    assert list(folders.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["memory/tmaze-2", "memory/tmaze-03", "memory/repeat-previous-0", "memory/repeat-firts-easy"]
)
def test_unknown_dataset_raises_naming_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match=rf"unknown dataset '{name}'.*memory/repeat-first-easy.*tmaze-N.*previous-K"):
        open_dataset(name)


def test_path_of_a_file_is_refused() -> None:
    with pytest.raises(InputError, match="memory/tmaze-9 is made here and read from no file: leave out --path"):
        open_dataset("memory/tmaze-9", path="x.hdf5")

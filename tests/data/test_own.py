"""Own datasets: from arrays, or from an environment and a policy, to a dataset that trains."""

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from d4rl_files import hopper_episodes
from faults import QUIET, Draw, Payload
from hypothesis import given, settings
from hypothesis import strategies as st

from decision_rnn import Episode, EpisodeStore, play_episodes, write_store
from decision_rnn.cli.arguments import parse_run
from decision_rnn.data.catalog import names, open_dataset
from decision_rnn.errors import InputError
from decision_rnn.training.loop import train

KINDS = [(7, True, False), (9, False, True), (4, False, False)]


def test_write_store_makes_an_own_dataset_that_trains(own: Path, tmp_path: Path) -> None:
    episodes = hopper_episodes(KINDS)
    written = write_store("own/mine", episodes, environment_id="Hopper-v5")
    directly = EpisodeStore.write(tmp_path / "directly", episodes, environment_id="Hopper-v5", source={})
    store = open_dataset("own/mine").open()
    assert store.fingerprint == written.fingerprint == directly.fingerprint
    assert store.path == own / "mine"
    assert open_dataset("own/mine").spec.reference_max == 3234.3
    assert "own/mine" in names()
    assert open_dataset("own/mine").ready
    small = ["--backbone.width", "16", "--training.steps", "1", "--training.context", "4"]
    trained = train(parse_run("test", ["own/mine", *small])[0], tmp_path / "run")
    assert trained.provenance.fingerprint == store.fingerprint
    assert trained.step == 1


@pytest.mark.usefixtures("own")
def test_write_store_accepts_lists() -> None:
    generator = np.random.default_rng(0)
    lists = [generator.normal(size=shape).tolist() for shape in ((4, 3), (3, 1), (3,))]
    store = write_store("own/mine", [Episode(*lists, True, False)], environment_id="Pendulum-v1")
    np.testing.assert_array_equal(store.observations, np.array(lists[0][:-1], np.float32))


@pytest.mark.usefixtures("own")
def test_play_episodes_equals_the_environment_stepped_by_hand() -> None:
    """Also checks the reference scores of the dataset."""

    def policy(observation: np.ndarray) -> np.ndarray:
        return -2 * observation[2:]

    store = write_store("own/pendulum", play_episodes("Pendulum-v1", policy, episodes=2, seed=5), "Pendulum-v1")
    environment = gymnasium.make("Pendulum-v1")
    for index in range(2):
        observation, _ = environment.reset(seed=5 + index)
        for t in range(200):
            row = store.offsets[index] + t
            np.testing.assert_array_equal(store.observations[row], observation)
            np.testing.assert_array_equal(store.actions[row], policy(observation))
            observation, reward, terminated, truncated, _ = environment.step(policy(observation))
            assert store.exact_rewards[row] == reward
        np.testing.assert_array_equal(store.final_observations[index], observation)
        assert (store.terminated[index], store.truncated[index]) == (terminated, truncated) == (False, True)
    spec = open_dataset("own/pendulum").spec
    assert (spec.reference_min, spec.reference_max) == (store.episode_returns.min(), store.episode_returns.max())


def test_play_episodes_with_action_of_wrong_shape_raises(own: Path) -> None:
    with pytest.raises(InputError, match=r"action of shape \(2,\) where Pendulum-v1 needs \(1,\)"):
        write_store("own/mine", play_episodes("Pendulum-v1", lambda observation: np.zeros(2), 1), "Pendulum-v1")
    assert not own.exists() or not list(own.iterdir())


@pytest.mark.usefixtures("own")
def test_write_store_does_not_overwrite_a_dataset() -> None:
    store = write_store("own/mine", hopper_episodes(KINDS), "Hopper-v5")
    with pytest.raises(InputError, match="own/mine exists"):
        write_store("own/mine", hopper_episodes(KINDS, seed=1), "Hopper-v5")
    assert open_dataset("own/mine").open().fingerprint == store.fingerprint


def test_damaged_own_dataset_raises_and_is_not_rebuilt(own: Path) -> None:
    write_store("own/mine", hopper_episodes(KINDS), "Hopper-v5")
    table = own / "mine" / "steps.npy"
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"steps\.npy has .* write own/mine again"):
        open_dataset("own/mine").open()
    assert table.exists()


@pytest.mark.usefixtures("own")
def test_missing_own_dataset_error_lists_existing_ones() -> None:
    write_store("own/mine", hopper_episodes(KINDS), "Hopper-v5")
    with pytest.raises(InputError, match="known there: own/mine"):
        open_dataset("own/yours").open()


HOSTILE = [
    "own/",
    "own/..",
    "own/../x",
    "own//x",
    "own/a/b",
    "own/.x",
    "own/\0",
    "own/a\n",
    "own/" + "a" * 5000,
    "own/é",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_own_dataset_names_raise(name: str, own: Path, folders: Path) -> None:
    for use in (lambda n: open_dataset(n).open(), lambda n: write_store(n, hopper_episodes(KINDS), "Hopper-v5")):
        with pytest.raises(InputError, match="unknown dataset"):
            use(name)
    assert list(folders.iterdir()) == []


@pytest.mark.parametrize("environment", ["os:Hopper-v5", "CartPole-v1", "Walker2d-v5", "", None])
def test_write_store_with_unusable_environment_raises(environment: Any, own: Path) -> None:
    with pytest.raises(InputError, match=environment or "not a Gymnasium id"):
        write_store("own/mine", hopper_episodes(KINDS), environment)
    assert not own.exists() or not list(own.iterdir())


def wrong_length(draw: Draw, episode: Episode, mark: Path) -> Any:
    key = draw(st.sampled_from(("observations", "actions", "rewards")))
    rows = draw(st.integers(0, 12).filter(lambda n: n != len(getattr(episode, key))))
    return {key: np.zeros((rows, *getattr(episode, key).shape[1:]))}


def wrong_shape(draw: Draw, episode: Episode, mark: Path) -> Any:
    key = draw(st.sampled_from(("observations", "actions", "rewards")))
    shapes = st.lists(st.integers(0, 9), max_size=4).filter(lambda shape: len(shape) != getattr(episode, key).ndim)
    return {key: np.zeros(draw(shapes))}


def wrong_width(draw: Draw, episode: Episode, mark: Path) -> Any:
    key = draw(st.sampled_from(("observations", "actions")))
    values = getattr(episode, key)
    width = draw(st.integers(0, 20).filter(lambda n: n != values.shape[1]))
    return {key: np.zeros((len(values), width))}


def not_finite(draw: Draw, episode: Episode, mark: Path) -> Any:
    key = draw(st.sampled_from(("observations", "actions", "rewards")))
    values = getattr(episode, key).astype(np.float64)
    values.reshape(-1)[draw(st.integers(0, values.size - 1))] = draw(st.sampled_from((np.nan, np.inf, -np.inf, 1e39)))
    return {key: values}


def no_numbers(draw: Draw, episode: Episode, mark: Path) -> Any:
    key = draw(st.sampled_from(("observations", "actions", "rewards")))
    payload = Payload(mark)
    values = (None, "text", [[1], [1, 2]], [1j], {"a": 1}, np.array([payload]), pickle.dumps(payload), payload)
    return {key: draw(st.sampled_from(values))}


FAULTS = [wrong_length, wrong_shape, wrong_width, not_finite, no_numbers]


def refuse(fault: Callable[[Draw, Episode, Path], Any], data: st.DataObject, root: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        folder = root / os.urandom(8).hex()
        patch.setenv("DECISION_RNN_DATA", str(folder))
        episodes = hopper_episodes(KINDS)
        index = data.draw(st.integers(0, 2))
        changed = fault(data.draw, episodes[index], folder / "mark")
        episodes[index] = replace(episodes[index], **changed)
        with pytest.raises(InputError, match=f"own/bad.*episode {index}|^episode {index}"):
            write_store("own/bad", episodes, "Hopper-v5")
        assert not (folder / "mark").exists()
        assert list((folder / "own").iterdir()) == []


@pytest.mark.parametrize("fault", FAULTS)
@given(data=st.data())
@settings(max_examples=5, derandomize=True, **QUIET)
def test_write_store_with_faulty_episode_raises(
    fault: Callable[[Draw, Episode, Path], Any], data: st.DataObject, tmp_path: Path
) -> None:
    refuse(fault, data, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@given(data=st.data())
@settings(max_examples=40, **QUIET)
def test_write_store_with_many_faulty_episodes_raises(
    fault: Callable[[Draw, Episode, Path], Any], data: st.DataObject, tmp_path: Path
) -> None:
    refuse(fault, data, tmp_path)


@pytest.mark.parametrize("episodes", [[], iter(())])
def test_write_store_without_episodes_raises(episodes: Any, own: Path) -> None:
    with pytest.raises(InputError, match="no episodes"):
        write_store("own/mine", episodes, "Hopper-v5")
    assert list(own.iterdir()) == []

"""Local datasets: from arrays, or from an environment and a policy, to a dataset that trains."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from d4rl_files import hopper_episodes
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple, flatten
from run_config import parse_run

from decision_rnn import Episode, EpisodeStore, play_episodes, write_store
from decision_rnn.data.dataset import dataset_names, is_ready, open_dataset
from decision_rnn.training.train import train
from decision_rnn.utils.errors import InputError

KINDS = [(7, True, False), (9, False, True), (4, False, False)]
ENDED: dict[str, Any] = {"rewards": np.zeros(3), "terminated": True, "truncated": False}


def test_written_dataset_trains(local: Path, tmp_path: Path) -> None:
    episodes = hopper_episodes(KINDS)
    written = write_store("local/mine", episodes, environment_id="Hopper-v5")
    directly = EpisodeStore.write(tmp_path / "directly", episodes, environment_id="Hopper-v5", source={})
    store = open_dataset("local/mine").store
    assert store.fingerprint == written.fingerprint == directly.fingerprint
    assert store.path == local / "mine"
    assert open_dataset("local/mine").spec.reference_max == 3234.3
    assert "local/mine" in dataset_names()
    assert is_ready("local/mine")
    small = ["--backbone.width", "16", "--training.steps", "1", "--training.context", "4"]
    trained = train(parse_run("test", ["local/mine", *small])[0], output=tmp_path / "run").agent
    assert trained.provenance.fingerprint == store.fingerprint
    assert trained.step == 1


@pytest.mark.usefixtures("local")
def test_write_store_accepts_lists() -> None:
    generator = np.random.default_rng(0)
    lists = [generator.normal(size=shape).tolist() for shape in ((4, 3), (3, 1), (3,))]
    store = write_store("local/mine", [Episode(*lists, True, False)], environment_id="Pendulum-v1")
    np.testing.assert_array_equal(store.observations, np.array(lists[0][:-1], np.float32))


@pytest.mark.usefixtures("local")
def test_play_episodes_equals_the_environment_stepped_by_hand() -> None:
    """Also checks the reference scores of the dataset."""

    def policy(observation: np.ndarray) -> np.ndarray:
        return -2 * observation[2:]

    store = write_store("local/pendulum", play_episodes("Pendulum-v1", policy, episodes=2, seed=5), "Pendulum-v1")
    environment = gymnasium.make("Pendulum-v1")
    for index, episode in enumerate(store):
        observation, _ = environment.reset(seed=5 + index)
        for t in range(200):
            row = store.offsets[index] + t
            np.testing.assert_array_equal(store.observations[row], observation)
            np.testing.assert_array_equal(store.actions[row], policy(observation))
            observation, reward, terminated, truncated, _ = environment.step(policy(observation))
            assert episode.rewards[t] == reward
        np.testing.assert_array_equal(store.final_observations[index], observation)
        assert (store.terminated[index], store.truncated[index]) == (terminated, truncated) == (False, True)
    spec = open_dataset("local/pendulum").spec
    assert (spec.reference_min, spec.reference_max) == (store.episode_returns.min(), store.episode_returns.max())


def test_play_episodes_with_action_of_wrong_shape_raises(local: Path) -> None:
    with pytest.raises(InputError, match=r"\(1,\)"):
        write_store("local/mine", play_episodes("Pendulum-v1", lambda observation: np.zeros(2), 1), "Pendulum-v1")
    assert not local.exists() or not list(local.iterdir())


def test_damaged_dataset_raises_and_is_not_rebuilt(local: Path) -> None:
    write_store("local/mine", hopper_episodes(KINDS), "Hopper-v5")
    table = local / "mine" / "steps.npy"
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"local/mine/steps\.npy"):
        open_dataset("local/mine")
    assert table.exists()


@pytest.mark.usefixtures("local")
def test_missing_dataset_error_names_the_nearest() -> None:
    write_store("local/mine", hopper_episodes(KINDS), "Hopper-v5")
    with pytest.raises(InputError, match="local/mine"):
        open_dataset("local/mime")
    with pytest.raises(InputError) as caught:
        open_dataset("local/xyzuvw")
    assert "local/mine" not in str(caught.value)


@pytest.mark.parametrize(
    "name", [f"local/{rest}" for rest in ("", "..", "../x", "/x", "a/b", ".x", "\0", "a\n", "é", "a" * 999)]
)
def test_hostile_names_raise(name: str, local: Path, folders: Path) -> None:
    for use in (open_dataset, lambda n: write_store(n, hopper_episodes(KINDS), "Hopper-v5")):
        with pytest.raises(InputError, match="unknown dataset"):
            use(name)
    assert list(folders.iterdir()) == []


@pytest.mark.parametrize("environment", ["os:Hopper-v5", "Walker2d-v5", ""])
def test_unusable_environment_raises(environment: Any, local: Path) -> None:
    with pytest.raises(InputError, match=environment or "not a Gymnasium id"):
        write_store("local/mine", hopper_episodes(KINDS), environment)
    assert not local.exists() or not list(local.iterdir())


def test_space_that_agents_cannot_read_is_refused(local: Path) -> None:
    space = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2))
    with pytest.raises(InputError, match=r"observations of local/mine .*Sequence"):
        write_store("local/mine", hopper_episodes(KINDS), observation_space=space)
    assert not local.exists() or not list(local.iterdir())


def test_dict_observations_without_a_space_are_refused(local: Path) -> None:
    parts = {"at": np.zeros((4, 2)), "goal": np.zeros((4, 1))}
    with pytest.raises(InputError, match="episode 0"):
        write_store("local/bad", [Episode(parts, np.zeros((3, 1)), **ENDED)])
    assert list(local.iterdir()) == []


@pytest.mark.parametrize(
    "space", [Dict(turn=Discrete(2), push=Box(-1, 1, (1,))), Tuple([Discrete(2)]), MultiBinary(3), Box(0, 3, (2,), int)]
)
def test_actions_that_agents_are_not_trained_on_are_refused_first(space: gymnasium.Space[Any], local: Path) -> None:
    unread = (pytest.fail("it is read") for _ in range(1))
    with pytest.raises(InputError, match="actions of local/bad"):
        write_store("local/bad", unread, action_space=space)
    assert not list(local.glob("*"))


@pytest.mark.parametrize(
    ("kind", "space", "row"),
    [
        ("action", Discrete(3), [0.5, 0.5, 0]),
        ("action", Discrete(3), [0, 0, 0]),
        ("action", MultiDiscrete([2, 3]), [1, 1, 0, 0, 0]),  # one of each, but not of each entry
        ("observation", Dict(at=Box(-1, 1, (2,)), mode=Discrete(2)), [0.5, 0.5, 1, 1]),
    ],
)
def test_rows_that_are_not_one_hot_are_refused(
    kind: str, space: gymnasium.Space[Any], row: list[float], local: Path
) -> None:
    space.seed(0)
    rows = np.array([flatten(space, space.sample()) for _ in range(3)])
    good, bad = (
        Episode(**{"observations": np.zeros((4, 2)), "actions": np.zeros((3, 2)), f"{kind}s": values}, **ENDED)
        for values in (rows, np.array([rows[0], row, row]))
    )
    if kind == "observation":
        good, bad = (replace(of, observations=np.array([*of.observations, rows[0]])) for of in (good, bad))
    store = write_store("local/good", [good], **{f"{kind}_space": space})
    np.testing.assert_array_equal(getattr(store, f"{kind}s"), rows.astype(np.float32))
    with pytest.raises(InputError, match=rf"{kind}s of local/bad .*: episode 1.*row 1"):
        write_store("local/bad", [good, bad], **{f"{kind}_space": space})
    assert [path.name for path in local.iterdir()] == ["good"]

"""OCBench: files in its layout, its environments and its oracles, against the package itself."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from decision_rnn import InputError, open_dataset
from decision_rnn.data.sources.ocbench import RECIPES
from decision_rnn.environments import reuse
from decision_rnn.environments.ocbench import TASKS, published_id
from decision_rnn.environments.registry import episodes_at_once, make_environment, registered

ocbench = pytest.importorskip("ocbench")
pytestmark = pytest.mark.usefixtures("folders")

TASK = "block-lite-single-task1"
NAME = f"ocbench/{TASK}-v0"


def contents(lengths: tuple[int, ...] = (4, 1, 7)) -> dict[str, np.ndarray]:
    """The arrays of a file whose episodes have so many steps; the second one is cut by the time limit."""
    steps, generator = sum(lengths), np.random.default_rng(0)
    last = np.cumsum(lengths) - 1
    return {
        "observations": generator.normal(size=(steps + len(lengths), 28)).astype(np.float32),
        "observation_interval": np.array(1, np.int32),
        "actions": generator.uniform(-1, 1, (steps, 7)).astype(np.float32),
        "rewards": np.isin(np.arange(steps), last[::2]).astype(np.float32),
        "masks": 1 - np.isin(np.arange(steps), last[::2]).astype(np.float32),
        "terminals": np.isin(np.arange(steps), last).astype(np.float32),
    }


def test_file_is_read_as_its_own_package_reads_it(tmp_path: Path) -> None:
    np.savez_compressed(file := tmp_path / "data.npz", **contents())
    store = open_dataset(NAME, path=file).store
    theirs = ocbench.load_dataset(file)
    steps, observations = ocbench.get_episode_offsets(theirs)
    np.testing.assert_array_equal(store.offsets, steps)
    for index, episode in enumerate(store):
        part = slice(steps[index], steps[index + 1])
        rows = slice(observations[index], observations[index + 1])
        np.testing.assert_array_equal(episode.observations, theirs["observations"][rows])
        np.testing.assert_array_equal(episode.actions, theirs["actions"][part])
        np.testing.assert_array_equal(episode.rewards, theirs["rewards"][part])
    assert store.terminated.tolist() == [True, False, True]
    assert store.truncated.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observation_interval": np.array(5)}, "observation_interval"),
        ({"observations": np.zeros((14, 28), np.float32)}, "14 observations for 12 steps of 3 episodes"),
        ({"terminals": np.zeros(12)}, "last step"),
        ({"observations": np.zeros((15, 64), np.float32)}, r"\(T\+1, 28\)"),
    ],
)
def test_file_that_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    np.savez_compressed(file := tmp_path / "data.npz", **contents() | changes)
    with pytest.raises(InputError, match=rf"data\.npz.*{message}"):
        open_dataset(NAME, path=file)


def test_files_are_not_downloaded() -> None:
    with pytest.raises(InputError, match="download_datasets"):
        open_dataset(NAME, path="published")


def test_tasks_are_those_of_the_package() -> None:
    """All lite tasks with states, each under the name of its published data."""
    lite = {name for name in gymnasium.registry if "-cpu-lite-" in name and not name.startswith("visual-")}
    assert {f"{task}-v0" for task in TASKS} == {name.replace("-cpu", "") for name in lite} | {"bowling-task1-v0"}
    for task in TASKS:
        name = RECIPES[f"ocbench/{task}-v0"].environment_id
        assert registered(name).max_episode_steps == gymnasium.spec(published_id(task)).max_episode_steps


@pytest.mark.parametrize("task", [TASK, pytest.param("switch-lite-3x3-task1", marks=pytest.mark.slow)])
def test_episodes_are_of_the_published_environment_and_of_their_index_alone(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RECIPES, f"ocbench/{task}-v0", recipe := replace(RECIPES[f"ocbench/{task}-v0"], episodes=3))
    store, before = open_dataset(f"ocbench/{task}-v0").store, np.random.get_state()[1]
    theirs = ocbench.make(published_id(task))
    play = recipe.player()
    for index in (2, 0):  # in another order
        episode = play(index)
        observation, _ = theirs.reset(seed=index)
        rows, rewards, ends = [observation], [], []
        for action in episode.actions:
            observation, reward, terminated, truncated, _ = theirs.step(action)
            rows.append(observation)
            rewards.append(reward)
            ends.append((terminated, truncated))
        np.testing.assert_array_equal(episode.observations, np.array(rows))
        np.testing.assert_array_equal(episode.rewards, rewards)
        assert ends == [(False, False)] * (len(ends) - 1) + [(episode.terminated, episode.truncated)]
        np.testing.assert_array_equal(store[index].observations, episode.observations.astype(np.float32))
        np.testing.assert_array_equal(store[index].actions, episode.actions.astype(np.float32))
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert store.action_space == theirs.action_space
    assert open_dataset(f"ocbench/{task}-v0").spec.score_meaning == "the success rate in percent"


def test_noise_is_in_the_actions_of_the_arm_but_not_of_the_gripper() -> None:
    recipe = RECIPES[NAME]
    noisy, exact = (replace(recipe, noise=noise).player()(0).actions[0] for noise in (recipe.noise, 0.0))
    assert noisy[-1] == exact[-1]
    assert (noisy[:-1] != exact[:-1]).all()
    np.testing.assert_allclose(noisy, exact, atol=6 * recipe.noise)


def test_environment_used_before_begins_as_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(environment: gymnasium.Env) -> np.ndarray:
        actions = np.random.default_rng(0).uniform(-1, 1, (20, 7))
        first, _ = environment.reset(seed=3)
        return np.array([first, *(environment.step(action)[0] for action in actions)])

    monkeypatch.setattr(reuse, "_closed", type(reuse._closed)(list))
    name = RECIPES[NAME].environment_id
    assert episodes_at_once(name, 50) == 10
    environment = make_environment(name)
    environment.reset(seed=8)
    new, inner = play(environment), environment.unwrapped
    environment.close()
    again = make_environment(name)
    assert again.unwrapped is inner
    np.testing.assert_array_equal(play(again), new)
    np.testing.assert_array_equal(play(ocbench.make("block-cpu-lite-single-task1-v0")), new)

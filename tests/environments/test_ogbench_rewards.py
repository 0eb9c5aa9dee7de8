"""OGBench's single tasks: rewards against its own relabelling of its own files, and environments stepped by hand."""

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from decision_rnn import open_dataset
from decision_rnn.data import collect as collection
from decision_rnn.data.sources.ogbench import RECIPES
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.ogbench import TASKS
from decision_rnn.environments.ogbench.environment import global_generator, goal_episode, make, relabelled, seeded
from decision_rnn.environments.ogbench.recipes import MazeOracle
from decision_rnn.environments.registry import make_environment

ogbench = pytest.importorskip("ogbench")
pytestmark = pytest.mark.usefixtures("folders")

STITCH = RECIPES["ogbench/pointmaze-medium-stitch-v0"]
ROWS = 40
"""Of each of the two episodes of a file."""
TASK_NAMES = ("pointmaze-medium", "cube-double", "scene", "puzzle-3x3")
"""One of every family."""


def dataset_of(task: str, suffix: str = "") -> str:
    return f"{task}-{'stitch' if 'maze' in task else 'play'}{suffix}-v0"


def scattered(task: str) -> Iterator[dict[str, Any]]:
    """Rows as in OGBench's files, with everything that a goal depends on put at random near where it should be."""
    environment = make(f"{task}-singletask-task3")
    with global_generator(seeded(0)):
        environment.reset(seed=0)
    generator = np.random.default_rng(0)
    for _ in range(2 * ROWS):
        if task.startswith("pointmaze"):
            environment.set_xy(environment.cur_goal_xy + generator.uniform(-1.5, 1.5, 2))
            simulation, state = environment.data, environment.get_ob()
        else:
            simulation, near = environment._data, generator.uniform(-0.04, 0.04, (4, 3))
            for cube in range(getattr(environment, "_num_cubes", 0)):
                target = simulation.mocap_pos[environment._cube_target_mocap_ids[cube]]
                simulation.joint(f"object_joint_{cube}").qpos[:3] = target + near[cube]
            if task == "scene":
                simulation.joint("drawer_slide").qpos[0] = generator.uniform(-0.16, 0)
                simulation.joint("window_slide").qpos[0] = generator.uniform(0, 0.2)
            if hasattr(environment, "_num_buttons"):
                environment._cur_button_states = generator.integers(0, 2, environment._num_buttons)
            state = environment.compute_observation()
        row = {"observations": state, "actions": environment.action_space.sample(), "qpos": simulation.qpos.copy()}
        lit = getattr(environment, "_cur_button_states", None)
        yield row if lit is None else {**row, "button_states": lit.copy()}


@functools.cache
def contents(task: str) -> dict[str, np.ndarray]:
    rows = list(scattered(task))
    arrays = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    float32 = {key: values.astype(np.float32) for key, values in arrays.items() if values.dtype.kind == "f"}
    return {**arrays, **float32, "terminals": np.arange(2 * ROWS) % ROWS == ROWS - 1}


def scattered_file(folder: Path, task: str) -> Path:
    """A file in OGBench's layout, with its validation file beside it."""
    file = folder / f"{dataset_of(task)}.npz"
    np.savez(file, **contents(task))
    shutil.copy(file, folder / f"{file.stem}-val.npz")
    return file


@pytest.mark.parametrize("task", TASK_NAMES)
def test_rewards_are_those_of_its_own_package(tmp_path: Path, task: str) -> None:
    file, name = scattered_file(tmp_path, task), dataset_of(task, "-singletask-task3")
    _, theirs, _ = ogbench.make_env_and_datasets(name, dataset_path=str(file))
    dataset = open_dataset(f"ogbench/{name}", path=file)
    store, spec, parts = dataset.store, dataset.spec, TASKS[task].parts
    for key in ("rewards", "observations", "actions"):
        np.testing.assert_array_equal(getattr(store, key), theirs[key])
    assert np.flatnonzero(theirs["terminals"]).tolist() == (store.offsets[1:] - 1).tolist()
    assert not store.terminated.any()
    assert len(np.unique(store.rewards)) > 1
    assert parts == {"pointmaze-medium": 1, "cube-double": 2, "scene": 5, "puzzle-3x3": 9}[task]
    assert spec.environment_id == f"decision_rnn/ogbench-{task}-singletask-task3-v0"
    assert (spec.normalised(-TASKS[task].steps * parts), spec.normalised(0), spec.target_returns) == (0, 100, (0,))
    assert spec.observation_space.shape == (TASKS[task].states,)
    assert "success" in spec.comparable


@pytest.mark.parametrize("task", TASK_NAMES)
def test_oracle_representations_are_those_of_its_own_package(tmp_path: Path, task: str) -> None:
    file, name = scattered_file(tmp_path, task), dataset_of(task, "-oraclerep")
    environment, theirs, _ = ogbench.make_env_and_datasets(name, dataset_path=str(file))
    store = open_dataset(f"ogbench/{name}", path=file).store
    size = theirs["oracle_reps"].shape[1]
    reached, _, states = np.split(store.observations, [size, 2 * size], axis=1)
    np.testing.assert_array_equal(states, theirs["observations"])
    np.testing.assert_allclose(reached, theirs["oracle_reps"], rtol=0, atol=2e-6)
    for episode in store:
        assert (episode.observations[:, size : 2 * size] == episode.observations[-1, :size]).all()
    ours = make_environment(f"decision_rnn/ogbench-{task}-oraclerep-v0")
    with global_generator(seeded(2)):
        _, info = environment.reset(seed=2, options={"task_id": 3})
    observation, _ = ours.reset(seed=2)
    shapes = {"achieved_goal": (size,), "desired_goal": (size,), "observation": (TASKS[task].states,)}
    assert {key: value.shape for key, value in observation.items()} == shapes
    assert info["goal"].shape == (size,)
    np.testing.assert_allclose(observation["desired_goal"], info["goal"], atol=0.05)  # ours seeds the two steps before


def test_rewards_use_the_episodes_made_for_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def collect(*_: object) -> Iterator[Episode]:
        calls.append(1)
        yield goal_episode(np.linspace((0, 0), (20, 20), 50), np.zeros((49, 2)))

    monkeypatch.setattr(collection, "collect", collect)
    first = open_dataset("ogbench/pointmaze-medium-stitch-singletask-v0").store
    goals = open_dataset("ogbench/pointmaze-medium-stitch-v0").store
    third = open_dataset("ogbench/pointmaze-medium-stitch-singletask-task3-v0").store
    assert len(calls) == 1
    assert first.fingerprint != third.fingerprint
    np.testing.assert_array_equal(first.observations, goals.observations[:, :2])
    near = np.linalg.norm(first.observations - 20, axis=1) <= 1  # the goal of the first task is at (20, 20)
    np.testing.assert_array_equal(first.rewards, np.where(near, 0, -1))
    assert 0 < near.sum() < 10


def test_single_task_in_a_maze_ends_with_the_reward_of_its_goal() -> None:
    environment = make_environment("decision_rnn/ogbench-pointmaze-medium-singletask-task2-v0")
    state, _ = environment.reset(seed=5)
    assert environment.unwrapped.cur_task_id == 2
    np.testing.assert_array_equal(environment.reset(seed=5)[0], state)
    oracle, states, actions, rewards, over = MazeOracle(STITCH), [state], [], [], False
    oracle.environment = environment.unwrapped
    while not over:
        actions.append(oracle.act(None).astype(np.float32))
        state, reward, over, truncated, info = environment.step(actions[-1])
        states.append(state)
        rewards.append(reward)
    assert (rewards[-1], truncated, info["success"]) == (0, False, 1)
    assert set(rewards[:-1]) == {-1}
    goal = environment.unwrapped.cur_goal_xy
    assert [np.linalg.norm(place - goal) <= 1 for place in states[:-1]] == [reward == 0 for reward in rewards]
    played = goal_episode(np.array(states), np.array(actions))
    (episode,) = relabelled([played], "pointmaze-medium", "-singletask-task2")
    np.testing.assert_array_equal(episode.rewards, rewards)


def test_single_task_of_a_cube_ends_with_the_reward_of_its_goal() -> None:
    environment = make_environment("decision_rnn/ogbench-cube-single-singletask-v0")
    environment.reset(seed=1)
    inner = environment.unwrapped
    assert inner.cur_task_id == 2
    assert environment.step(environment.action_space.sample())[1:4] == (-1, False, False)
    inner._data.joint("object_joint_0").qpos[:3] = inner.cur_task_info["goal_xyzs"][0]
    assert not environment.step(np.zeros(5, np.float32))[2]  # put there only now, which the step before did not see
    _, reward, terminated, truncated, info = environment.step(np.zeros(5, np.float32))
    assert (reward, terminated, truncated, info["success"]) == (0, True, False, True)


def test_tasks_have_the_time_limits_of_its_own_package() -> None:
    for task, known in TASKS.items():
        for single in ("", "-singletask", "-singletask-task5"):
            assert gymnasium.spec(f"{task}{single}-v0").max_episode_steps == known.steps

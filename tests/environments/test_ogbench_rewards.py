"""OGBench's single tasks: rewards against its own relabelling of its own files, and environments stepped by hand."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from decision_rnn import InputError, open_dataset
from decision_rnn.data import collect as collection
from decision_rnn.data.episode import Episode
from decision_rnn.data.formats.ogbench import write_ogbench
from decision_rnn.data.sources.ogbench import RECIPES
from decision_rnn.environments.ogbench import TASKS
from decision_rnn.environments.ogbench.environment import global_generator, goal_episode, make, seeded
from decision_rnn.environments.ogbench.recipes import MazeOracle
from decision_rnn.environments.ogbench.rewards import relabelled
from decision_rnn.environments.registry import make_environment

pytest.importorskip("ogbench")
pytestmark = pytest.mark.usefixtures("folders")

STITCH = RECIPES["ogbench/pointmaze-medium-stitch-v0"]
ROWS = 40
"""Of each of the two episodes of a file."""


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


EVERY_FAMILY = pytest.mark.parametrize(
    "dataset", ["pointmaze-medium-stitch", "cube-single-play", "cube-double-play", "scene-noisy", "puzzle-3x3-play"]
)


def scattered_file(folder: Path, dataset: str) -> Path:
    """A file of a dataset in OGBench's layout, with its validation file beside it."""
    rows = list(scattered(dataset.rpartition("-")[0]))
    arrays = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    float32 = {key: values.astype(np.float32) for key, values in arrays.items() if values.dtype.kind == "f"}
    ends = np.arange(2 * ROWS) % ROWS == ROWS - 1
    file = folder / f"{dataset}-v0.npz"
    np.savez(file, **{**arrays, **float32, "terminals": ends})
    shutil.copy(file, folder / f"{dataset}-v0-val.npz")
    return file


@EVERY_FAMILY
def test_rewards_are_those_of_its_own_package(tmp_path: Path, dataset: str) -> None:
    file = scattered_file(tmp_path, dataset)
    from ogbench import make_env_and_datasets

    _, theirs, _ = make_env_and_datasets(f"{dataset}-singletask-task3-v0", dataset_path=str(file))
    store = open_dataset(f"ogbench/{dataset}-singletask-task3-v0", path=file).store
    np.testing.assert_array_equal(store.rewards, theirs["rewards"])
    np.testing.assert_array_equal(store.observations, theirs["observations"])
    np.testing.assert_array_equal(store.actions, theirs["actions"])
    assert np.flatnonzero(theirs["terminals"]).tolist() == (store.offsets[1:] - 1).tolist()
    assert not store.terminated.any()
    assert len(np.unique(store.rewards)) > 1
    assert store.rewards.min() >= -TASKS[dataset.rpartition("-")[0]].parts


@EVERY_FAMILY
def test_oracle_representations_are_those_of_its_own_package(tmp_path: Path, dataset: str) -> None:
    task, file = dataset.rpartition("-")[0], scattered_file(tmp_path, dataset)
    from ogbench import make_env_and_datasets

    environment, theirs, _ = make_env_and_datasets(f"{dataset}-oraclerep-v0", dataset_path=str(file))
    store = open_dataset(f"ogbench/{dataset}-oraclerep-v0", path=file).store
    size = theirs["oracle_reps"].shape[1]
    reached, _, states = np.split(store.observations, [size, 2 * size], axis=1)
    np.testing.assert_array_equal(states, theirs["observations"])
    np.testing.assert_allclose(reached, theirs["oracle_reps"], rtol=0, atol=2e-6)
    for episode in store:
        assert (episode.observations[:, size : 2 * size] == episode.observations[-1, :size]).all()
    ours = make_environment(f"decision_rnn/ogbench-{task}-oraclerep-v0")
    with global_generator(seeded(2)):
        _, info = environment.reset(seed=2, options={"task_id": 3})
    seen, _ = ours.reset(seed=2)
    assert {key: value.shape for key, value in seen.items()} == {
        "achieved_goal": (size,),
        "desired_goal": (size,),
        "observation": (TASKS[task].states,),
    }
    assert info["goal"].shape == (size,)
    np.testing.assert_allclose(seen["desired_goal"], info["goal"], atol=0.05)  # ours seeds the two steps before it
    write_ogbench(tmp_path / "exported.npz", store)
    with np.load(tmp_path / "exported.npz") as exported:
        assert len(exported["observations"]) == store.steps + store.num_episodes
        np.testing.assert_array_equal(exported["observations"][: ROWS - 1], states[: ROWS - 1])


def test_rewards_use_the_episodes_that_were_made_for_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def collect(*_: object) -> Iterator[Episode]:
        made.append(1)
        yield goal_episode(np.linspace((0, 0), (20, 20), 50), np.zeros((49, 2)))

    monkeypatch.setattr(collection, "collect", collect)
    first = open_dataset("ogbench/pointmaze-medium-stitch-singletask-v0").store
    goals = open_dataset("ogbench/pointmaze-medium-stitch-v0").store
    third = open_dataset("ogbench/pointmaze-medium-stitch-singletask-task3-v0").store
    assert len(made) == 1
    assert first.fingerprint != third.fingerprint
    np.testing.assert_array_equal(first.observations, goals.observations[:, :2])
    near = np.linalg.norm(first.observations - 20, axis=1) <= 1  # the goal of the first task is at (20, 20)
    np.testing.assert_array_equal(first.rewards, np.where(near, 0, -1))
    assert 0 < near.sum() < 10


@pytest.mark.parametrize("dataset", ["pointmaze-medium-stitch", "puzzle-3x3-play"])
def test_relabels_an_export_with_the_same_rewards(tmp_path: Path, dataset: str) -> None:
    """Where states hold all that the goal depends on; for cubes it needs `qpos`."""
    rows = list(scattered(dataset.rpartition("-")[0]))
    arrays = {key: np.array([row[key] for row in rows], np.float32) for key in ("observations", "actions")}
    np.savez(tmp_path / "original.npz", **arrays, terminals=np.arange(2 * ROWS) % ROWS == ROWS - 1)
    name = f"{dataset}-singletask-task3-v0"
    store = open_dataset(f"ogbench/{name}", path=tmp_path / "original.npz").store
    write_ogbench(tmp_path / "exported.npz", store)
    shutil.copy(tmp_path / "exported.npz", tmp_path / "exported-val.npz")
    from ogbench import make_env_and_datasets

    _, theirs, _ = make_env_and_datasets(name, dataset_path=str(tmp_path / "exported.npz"))
    np.testing.assert_array_equal(theirs["rewards"], store.rewards)
    np.testing.assert_array_equal(theirs["observations"], store.observations)


def test_single_task_in_a_maze_ends_with_the_reward_of_its_goal() -> None:
    environment = make_environment("decision_rnn/ogbench-pointmaze-medium-singletask-task2-v0")
    state, _ = environment.reset(seed=5)
    assert environment.unwrapped.cur_task_id == 2
    np.testing.assert_array_equal(environment.reset(seed=5)[0], state)
    oracle, states, actions, rewards, over = (
        MazeOracle(RECIPES["ogbench/pointmaze-medium-stitch-v0"]),
        [state],
        [],
        [],
        False,
    )
    oracle.environment = environment.unwrapped
    while not over:
        actions.append(oracle.act(None).astype(np.float32))
        state, reward, over, truncated, info = environment.step(actions[-1])
        states.append(state)
        rewards.append(reward)
    assert (rewards[-1], truncated, info["success"]) == (0, False, 1)
    assert set(rewards[:-1]) == {-1}
    goal = environment.unwrapped.cur_goal_xy
    assert [np.linalg.norm(at - goal) <= 1 for at in states[:-1]] == [reward == 0 for reward in rewards]
    (episode,) = relabelled(
        [goal_episode(np.array(states), np.array(actions))], "pointmaze-medium", "-singletask-task2"
    )
    np.testing.assert_array_equal(episode.rewards, rewards)


def test_single_task_of_a_cube_ends_with_the_reward_of_its_goal() -> None:
    environment = make_environment("decision_rnn/ogbench-cube-single-singletask-v0")
    environment.reset(seed=1)
    inner = environment.unwrapped
    assert inner.cur_task_id == 2
    assert environment.step(environment.action_space.sample())[1:4] == (-1, False, False)
    inner._data.joint("object_joint_0").qpos[:3] = inner.cur_task_info["goal_xyzs"][0]
    seen = environment.step(np.zeros(5, np.float32))  # it has just been put there, which the step before did not see
    _, reward, terminated, truncated, info = environment.step(np.zeros(5, np.float32))
    assert (seen[2], reward, terminated, truncated, info["success"]) == (False, 0, True, False, True)


def test_tasks_have_the_time_limits_of_its_own_package() -> None:
    for task, known in TASKS.items():
        for single in ("", "-singletask", "-singletask-task5"):
            assert gymnasium.spec(f"{task}{single}-v0").max_episode_steps == known.steps


def test_scores_of_single_tasks_are_of_their_lowest_return(tmp_path: Path) -> None:
    file = scattered_file(tmp_path, "scene-noisy")
    spec = open_dataset("ogbench/scene-noisy-singletask-task2-v0", path=file).spec
    assert spec.environment_id == "decision_rnn/ogbench-scene-singletask-task2-v0"
    assert (spec.normalised(-750.0 * 5), spec.normalised(0), spec.target_returns) == (0, 100, (0,))
    assert spec.observation_space.shape == (40,)
    assert "success" in spec.comparable


@pytest.mark.parametrize("name", ["cube-single-play-singletask-task6-v0", "cube-single-play-singletask-task3"])
def test_unknown_ogbench_single_task_is_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match="-singletask"):
        open_dataset(f"ogbench/{name}")

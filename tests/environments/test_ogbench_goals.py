"""OGBench's oracle representation of goals against that of its own package."""

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from decision_rnn import open_dataset
from decision_rnn.data.sources.ogbench import RECIPES
from decision_rnn.environments.ogbench import TASKS, make
from decision_rnn.environments.registry import make_environment
from decision_rnn.environments.reuse import global_generator, seeded

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
    environment = make(task)
    with global_generator(seeded(0)):
        environment.reset(seed=0, options={"task_id": 3})
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


def test_tasks_have_the_time_limits_of_its_own_package() -> None:
    for task, known in TASKS.items():
        assert gymnasium.spec(f"{task}-v0").max_episode_steps == known.steps

"""Rewards of OGBench's single tasks, for episodes that were played for no goal of theirs."""

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from decision_rnn.environments.episode import Episode
from decision_rnn.environments.ogbench import ARM, TASKS
from decision_rnn.environments.ogbench.environment import global_generator, make, seeded

OBJECTS = 14
"""Where objects begin in the positions of the simulation of a task with an arm."""
CENTRE, SCALE = np.array([0.425, 0.0, 0.0]), 10.0
"""How places become entries of a state: less the centre, times the scale."""
SLIDERS = np.array([18.0, 15.0])
"""The scales of the drawer's and the window's position."""


def relabelled(episodes: Iterable[Episode], task: str, single: str) -> Iterator[Episode]:
    """The episodes of a task with states alone as their observations, and with the rewards of a single one of its
    goals, by OGBench's own `relabel_utils`. They go on where the goal is reached, as in OGBench.

    Args:
        episodes: Episodes whose observations begin with the state.
        task: One of `TASKS`.
        single: What follows its name, such as `-singletask-task3`.

    Raises:
        ModuleNotFoundError: If the package `ogbench` is not installed.
    """
    environment, relabel = make(f"{task}{single}"), importlib.import_module("ogbench.relabel_utils").relabel_dataset
    with global_generator(seeded(0)):
        environment.reset()
    # Its goal stays the same, and resetting it for every episode would take a tenth of a second each.
    still = SimpleNamespace(unwrapped=environment, reset=lambda: None)
    for episode in episodes:
        states = episode.observations[:, : TASKS[task].states]
        dataset = simulated(task, states[:-1].astype(np.float64))
        relabel(task, still, dataset)
        yield replace(episode, observations=states, rewards=dataset["rewards"].astype(np.float64))


def simulated(name: str, states: np.ndarray) -> dict[str, np.ndarray]:
    """What OGBench computes rewards from, for states (n, size): `qpos`, positions of the simulation, zero where no goal
    depends on them, and `button_states` (n, buttons)."""
    if name.startswith("pointmaze"):
        return {"qpos": states}
    task, count = TASKS[name], len(states)
    qpos = np.zeros((count, OBJECTS + 7 * task.cubes + task.buttons + 2))
    cubes, buttons, sliders = np.split(states[:, ARM:], [9 * task.cubes, 9 * task.cubes + 4 * task.buttons], axis=1)
    for cube in range(task.cubes):
        qpos[:, OBJECTS + 7 * cube :][:, :3] = cubes[:, 9 * cube :][:, :3] / SCALE + CENTRE
    if task.sliders:
        qpos[:, -2:] = sliders[:, [0, 2]] / SLIDERS
    return {"qpos": qpos, "button_states": buttons.reshape(count, task.buttons, 4)[..., :2].argmax(-1)}

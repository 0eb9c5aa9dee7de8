"""Writes an mp4 of an agent with subgoals (`condition subgoal`) that moves OGBench's cubes, with its subgoals drawn in:
where each cube is to be `condition.subgoal_steps` steps later, as a sphere in the cube's color, and in the scene where
the handles of its drawer and window are to be. Transparent cubes are the goal.

    python scripts/film_subgoals.py runs/cube cube.mp4 --episodes 5
"""

import argparse
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch
from PIL import Image

from decision_rnn.environments.ogbench import ID, TASKS, Task
from decision_rnn.environments.registry import make_environment
from decision_rnn.evaluation.actor import EnvironmentActor
from decision_rnn.evaluation.video import write_video
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.utils.files import new_file

CENTER, SCALE = np.array([0.425, 0.0, 0.0]), 10.0
"""OGBench represents a position, in metres, as SCALE (position - CENTER)."""
SLIDERS = {"drawer": 18.0, "window": 15.0}
"""What slides in the scene, and by how much OGBench multiplies how far, in metres, it is open."""
COLORS = [[0.9, 0.1, 0.1, 1.0], [0.1, 0.2, 0.9, 1.0], [1.0, 0.5, 0.0, 1.0], [0.1, 0.7, 0.2, 1.0]]
SIZE, RADIUS, EVERY = 400, 0.012, 2
"""Pixels of a picture's side, metres of a sphere's radius, and steps from one picture to the next."""
RATE = Fraction(20)
"""Pictures a second: twice as fast as the robot, which acts 20 times a second."""


def pictures(trained: TrainedAgent, episodes: int, seed: int) -> Iterator[Image.Image]:
    """Pictures of consecutive episodes, which begin with reset(seed), reset(seed + 1), ..."""
    environment_id = str(trained.provenance.environment_id)
    match = ID.fullmatch(environment_id)
    if match is None or not TASKS[match[1]].cubes or trained.config.condition.name != "subgoal":
        raise SystemExit(f"{environment_id} has no cubes, or the agent has no subgoals")
    with make_environment(environment_id, render_mode="rgb_array") as environment:
        task: Any = environment.unwrapped
        for number in range(seed, seed + episodes):
            torch.manual_seed(number)  # of sampled actions
            actor = EnvironmentActor(trained)
            observation, _ = environment.reset(seed=number)
            task.model.vis.global_.offwidth = task.model.vis.global_.offheight = SIZE
            reward, over, step = 0.0, False, 0
            with mujoco.Renderer(task.model, SIZE, SIZE) as renderer:
                while not over:
                    action = actor(observation, reward)
                    if step % EVERY == 0:
                        assert actor.condition_values is not None
                        subgoal = observation["achieved_goal"] + actor.condition_values[0, 1:].numpy()
                        renderer.update_scene(task.data, camera="front")
                        draw(renderer.scene, positions(task.data, TASKS[match[1]], subgoal))
                        yield Image.fromarray(renderer.render())
                    observation, reward, terminated, truncated, _ = environment.step(action)
                    over, step = terminated or truncated, step + 1


def positions(data: mujoco.MjData, task: Task, subgoal: np.ndarray) -> list[np.ndarray]:
    """Where a subgoal, by OGBench's oracle representation, has each cube and handle: (3,) metres."""
    cubes = subgoal[: 3 * task.cubes].reshape(task.cubes, 3)
    where = list(CENTER + cubes / SCALE)
    if task.sliders:
        for (name, scale), opening in zip(SLIDERS.items(), subgoal[-2:], strict=True):
            joint, handle = data.joint(f"{name}_slide"), data.site(f"{name}_handle_center")
            where.append(handle.xpos + joint.xaxis * (opening / scale - joint.qpos))
    return where


def draw(scene: mujoco.MjvScene, where: list[np.ndarray]) -> None:
    """Add spheres."""
    for position, color in zip(where, COLORS, strict=False):
        sphere = mujoco.mjtGeom.mjGEOM_SPHERE
        geometry, rgba = scene.geoms[scene.ngeom], np.array(color, np.float32)
        mujoco.mjv_initGeom(geometry, sphere, np.full(3, RADIUS), position, np.eye(3).ravel(), rgba)
        scene.ngeom += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", help="a run's folder")
    parser.add_argument("video", type=Path, help="the mp4 to write")
    parser.add_argument("--episodes", type=int, default=5, help="number of episodes (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first episode; 0 begins the first task")
    arguments = parser.parse_args()
    os.environ.setdefault("MUJOCO_GL", "egl")
    trained = load_agent(arguments.agent)
    with new_file(arguments.video) as new:
        write_video(pictures(trained, arguments.episodes, arguments.seed), RATE, new)


if __name__ == "__main__":
    main()

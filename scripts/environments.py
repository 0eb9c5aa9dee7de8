"""Which of Gymnasium's environments work from recording to export: results/environments/README.md.

In each, a random policy is recorded, an agent is trained for a few steps, evaluated, and exported to ONNX; the exported
policy then plays an episode, in which every action must be within the environment's action space.

    pip install minigrid gymnasium-robotics
    python scripts/environments.py
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import (
    ClipAction,
    FlattenObservation,
    FrameStackObservation,
    NormalizeObservation,
    RescaleAction,
)
from minigrid.wrappers import ImgObsWrapper, RGBImgPartialObsWrapper
from results_folder import RESULTS, Made, table, write_report

import decision_rnn
from decision_rnn.data.layouts import Layout
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.deploy.runtime import Policy
from decision_rnn.utils.messages import bar
from decision_rnn.utils.plugins import import_plugins

PLUGINS = ("minigrid", "gymnasium_robotics")
"""Modules that register some of them."""
SMALL: dict[str, Any] = {
    "backbone": {"name": "mingru", "width": 32, "layers": 1},
    "steps": 30,
    "training": {"context": 10, "batch_size": 16},
    "progress": False,
    "plugins": PLUGINS,
}
STEPS = ("recorded", "trained", "evaluated", "exported")
ENVIRONMENTS = (
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    *(
        f"{body}-v5"
        for body in (
            "InvertedPendulum",
            "InvertedDoublePendulum",
            "Hopper",
            "Walker2d",
            "HalfCheetah",
            "Ant",
            "Humanoid",
            "HumanoidStandup",
            "Swimmer",
            "Reacher",
            "Pusher",
        )
    ),
    "CartPole-v1",
    "Acrobot-v1",
    "FrozenLake-v1",
    "Taxi-v4",
    "Blackjack-v1",
    "MiniGrid-Empty-5x5-v0",
    "MiniGrid-MemoryS7-v0",
    "PointMaze_UMaze-v3",
    "AntMaze_UMaze-v5",
    "AdroitHandDoor-v1",
)
WRAPPED: dict[str, Callable[[], gymnasium.Env]] = {
    "FlattenObservation-FrameStackObservation-Pendulum-v1": lambda: FlattenObservation(
        FrameStackObservation(gymnasium.make("Pendulum-v1"), 3)
    ),
    "FlattenObservation-PointMaze_UMaze-v3": lambda: FlattenObservation(gymnasium.make("PointMaze_UMaze-v3")),
    "NormalizeObservation-Hopper-v5": lambda: NormalizeObservation(gymnasium.make("Hopper-v5")),
    "RescaleAction-Pendulum-v1": lambda: RescaleAction(gymnasium.make("Pendulum-v1"), -1.0, 1.0),
    "ClipAction-Humanoid-v5": lambda: ClipAction(gymnasium.make("Humanoid-v5")),
    "ImgObsWrapper-MiniGrid-Empty-5x5-v0": lambda: ImgObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0")),
    "RGBImgPartialObsWrapper-MiniGrid-Empty-5x5-v0": lambda: RGBImgPartialObsWrapper(
        gymnasium.make("MiniGrid-Empty-5x5-v0")
    ),
}
"""Environments of your own, registered as docs/tutorials/own-data.md says, by the wrappers in their names."""


def main() -> None:
    made = Made.here(seeds=[0], packages=["onnx", "onnxruntime", "minigrid", "gymnasium-robotics"])
    import_plugins(PLUGINS)
    for name, wrapped in WRAPPED.items():
        gymnasium.register(name, wrapped)
    rows = []
    with (
        bar(total=len(ENVIRONMENTS) + len(WRAPPED), desc="environments") as shown,
        tempfile.TemporaryDirectory() as folder,
    ):
        os.environ["DECISION_RNN_DATA"] = folder
        for environment_id in (*ENVIRONMENTS, *WRAPPED):
            rows.append(row(environment_id, Path(folder)))
            shown.update()
    write_report(
        RESULTS / "environments" / "README.md",
        "# Environments\n\n"
        "From a random policy's episodes to an exported agent that plays: what works in Gymnasium's, Minigrid's and "
        "Gymnasium-Robotics' environments. The last column is the action space, or the sentence that says why not. The "
        "agents are trained for 30 steps, so that their scores mean nothing. The last rows are of "
        "environments in wrappers.\n\n" + table(["environment", *STEPS, "observations", "actions"], rows),
        made,
    )


def row(environment_id: str, folder: Path) -> list[str]:
    """The table's row of an environment."""
    environment = gymnasium.make(environment_id)
    space, seen = environment.action_space, describe(environment.observation_space)
    remark, done = str(space), 0
    dataset = run = None

    def record() -> None:
        nonlocal dataset
        space.seed(0)
        name = f"local/{environment_id}"
        dataset = decision_rnn.record(lambda _: space.sample(), environment_id, name, steps=300, progress=False)

    def train() -> None:
        nonlocal run
        run = decision_rnn.train(dataset, output=folder / environment_id, **SMALL)

    def evaluate() -> None:
        assert run is not None
        run.evaluate(episodes=1, max_episode_steps=200, progress=False)

    def export() -> None:
        assert run is not None
        export_onnx(run.agent, folder / "policy.onnx")
        play(environment_id, Policy.load(folder / "policy.onnx"))

    steps: tuple[Callable[[], None], ...] = (record, train, evaluate, export)
    for step in steps:
        try:
            step()
        except decision_rnn.InputError as error:
            remark = str(error)
            break
        done += 1
    return [environment_id, *["yes"] * done, *["no"] * (len(steps) - done), seen, remark]


def describe(space: gymnasium.Space) -> str:
    """Its class, and how many numbers an agent reads."""
    name = type(space).__name__
    try:
        return f"{name}, {Layout.of_space(space, 'observations').size} numbers"
    except decision_rnn.InputError:
        return name


def play(environment_id: str, policy: Policy) -> None:
    """Play 200 steps; AssertionError if an action leaves the action space."""
    environment = gymnasium.make(environment_id)
    observation, _ = environment.reset(seed=0)
    reward = 0.0
    for _ in range(200):
        action = policy.act(observation, reward)
        assert environment.action_space.contains(action), action
        observation, gained, terminated, truncated, _ = environment.step(action)
        reward = float(gained)
        if terminated or truncated:
            observation, _ = environment.reset()
            policy.reset()
    assert np.isfinite(action).all()


if __name__ == "__main__":
    main()

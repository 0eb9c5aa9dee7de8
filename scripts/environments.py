"""Which of Gymnasium's environments work from recording to export: results/environments/README.md.

In each, a random policy is recorded, an agent is trained for a few steps, evaluated, and exported to ONNX; the exported
policy then plays an episode, in which every action must be within the environment's action space.

    pip install minigrid gymnasium-robotics
    python scripts/environments.py
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.wrappers import (
    ClipAction,
    FlattenObservation,
    FrameStackObservation,
    NormalizeObservation,
    RescaleAction,
)
from minigrid.wrappers import ImgObsWrapper, RGBImgPartialObsWrapper
from results_folder import RESULTS, provenance, table, write_report
from tqdm import tqdm

import decision_rnn
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.deploy.runtime import Policy
from decision_rnn.environments.layouts import Layout
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
ENVIRONMENTS = [
    "Pendulum-v1", "MountainCarContinuous-v0", "InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Hopper-v5",
    "Walker2d-v5", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "HumanoidStandup-v5", "Swimmer-v5", "Reacher-v5",
    "Pusher-v5", "CartPole-v1", "Acrobot-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "MiniGrid-Empty-5x5-v0",
    "MiniGrid-MemoryS7-v0", "PointMaze_UMaze-v3", "AntMaze_UMaze-v5", "AdroitHandDoor-v1",
]  # fmt: skip


def stacked(environment: gymnasium.Env) -> gymnasium.Env:
    return FlattenObservation(FrameStackObservation(environment, 3))


WRAPPED: list[tuple[str, str, Callable[[gymnasium.Env], gymnasium.Env]]] = [
    ("FlattenObservation-FrameStackObservation", "Pendulum-v1", stacked),
    ("FlattenObservation", "PointMaze_UMaze-v3", FlattenObservation),
    ("NormalizeObservation", "Hopper-v5", NormalizeObservation),
    ("RescaleAction", "Pendulum-v1", lambda env: RescaleAction(env, -1.0, 1.0)),
    ("ClipAction", "Humanoid-v5", ClipAction),
    ("ImgObsWrapper", "MiniGrid-Empty-5x5-v0", ImgObsWrapper),
    ("RGBImgPartialObsWrapper", "MiniGrid-Empty-5x5-v0", RGBImgPartialObsWrapper),
]
"""Environments of your own, registered as docs/tutorials/own-data.md says: their wrappers, and what these wrap."""


def main() -> None:
    sentence = provenance(seeds=[0], packages=["onnx", "onnxruntime", "minigrid", "gymnasium-robotics"])
    import_plugins(PLUGINS)
    names = [*ENVIRONMENTS, *(f"{prefix}-{inner}" for prefix, inner, _ in WRAPPED)]
    for prefix, inner, wrap in WRAPPED:
        gymnasium.register(f"{prefix}-{inner}", lambda wrap=wrap, inner=inner: wrap(gymnasium.make(inner)))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DECISION_RNN_DATA"] = folder
        rows = [row(environment_id, Path(folder)) for environment_id in tqdm(names)]
    write_report(
        RESULTS / "environments" / "README.md",
        "# Environments\n\n"
        "From a random policy's episodes to an exported agent that plays: what works in Gymnasium's, Minigrid's and "
        "Gymnasium-Robotics' environments. The last column is the action space, or the sentence that says why not. The "
        "agents are trained for 30 steps, so that their scores mean nothing. The last rows are of "
        "environments in wrappers.\n\n" + table(["environment", *STEPS, "observations", "actions"], rows),
        sentence,
    )


def row(environment_id: str, folder: Path) -> list[str]:
    """The table's row of an environment."""
    environment = gymnasium.make(environment_id)
    remark, done = str(environment.action_space), 0
    try:
        for _ in stages(environment, folder / environment_id):
            done += 1
    except decision_rnn.InputError as error:
        remark = str(error)
    space = environment.observation_space
    description = type(space).__name__
    with contextlib.suppress(decision_rnn.InputError):
        description += f", {Layout.of_space(space, 'observations').size} numbers"
    return [environment_id, *["yes"] * done, *["no"] * (len(STEPS) - done), description, remark]


def stages(environment: gymnasium.Env, output: Path) -> Iterator[None]:
    """Go through `STEPS`, with a yield after each; AssertionError if an action leaves the action space."""
    assert environment.spec is not None
    name, space = environment.spec.id, environment.action_space
    space.seed(0)
    dataset = decision_rnn.record(lambda _: space.sample(), name, f"local/{name}", steps=300, progress=False)
    yield
    run = decision_rnn.train(dataset, output=output, **SMALL)
    yield
    run.evaluate(episodes=1, max_episode_steps=200, progress=False)
    yield
    export_onnx(run.agent, output / "policy.onnx")
    policy = Policy.load(output / "policy.onnx")
    observation, reward = environment.reset(seed=0)[0], 0.0
    for _ in range(200):
        action = policy.act(observation, reward)
        assert space.contains(action), action
        observation, gained, terminated, truncated, _ = environment.step(action)
        reward = float(gained)
        if terminated or truncated:
            observation, _ = environment.reset()
            policy.reset()
    yield


if __name__ == "__main__":
    main()

"""Descriptions of an environment's observations and actions that can be stored in a file."""

from typing import Any

import gymnasium
import numpy as np

from decision_rnn.data.environments import MissingEnvironmentError, make_environment

WIDTHS = {0: (7, 6), 1: (4, 3), 2: (1, 1), 3: (1, 1)}
"""Sizes of a MuJoCo joint's position and velocity, by joint type: free, ball, slide, hinge."""
ON_JOINT = 0
"""MuJoCo's number for actuators of joints (mjTRN_JOINT); those of tendons, sites and bodies number other things."""


def describe_spaces(environment_id: str, observation_dim: int, action_dim: int) -> dict[str, dict[str, Any]]:
    """Sizes, ranges and names of observations and actions.

    Args:
        environment_id: The Gymnasium id.
        observation_dim: Entries of an observation, used if the environment cannot be created here.
        action_dim: Components of an action, used if the environment cannot be created here.

    Returns:
        `observation` and `action`, each with `size`, lists `low` and `high`, in which None means no bound, and `names`.
        The lists are None if they are not known.
    """
    try:
        environment = make_environment(environment_id)
    except MissingEnvironmentError:
        unknown = {"low": None, "high": None, "names": None}
        return {"observation": {"size": observation_dim, **unknown}, "action": {"size": action_dim, **unknown}}
    observation, action = _ranges(environment.observation_space), _ranges(environment.action_space)
    observations, actions = _joint_names(environment.unwrapped)
    environment.close()
    return {
        "observation": {**observation, "names": observations if len(observations) == observation["size"] else None},
        "action": {**action, "names": actions if len(actions) == action["size"] else None},
    }


def _ranges(space: gymnasium.Space[Any]) -> dict[str, Any]:
    assert isinstance(space, gymnasium.spaces.Box)  # training requires it

    def bounds(values: np.ndarray) -> list[float | None]:
        return [float(value) if np.isfinite(value) else None for value in values]

    return {"size": space.shape[0], "low": bounds(space.low), "high": bounds(space.high)}


def _joint_names(environment: Any) -> tuple[list[str], list[str]]:
    """The names of the entries of MuJoCo observations and actions, by joint; empty for other environments, and for
    actions unless every actuator drives a joint.

    Observations in Gymnasium's environments are the positions, without the first few, then the velocities, and in some
    environments further parts such as contact forces, whose entries are numbered.
    """
    model = getattr(environment, "model", None)
    needed = ("njnt", "joint", "actuator_trnid", "actuator_trntype")
    if model is None or not all(hasattr(model, name) for name in needed):
        return [], []
    joints = [model.joint(i) for i in range(model.njnt)]
    named: list[list[str]] = []
    for place, kind in enumerate(("position", "velocity")):
        widths = [WIDTHS[int(joint.type[0])][place] for joint in joints]
        named.append(
            [
                f"{kind} of {joint.name}" + (f", {i}" if width > 1 else "")
                for joint, width in zip(joints, widths, strict=True)
                for i in range(width)
            ]
        )
    positions, velocities = named
    size = environment.observation_space.shape[0]
    structure = getattr(environment, "observation_structure", None) or {}
    skipped = structure.get("skipped_qpos", len(positions) + len(velocities) - size)
    further = [
        f"{name}, {i}"
        for name, count in structure.items()
        if name not in ("skipped_qpos", "qpos", "qvel")
        for i in range(count)
    ]
    driven = model.actuator_trnid[:, 0] if (model.actuator_trntype == ON_JOINT).all() else ()
    actions = [f"torque of {model.joint(int(joint)).name}" for joint in driven]
    return [*positions[max(skipped, 0) :], *velocities, *further], actions

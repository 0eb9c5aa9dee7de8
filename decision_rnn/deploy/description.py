"""What the file of an exported policy says of it, besides its inputs, outputs and state."""

import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.backbones import count_parameters
from decision_rnn.config import to_dict
from decision_rnn.data.layouts import Layout
from decision_rnn.environments.registry import MissingEnvironmentError, make_environment
from decision_rnn.evaluation.results import Result
from decision_rnn.evaluation.targets import default_return
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.machine import versions
from decision_rnn.utils.plugins import plugin_hashes
from decision_rnn.utils.records import encode_targets

PACKAGES = ("decision-rnn", "torch", "numpy", "onnx", "onnxscript", "onnxruntime")
WIDTHS = {0: (7, 6), 1: (4, 3), 2: (1, 1), 3: (1, 1)}
"""Sizes of a MuJoCo joint's position and velocity, by joint type: free, ball, slide, hinge."""
ON_JOINT = 0
"""MuJoCo's number for actuators of joints (mjTRN_JOINT); those of tendons, sites and bodies number other things."""


def describe(trained: TrainedAgent, target_return: float | None, results: Sequence[Result]) -> dict[str, Any]:
    """Describe environment, target return, training, scores and versions as JSON values.

    Args:
        trained: The agent.
        target_return: The policy's default target return; if None, the first of its evaluation.
        results: Its evaluations.
    """
    config, agent, index = trained.config, trained.agent, trained.agent.encoder.index
    if target_return is None:
        target_return = default_return(config, trained.provenance)
    environment_id = trained.provenance.environment_id
    keys = ("target_return", "in_range", "return_mean", "return_sd", "score_mean", "score_sd", "length_mean")
    return {
        "environment_id": environment_id,
        **describe_spaces(environment_id, agent.observation_space, agent.action_space),
        "observation_index": None if index is None else index.tolist(),
        "target_return": {
            "input": "target_return",
            "conditioned": config.takes_target,
            "default": encode_targets(float(target_return or 0.0), is_target=True),
            "auto": config.condition_options.limited,
            "meaning": "in the environment's units, the same at every step of an episode; without effect on a policy "
            "that is not conditioned",
        },
        "training": {
            "config": to_dict(config),
            "provenance": asdict(trained.provenance),
            "step": trained.step,
            "seconds": round(trained.seconds, 2),
            "plugins_sha256": plugin_hashes(config.plugins),
            "parameters": count_parameters(agent),
            "backbone_parameters": count_parameters(agent.backbone),
        },
        "scores": [
            {
                "protocol": asdict(result.protocol),
                "targets": [{key: getattr(target, key) for key in keys} for target in result.targets],
                "comparable": result.dataset.comparable,
            }
            for result in results
        ],
        "versions": versions(PACKAGES),
    }


def describe_spaces(
    environment_id: str | None, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
) -> dict[str, dict[str, Any]]:
    """`observation` and `action`, each with `size`, lists `low` and `high`, in which None means no bound, `names` of
    the entries, and for values that are not vectors `layout`, how they become rows (`layouts.Layout`).

    Actions have the bounds of the agent's space. Vectors of observations have no bounds, and no names unless they are
    of MuJoCo's joints, if there is no environment or it cannot be created here.
    """
    spaces: dict[str, dict[str, Any]] = {}
    kinds: dict[str, gymnasium.Space[Any]] = {"observation": observation_space, "action": action_space}
    entries: tuple[list[str], list[str]] = [], []
    with contextlib.suppress(MissingEnvironmentError), contextlib.closing(make_environment(environment_id)) as made:
        kinds["observation"], entries = made.observation_space, _joint_names(made.unwrapped)
    for (kind, space), names in zip(kinds.items(), entries, strict=True):
        layout = Layout.of_space(space, kind)
        bounds: list[Any] = [gymnasium.spaces.flatten_space(_at(space, part.path)) for part in layout.parts]
        low, high = (
            [float(x) if np.isfinite(x) else None for x in np.concatenate(ends)]
            for ends in zip(*((box.low, box.high) for box in bounds), strict=True)
        )
        spaces[kind] = {
            "size": layout.size,
            "low": low,
            "high": high,
            "names": layout.names if not layout.flat else names if len(names) == layout.size else None,
            **({} if layout.flat else {"layout": layout.to_json()}),
        }
    return spaces


def _at(space: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        space = space[key]
    return space


def _joint_names(environment: Any) -> tuple[list[str], list[str]]:
    """The names of the entries of MuJoCo observations and actions, by joint; empty for other environments, and for
    actions unless every actuator drives a joint.

    Observations in Gymnasium's environments are the positions, without the first few, then the velocities, and in some
    environments further parts such as contact forces, whose entries are numbered.
    """
    try:
        model: Any = environment.model
    except Exception:  # a property can raise anything, such as that there is no model before a reset
        return [], []
    if not hasattr(model, "actuator_trntype"):
        return [], []
    joints = [model.joint(i) for i in range(model.njnt)]
    positions, velocities = (
        [name for joint in joints for name in _numbered(f"{kind} of {joint.name}", WIDTHS[int(joint.type[0])][part])]
        for part, kind in enumerate(("position", "velocity"))
    )
    structure = dict(getattr(environment, "observation_structure", None) or {})
    moving = len(positions) + len(velocities) - gymnasium.spaces.flatdim(environment.observation_space)
    skipped = max(structure.get("skipped_qpos", moving), 0)
    others = {name: size for name, size in structure.items() if name not in ("skipped_qpos", "qpos", "qvel")}
    further = [entry for name, size in others.items() for entry in _numbered(name, size)]
    driven = model.actuator_trnid[:, 0] if (model.actuator_trntype == ON_JOINT).all() else ()
    return [*positions[skipped:], *velocities, *further], [f"torque of {joints[int(i)].name}" for i in driven]


def _numbered(name: str, size: int) -> list[str]:
    return [name] if size == 1 else [f"{name}, {i}" for i in range(size)]

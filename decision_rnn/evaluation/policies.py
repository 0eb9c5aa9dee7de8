"""An exported policy as an Actor, evaluated by the same rollouts as the agent it was exported from; needs torch."""

from dataclasses import fields, make_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from decision_rnn.agent import ActingState, ConditionConfig, ObjectiveConfig
from decision_rnn.backbones import BackboneConfig
from decision_rnn.config import CHOICES, RunConfig, flatten, from_dict
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.deploy.runtime import Policy
from decision_rnn.evaluation.actor import EvaluatedPolicy
from decision_rnn.evaluation.metrics import METRICS
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.records import read_record


class PolicyActor:
    """Acts by an exported policy.

    In its state the condition is the target returns, (batch,), and the memory the policy's state. An actor can be
    pickled: every process creates its own session.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def initial_state(self, target: Tensor) -> ActingState:
        batch = len(target)
        memory = tuple(map(torch.from_numpy, self.policy.initial_state(batch)))
        action = torch.zeros(batch, self.policy.action_layout.size)
        return ActingState((target.float(),), action, torch.zeros(batch, dtype=torch.int64), memory)

    def act(self, observation: Tensor, reward: Tensor, state: ActingState) -> tuple[Tensor, ActingState, None]:
        timestep = state.timestep
        memory = [part.numpy() for part in state.memory]
        (target,) = state.condition
        played, after = self.policy.step(
            observation.numpy(), reward.numpy(), (timestep == 0).numpy(), target.numpy(), memory
        )
        action = torch.from_numpy(played)
        return action, ActingState((target,), action, timestep + 1, tuple(map(torch.from_numpy, after))), None


def load_policy(path: Path) -> EvaluatedPolicy:
    """Load an exported policy for evaluation in place of the run that it was exported from.

    The file contains what its layers compute: the plugins that define them need not be imported.

    Raises:
        InputError: If the file cannot be used.
    """
    policy = Policy.load(path)
    try:
        training = policy.metadata["training"]
        conditioned = policy.metadata["target_return"]["conditioned"]
        config = _saved_config(training["config"], str(path), conditioned)
        provenance = read_record(training["provenance"], DatasetSpec)
        numbers = training["step"], training["seconds"], training["parameters"], training["backbone_parameters"]
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"{path} does not say what its policy was trained on ({type(error).__name__}: {error}): export it again"
        ) from None
    # A policy can only carry its state and act greedily, however its agent was evaluated; known metrics measure it.
    metrics = tuple(name for name in config.evaluation.metrics if name in METRICS)
    settings = replace(config.evaluation, inference="recurrent", actions="greedy", metrics=metrics)
    config = replace(config, evaluation=settings)
    return EvaluatedPolicy(PolicyActor(policy), config, provenance, *numbers)


def _saved_config(saved: dict[str, Any], source: str, conditioned: bool) -> RunConfig:
    """The configuration of the run that a policy was exported from, and which takes target returns if `conditioned`; a
    section that a plugin defines which is not imported holds the values of the file, unchecked."""
    unknown: dict[str, Any] = {}
    known = {key: value for key, value in flatten(saved).items() if key != "plugins"}
    bases = {"backbone": BackboneConfig, "condition": ConditionConfig, "objective": ObjectiveConfig}
    for section, base in bases.items():
        if known.get(f"{section}.name", CHOICES[section][1]) not in CHOICES[section][0].entries:
            values = {key.partition(".")[2]: known.pop(key) for key in list(known) if key.startswith(f"{section}.")}
            own = [(key, Any) for key in values.keys() - {field.name for field in fields(base)}]
            kind: Any = make_dataclass(base.__name__, sorted(own), bases=(base,), frozen=True, kw_only=True)
            if section == "condition":
                kind.takes_target = conditioned
            unknown[section] = kind(**values)
    return replace(from_dict(known, source), plugins=tuple(saved.get("plugins", ())), **unknown)

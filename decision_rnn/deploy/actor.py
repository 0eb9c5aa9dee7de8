"""An exported policy as an Actor, evaluated by the same rollouts as the agent it was exported from; needs torch."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from decision_rnn.backbones import State
from decision_rnn.checkpoint import Provenance
from decision_rnn.config_parser import from_dict
from decision_rnn.deploy.runtime import Policy
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import Subject
from decision_rnn.plugins import check_plugins


class PolicyActor:
    """Acts by an exported policy; the state holds target returns, (batch,), and the policy's state.

    An actor can be pickled: every process creates its own session.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def initial_state(self, target_return: Tensor) -> State:
        return target_return.float(), *map(torch.from_numpy, self.policy.initial_state(len(target_return)))

    def act(self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: State) -> tuple[Tensor, State]:
        begins = torch.zeros(len(reward), dtype=torch.bool) if reset is None else reset
        target, *memory = (part.numpy() for part in state)
        actions, after = self.policy.step(observation.numpy(), reward.numpy(), begins.numpy(), target, memory)
        return torch.from_numpy(actions), (state[0], *map(torch.from_numpy, after))


def load_subject(path: Path) -> Subject:
    """Load an exported policy for evaluation in place of the run that it was exported from.

    Raises:
        InputError: If the file cannot be used, or needs plugins that are not imported.
    """
    policy = Policy.load(path)
    try:
        training = policy.metadata["training"]
        check_plugins(training["config"].get("plugins", ()), str(path))
        config = from_dict(training["config"], str(path))
        provenance = Provenance.from_dict(training["provenance"], config.partial)
        numbers = training["step"], training["seconds"], training["parameters"], training["backbone_parameters"]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} does not say what its policy was trained on ({type(error).__name__}: {error}): export it again"
        ) from None
    # A policy can only carry its state, however its agent was evaluated.
    config = replace(config, evaluation=replace(config.evaluation, state="carry"))
    return Subject(PolicyActor(policy), config, provenance, *numbers)

"""From spaces to networks: an encoder for each kind of observation entry and a head for each kind of action.

A new kind is a class here and a line in `encoder_of` or `head_of`.
"""

import gymnasium
import torch
from torch import Tensor, nn

from decision_rnn.agent.spec import AgentSpec
from decision_rnn.errors import InputError

MIN_STD = 1e-3
"""Smallest scale of an observation entry, so that entries constant in the data do not blow up small deviations."""


class BoxEncoder(nn.Module):
    """The entries of a flat Box that the agent sees, normalised: (..., entries) -> (..., features)."""

    index: Tensor | None
    mean: Tensor
    std: Tensor

    def __init__(self, spec: AgentSpec) -> None:
        super().__init__()
        self.features = len(spec.observation_mean)
        self.register_buffer("index", spec.observation_index)
        self.register_buffer("mean", spec.observation_mean.float())
        self.register_buffer("std", spec.observation_std.float().clamp_min(MIN_STD))

    def forward(self, observation: Tensor) -> Tensor:
        if self.index is not None:
            observation = observation.index_select(-1, self.index)
        return (observation - self.mean) / self.std


class TanhHead(nn.Linear):
    """Actions tanh(W h + b) of a flat Box within [-1, 1]: (..., width) -> (..., action_dim)."""

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.tanh(super().forward(hidden))


def encoder_of(spec: AgentSpec) -> BoxEncoder:
    """The encoder of the observation space; InputError if there is none for it."""
    flat_size(spec.observation_space, "observations")
    return BoxEncoder(spec)


def head_of(spec: AgentSpec) -> TanhHead:
    """The head of the action space; InputError if there is none for it."""
    return TanhHead(spec.width, flat_size(spec.action_space, "actions"))


def holds_actions(space: gymnasium.Space, actions: Tensor) -> bool:
    """Whether actions, (..., action_dim), are within the space, up to rounding."""
    assert isinstance(space, gymnasium.spaces.Box)  # the only space that `head_of` has a head for
    low, high = (torch.as_tensor(bound, device=actions.device) for bound in (space.low, space.high))
    return bool(((actions >= low - 1e-5) & (actions <= high + 1e-5)).all())


def flat_size(space: gymnasium.Space, kind: str) -> int:
    """The number of entries of a flat Box; InputError for another space, naming `kind`."""
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
        raise InputError(f"the {kind} are {space}: agents need a Box with one axis, so flatten them first")
    return space.shape[0]

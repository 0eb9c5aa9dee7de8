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


class BoxScale(nn.Module):
    """Actions within [-1, 1], as heads and losses have them, as actions within a bounded flat Box, and back."""

    low: Tensor
    high: Tensor
    center: Tensor
    radius: Tensor

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        super().__init__()
        low, high = (torch.from_numpy(bound.astype("float32")) for bound in (space.low, space.high))
        if not (low < high).all() or not (high - low).isfinite().all():
            raise InputError(f"the actions are {space}: every entry needs a lower and a higher bound")
        # Not stored with the weights: a checkpoint's description has the space.
        self.register_buffer("low", low, persistent=False)
        self.register_buffer("high", high, persistent=False)
        self.register_buffer("center", low / 2 + high / 2, persistent=False)
        self.register_buffer("radius", high / 2 - low / 2, persistent=False)

    def forward(self, action: Tensor) -> Tensor:
        """From [-1, 1] to the box; what is outside is clipped to it."""
        return (action * self.radius + self.center).clamp(self.low, self.high)

    def normalise(self, action: Tensor) -> Tensor:
        """From the box to [-1, 1]; what is outside is clipped to it, as environments do."""
        return ((action - self.center) / self.radius).clamp(-1, 1)


class TanhHead(nn.Linear):
    """Actions tanh(W h + b) of a flat Box within [-1, 1]: (..., width) -> (..., action_dim)."""

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.tanh(super().forward(hidden))


def encoder_of(spec: AgentSpec) -> BoxEncoder:
    """The encoder of the observation space; InputError if there is none for it."""
    flat_box(spec.observation_space, "observations")
    return BoxEncoder(spec)


def head_of(spec: AgentSpec) -> TanhHead:
    """The head of the action space; InputError if there is none for it."""
    return TanhHead(spec.width, flat_box(spec.action_space, "actions").shape[0])


def flat_box(space: gymnasium.Space, kind: str) -> gymnasium.spaces.Box:
    """The space, if it is a flat Box; InputError for another space, naming `kind`."""
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
        raise InputError(f"the {kind} are {space}: agents need a Box with one axis, so flatten them first")
    return space

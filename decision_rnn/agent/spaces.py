"""The task of an agent: its spaces and statistics of its data, the encoder of observations, the scale of actions.

Observations and actions are flat rows of numbers, as `data.layouts.Layout` lays them out.
"""

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from decision_rnn.data.layouts import Layout
from decision_rnn.utils.errors import InputError, one_line

MIN_STD = 1e-3
"""Smallest scale of an observation entry, so that entries constant in the data do not magnify small deviations."""


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """The task and the data of an agent, from which encoders, conditions and objectives are built.

    Attributes:
        observation_space: Of the environment's whole observations.
        action_space: Of the actions. For the agent it is the environment's; for its objective, a Box is scaled to
            [-1, 1].
        observation_mean: (entries,), the mean of each observation entry that the agent reads.
        observation_std: (entries,), their standard deviations.
        observation_index: (entries,) int64, the indices of the entries that the agent reads; None for all.
        return_scale: The divisor of the condition's values.
        rtg_limit: (timesteps,), the largest return-to-go of the acting agent at each timestep, with the last value for
            all later timesteps; of length 1 if it does not depend on the timestep. None for no limit.
        training_rtg_limit: (timesteps,), the same for returns-to-go in training. It is not stored with the agent.
        width: Channels of the hidden states that an objective reads; set by the agent.
    """

    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    observation_mean: Tensor
    observation_std: Tensor
    observation_index: Tensor | None = None
    return_scale: float = 1.0
    rtg_limit: Tensor | None = None
    training_rtg_limit: Tensor | None = None
    width: int = 0


def unit_box(size: int) -> gymnasium.spaces.Box:
    """The box of vectors with all entries within [-1, 1]."""
    return gymnasium.spaces.Box(-1.0, 1.0, (size,), np.float32)


def agent_spec(
    mean: Tensor,
    std: Tensor,
    actions: int | gymnasium.Space,
    observations: gymnasium.Space | None = None,
    **options: Any,
) -> AgentSpec:
    """The spec of a task.

    Args:
        mean, std: (entries,), statistics of the observation entries that the agent reads.
        actions: The action space, or the number of its components within [-1, 1].
        observations: The observation space, if it is not a vector or the agent reads all of it.
        options: Further fields of `AgentSpec`.
    """
    index = options.get("observation_index")
    if observations is None or index is not None:
        size = len(mean) if index is None else int(index.max()) + 1
        observations = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
    return AgentSpec(
        observation_space=observations,
        action_space=unit_box(actions) if isinstance(actions, int) else actions,
        observation_mean=mean,
        observation_std=std,
        **options,
    )


class Encoder(nn.Module):
    """Selects and normalises the observation entries that the agent reads: (..., entries) -> (..., features)."""

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
    """Maps actions from [-1, 1] to a bounded Box and back. An entry whose bounds are equal is constant in the Box and
    0 in [-1, 1].

    Raises:
        InputError: If a bound is not finite.
    """

    low: Tensor
    high: Tensor
    center: Tensor
    radius: Tensor

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        super().__init__()
        low, high = (torch.from_numpy(bound.astype("float32").ravel()) for bound in (space.low, space.high))
        if not (high - low).isfinite().all():
            raise InputError(f"the actions are {one_line(space)}, but agents need finite bounds")
        # Not stored with the weights: the description of a checkpoint has the space.
        self.register_buffer("low", low, persistent=False)
        self.register_buffer("high", high, persistent=False)
        self.register_buffer("center", low / 2 + high / 2, persistent=False)
        self.register_buffer("radius", torch.where(low < high, high / 2 - low / 2, 1.0), persistent=False)

    def forward(self, action: Tensor) -> Tensor:
        """From [-1, 1] to the Box, clipped to it."""
        return (action * self.radius + self.center).clamp(self.low, self.high)

    def normalise(self, action: Tensor) -> Tensor:
        """From the Box to [-1, 1], clipped to it, as environments clip."""
        return ((action - self.center) / self.radius).clamp(-1, 1)


class OneHotScale(nn.Module):
    """Passes one-hot vectors of discrete actions through."""

    radius: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("radius", torch.ones(size), persistent=False)

    def forward(self, action: Tensor) -> Tensor:
        return action

    def normalise(self, action: Tensor) -> Tensor:
        return action


def action_scale(space: gymnasium.Space) -> BoxScale | OneHotScale:
    """The scale of an action space; InputError for a space in which agents cannot act."""
    size = Layout.of_actions(space).size
    return BoxScale(space) if isinstance(space, gymnasium.spaces.Box) else OneHotScale(size)

"""Specs of agents that read vectors."""

from typing import Any

import gymnasium
import numpy as np
from torch import Tensor

from decision_rnn.agent import AgentSpec
from decision_rnn.agent.spaces import unit_box


def agent_spec(
    mean: Tensor, std: Tensor, actions: int | gymnasium.Space, observation_dim: int | None = None, **options: Any
) -> AgentSpec:
    """A spec with `actions` as the action space, or as the number of entries within [-1, 1]; observations have
    `observation_dim` entries, or as many as the mean."""
    return AgentSpec(
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (observation_dim or len(mean),), np.float32),
        action_space=unit_box(actions) if isinstance(actions, int) else actions,
        observation_mean=mean,
        observation_std=std,
        **options,
    )

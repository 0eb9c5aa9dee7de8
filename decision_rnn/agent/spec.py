"""What the parts of an agent are built for: the spaces of its task and statistics of its data."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """The task and the data of an agent, from which encoders, conditions and objectives are made.

    Attributes:
        observation_space: Of the environment's whole observations.
        action_space: Of the actions: the environment's for an agent; for its objective, a Box within [-1, 1] in place
            of a Box.
        observation_mean: (entries seen,), the mean of each observation entry that the agent sees.
        observation_std: (entries seen,), their standard deviations.
        observation_index: (entries seen,) int64, the indices of the entries that the agent sees; None for all.
        return_scale: The divisor of returns-to-go.
        rtg_cap: (timesteps,), the largest return-to-go that the acting agent sees at each timestep, with the last value
            for all later timesteps; of length 1 if it is the same at all of them. None for no cap.
        training_rtg_cap: (timesteps,), the same for what training shows. It is not stored with the agent.
        width: Channels of the hidden states that an objective reads; set by the agent.
    """

    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    observation_mean: Tensor
    observation_std: Tensor
    observation_index: Tensor | None = None
    return_scale: float = 1.0
    rtg_cap: Tensor | None = None
    training_rtg_cap: Tensor | None = None
    width: int = 0


def unit_box(size: int) -> gymnasium.spaces.Box:
    """The box of vectors with all entries within [-1, 1]."""
    return gymnasium.spaces.Box(-1.0, 1.0, (size,), np.float32)


def agent_spec(
    mean: Tensor,
    std: Tensor,
    actions: int | gymnasium.Space,
    observations: gymnasium.Space | None = None,
    **others: Any,
) -> AgentSpec:
    """The spec of a task.

    Args:
        mean, std: (entries seen,), statistics of the observation entries that the agent sees.
        actions: The action space, or the number of its components within [-1, 1].
        observations: The observation space, if it is not a vector or the agent sees all of it.
        others: Further fields of `AgentSpec`.
    """
    index = others.get("observation_index")
    if observations is None or index is not None:
        size = len(mean) if index is None else int(index.max()) + 1
        observations = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
    return AgentSpec(
        observation_space=observations,
        action_space=unit_box(actions) if isinstance(actions, int) else actions,
        observation_mean=mean,
        observation_std=std,
        **others,
    )

"""The task of an agent: its spaces and statistics of its data."""

from dataclasses import dataclass

import gymnasium
import numpy as np
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """The task and the data of an agent, from which encoders, conditions and objectives are built.

    Attributes:
        observation_space: The space of the whole observations.
        action_space: The space of the actions: for the agent the environment's; for its objective, a Box is scaled to
            [-1, 1].
        observation_mean: (entries,), the mean of each observation entry that the agent reads.
        observation_std: (entries,), their standard deviations.
        observation_index: (entries,) int64, the indices of the entries that the agent reads; None for all.
        return_scale: The divisor of the condition's values.
        rtg_limit: (timesteps,), the largest return-to-go of the acting agent at each timestep, with the last value for
            all later timesteps; of length 1 if it does not depend on the timestep. None for no limit.
        training_rtg_limit: (timesteps,), the same for returns-to-go in training. It is not stored with the agent.
        action_changes: (2, action_dim), the smallest and the largest change of actions from one step to the next; None
            without `agent.delta_actions`.
        goal_changes: (goal entries,), the root mean square of the changes of achieved goals over
            `condition.subgoal_steps` steps; None without subgoals.
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
    action_changes: Tensor | None = None
    goal_changes: Tensor | None = None
    width: int = 0


def unit_box(size: int) -> gymnasium.spaces.Box:
    """The box of vectors with all entries within [-1, 1]."""
    return gymnasium.spaces.Box(-1.0, 1.0, (size,), np.float32)

"""The time to a goal, for goals relabelled in hindsight."""

from collections.abc import Mapping
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from decision_rnn.agent.conditions.base import Condition, ConditionConfig, register_condition
from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.backbones import State
from decision_rnn.backbones.contract import without_autocast
from decision_rnn.data.stream import Batch
from decision_rnn.utils.parsing import config_dataclass

TIME_LEVELS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""The learnt quantile levels of the time to a goal; between them it is interpolated."""
TIMESTEP_SCALE = 1000
"""The divisor of timesteps as inputs of a network."""


@config_dataclass
class TimeToGoalConfig(ConditionConfig):
    """The time to the goal, for goals relabelled in hindsight.

    Attributes:
        time_quantile: Limit of the acting agent's time to the goal: the agent is given at most this quantile of the
            time in the data, predicted from its history and learnt with it. From 0.005 to 0.5.
    """

    needs_adaln = True
    reads_reward = False
    acting = (*ConditionConfig.acting, "time_quantile")
    name: str = "time_to_goal"
    time_quantile: Annotated[float, Field(ge=TIME_LEVELS[-1], le=TIME_LEVELS[0])] = 0.01

    @property
    def limited(self) -> bool:
        return True


@register_condition(TimeToGoalConfig)
class TimeToGoal(Condition):
    """Minus the number of steps to the goal, so that more is better, as for returns. It is its state, (batch,).

    The acting agent's value is at most the predicted `time_quantile` of the time to the goal, as an upper expectile of
    the return in Zhuang et al., "Reinformer" (2024). The quantiles, of all `TIME_LEVELS`, are learnt by quantile
    regression (Koenker & Bassett 1978) from hidden states that do not depend on the value.
    """

    size = 1
    scale: Tensor
    levels: Tensor

    def __init__(self, config: TimeToGoalConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.time_quantile, width = config.time_quantile, spec.width
        self.register_buffer("scale", torch.tensor(float(spec.return_scale)))
        # Of the value, which is minus the time; rounded, since 1 - 0.3 is not 0.7.
        levels = torch.tensor([round(1 - level, 6) for level in TIME_LEVELS])
        self.register_buffer("levels", levels, persistent=False)
        self.network = nn.Sequential(
            nn.Linear(width + 2, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, len(TIME_LEVELS)),
        )

    def from_batch(self, batch: Batch) -> Tensor:
        return batch.return_to_go

    def step(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        value = torch.where(first, state[0], state[0] + 1)
        return value.unsqueeze(-1), (value,)

    def quantiles(self, hidden: Tensor, timestep: Tensor) -> Tensor:
        """The value's quantiles of all levels, rising, (..., levels), in units of the scale.

        Args:
            hidden: (..., width).
            timestep: (...), steps since the episode's start.
        """
        time = timestep.unsqueeze(-1).to(hidden.dtype)
        clock = torch.cat([time / TIMESTEP_SCALE, torch.log1p(time) / 7], dim=-1)
        output = self.network(torch.cat([hidden, clock], dim=-1))
        return torch.cat([output[..., :1], F.softplus(output[..., 1:])], dim=-1).cumsum(-1)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
        with without_autocast(hidden):
            error = batch.return_to_go / self.scale - self.quantiles(hidden.float(), batch.timestep)
        loss = torch.maximum(self.levels * error, (self.levels - 1) * error).mean()
        return loss, {"quantile_loss": loss}

    def limit(self, value: Tensor, timestep: Tensor, hidden: Tensor | None, observation: Tensor) -> Tensor:
        assert hidden is not None
        above = next(i for i in range(1, len(TIME_LEVELS)) if self.time_quantile >= TIME_LEVELS[i])
        share = (TIME_LEVELS[above - 1] - self.time_quantile) / (TIME_LEVELS[above - 1] - TIME_LEVELS[above])
        lower, upper = self.quantiles(hidden, timestep)[..., above - 1 : above + 1].split(1, dim=-1)
        return torch.minimum(value, self.scale * (lower + share * (upper - lower)))

    def normalise(self, value: Tensor) -> Tensor:
        return value / self.scale

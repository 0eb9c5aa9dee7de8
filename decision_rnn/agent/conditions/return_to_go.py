"""The return-to-go, as in the Decision Transformer."""

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from decision_rnn.agent.conditions.base import Condition, ConditionConfig, register_condition
from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.backbones import State
from decision_rnn.data.stream import Batch
from decision_rnn.utils.parsing import config_dataclass


@config_dataclass
class ReturnToGoConfig(ConditionConfig):
    """The return-to-go, the undiscounted sum of rewards from this step on, as in the Decision Transformer.

    Attributes:
        rtg_quantile: Limit of the acting agent's return-to-go, as a quantile of the data's returns-to-go over episodes
            weighted by their returns: at 0.8, a fifth of the return in the data was earned in episodes above it. 1 is
            the largest, 0 no limit. In training the limit is a little higher: see `return_to_go_limits`.
    """

    name: str = "return_to_go"
    rtg_quantile: Annotated[float, Field(ge=0, le=1)] = 0.8

    @property
    def limited(self) -> bool:
        return self.rtg_quantile > 0


@register_condition(ReturnToGoConfig)
class ReturnToGo(Condition):
    """The target return less the rewards so far, which is also its state, (batch,)."""

    size = 1
    scale: Tensor
    acting_limit: Tensor | None
    training_limit: Tensor | None

    def __init__(self, config: ReturnToGoConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(float(spec.return_scale)))
        self.register_buffer("acting_limit", None if spec.rtg_limit is None else spec.rtg_limit.float())
        training_limit = None if spec.training_rtg_limit is None else spec.training_rtg_limit.float()
        self.register_buffer("training_limit", training_limit, persistent=False)

    def from_batch(self, batch: Batch) -> Tensor:
        return _clip_at_timestep(batch.return_to_go, self.training_limit, batch.timestep)

    def step(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        return_to_go = state[0] - reward.masked_fill(first, 0)
        return return_to_go.unsqueeze(-1), (return_to_go,)

    def limit(self, value: Tensor, timestep: Tensor, hidden: Tensor | None, observation: Tensor) -> Tensor:
        return _clip_at_timestep(value, self.acting_limit, timestep)

    def normalise(self, value: Tensor) -> Tensor:
        return value / self.scale


def _clip_at_timestep(value: Tensor, limit: Tensor | None, timestep: Tensor) -> Tensor:
    """Values (..., 1), at most the limit (timesteps,) at their timestep (...)."""
    if limit is None:
        return value
    if len(limit) == 1:
        return torch.minimum(value, limit)
    return torch.minimum(value, F.embedding(timestep.clamp_max(len(limit) - 1), limit[:, None]))

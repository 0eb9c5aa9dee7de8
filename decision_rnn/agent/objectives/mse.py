"""Squared error of actions in a Box, cross-entropy of discrete actions."""

import gymnasium
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.objectives.base import Metrics, Objective, ObjectiveConfig, register_objective
from decision_rnn.agent.objectives.cross_entropy import CrossEntropy
from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.data.stream import Batch
from decision_rnn.environments.layouts import Layout
from decision_rnn.utils.parsing import config_dataclass


class MSE(Objective):
    """Mean squared error of actions tanh(W h + b) in a Box, guided as the means of equally wide Gaussians."""

    guides = True

    def __init__(self, spec: AgentSpec) -> None:
        super().__init__()
        self.head = nn.Linear(spec.width, Layout.of_space(spec.action_space, "actions").size)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        return F.mse_loss(self.action(hidden), batch.action), {}

    def action(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.head(hidden))

    def guided(self, hidden: Tensor, unconditional: Tensor, weight: float, sample: bool = False) -> Tensor:
        mean = self.action(unconditional)
        return (mean + weight * (self.action(hidden) - mean)).clamp(-1, 1)


@config_dataclass
class MSEConfig(ObjectiveConfig):
    """Squared error of actions in a Box, cross-entropy of discrete actions."""

    name: str = "mse"


@register_objective(MSEConfig)
def mse(config: MSEConfig, spec: AgentSpec) -> Objective:
    """`MSE` in a Box, `CrossEntropy` for discrete actions, as in Chen et al., "Decision Transformer" (2021)."""
    return MSE(spec) if isinstance(spec.action_space, gymnasium.spaces.Box) else CrossEntropy(spec)

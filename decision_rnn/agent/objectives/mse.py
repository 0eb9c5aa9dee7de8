"""Squared error of actions in a Box, cross-entropy of discrete actions."""

from collections.abc import Sequence

import gymnasium
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.objectives.base import Metrics, Objective, ObjectiveConfig, register_objective
from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.data.stream import Batch
from decision_rnn.environments.layouts import Layout
from decision_rnn.utils.parsing import config_dataclass


class MSE(Objective):
    """Mean squared error of actions tanh(W h + b) in a Box, guided as the means of equally wide Gaussians."""

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


class CrossEntropy(Objective):
    """Cross-entropy of discrete actions, also for `gmm`, with logits W h + b, summed over the entries of an action.

    Metrics: `accuracy`, the share of actions of which every entry is the most probable choice.
    """

    def __init__(self, spec: AgentSpec) -> None:
        super().__init__()
        layout = Layout.of_space(spec.action_space, "actions")
        self.choices: Sequence[int] = layout.parts[0].choices
        self.head = nn.Linear(spec.width, layout.size)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        entries = zip(self._logits(hidden), batch.action.split(self.choices, dim=-1), strict=True)
        losses, hits = [], []
        for logits, action in entries:
            losses.append(-(action * logits.log_softmax(-1)).sum(-1).mean())
            hits.append(logits.argmax(-1) == action.argmax(-1))
        return torch.stack(losses).sum(), {"accuracy": torch.stack(hits).all(0).float().mean()}

    def action(self, hidden: Tensor) -> Tensor:
        return torch.cat([one_hot_argmax(logits) for logits in self._logits(hidden)], dim=-1)

    def sample(self, hidden: Tensor) -> Tensor:
        return torch.cat([one_hot_argmax(add_gumbel_noise(logits)) for logits in self._logits(hidden)], dim=-1)

    def guided(self, hidden: Tensor, unconditional: Tensor, weight: float, sample: bool = False) -> Tensor:
        # Logits are affine in the hidden state, so interpolating hidden states interpolates logits.
        hidden = unconditional + weight * (hidden - unconditional)
        return self.sample(hidden) if sample else self.action(hidden)

    def _logits(self, hidden: Tensor) -> tuple[Tensor, ...]:
        return self.head(hidden).split(self.choices, dim=-1)


def one_hot_argmax(logits: Tensor) -> Tensor:
    """One-hot vectors of the largest logits, of their shape (..., choices) and dtype."""
    # Comparing indices, unlike F.one_hot and Tensor.gather, exports to ONNX for any batch size.
    return (logits.argmax(-1, keepdim=True) == torch.arange(logits.shape[-1], device=logits.device)).to(logits.dtype)


def add_gumbel_noise(logits: Tensor) -> Tensor:
    """Logits whose argmax is distributed as softmax(logits)."""
    return logits - torch.empty_like(logits).exponential_().log()


@config_dataclass
class MSEConfig(ObjectiveConfig):
    """Squared error of actions in a Box, cross-entropy of discrete actions."""

    name: str = "mse"


@register_objective(MSEConfig)
def mse(config: MSEConfig, spec: AgentSpec) -> Objective:
    """`MSE` in a Box, `CrossEntropy` for discrete actions, as in Chen et al., "Decision Transformer" (2021)."""
    return MSE(spec) if isinstance(spec.action_space, gymnasium.spaces.Box) else CrossEntropy(spec)

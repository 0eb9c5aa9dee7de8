"""Beyond cloning: an objective with a critic, for data whose good parts are to be stitched together."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from decision_rnn.agent.config import TD3BCConfig, register_objective
from decision_rnn.agent.objectives import Metrics, Objective
from decision_rnn.agent.spaces import Encoder, TanhHead, box_of
from decision_rnn.agent.spec import AgentSpec
from decision_rnn.data.stream import Batch

CRITICS = 2
TARGET_RATE = 0.005
"""The share of the critics' weights that their target networks take over after each step."""


class TwinCritic(nn.Module):
    """Two estimates of the discounted return after an action: (..., entries seen) and (..., action_dim) -> (2, ...).

    They see the observation, not the agent's hidden state, which knows what return was asked for, and so in the data
    how the episode ends.
    """

    def __init__(self, spec: AgentSpec, actions: int, width: int) -> None:
        super().__init__()
        self.encoder = Encoder(spec)
        inputs = self.encoder.features + actions
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
            for _ in range(CRITICS)
        )

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        seen = torch.cat([self.encoder(observation), action], dim=-1)
        return torch.stack([network(seen).squeeze(-1) for network in self.networks])


@register_objective(TD3BCConfig)
class TD3BC(Objective):
    """The squared error of the data's actions, less the value that a critic gives to the agent's own: TD3+BC (Fujimoto
    & Gu, "A Minimalist Approach to Offline Reinforcement Learning", 2021) with the n-step targets of QT (Hu et al.,
    "Q-value Regularized Transformer for Offline Reinforcement Learning", 2024).

    With actions a_t of the data and p_t of the agent, which is asked for what the data's episode returns, the loss is
    mean((p_t - a_t)^2) - value_weight * mean(Q_1(s_t, p_t)) / mean(|Q_1(s_t, p_t)|). The critics Q_1 and Q_2 learn the
    rewards up to the end of the slice, and from there the smaller value of their target networks.
    """

    def __init__(self, config: TD3BCConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.value_weight, self.discount, self.scale = config.value_weight, config.discount, spec.return_scale
        actions = box_of(spec, config.name).shape[0]
        self.head = TanhHead(spec.width, actions)
        self.critic = TwinCritic(spec, actions, config.width)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.critic.parameters(), config.learning_rate)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        action = self.head(hidden[..., -1, :])
        cloning = F.mse_loss(action, batch.action)
        with torch.no_grad():
            value = self.target(batch.observation, action).amin(0)
        targets, known = n_step_returns(batch, batch.reward / self.scale, value, self.discount)
        error = (self.critic(batch.observation, batch.action) - targets).square()
        critic_loss = (error * known).sum() / (CRITICS * known.sum()).clamp_min(1)
        fixed = {name: weight.detach() for name, weight in self.critic.named_parameters()}
        # The agent's actions are to follow the critic, not the reverse.
        preferred = functional_call(self.critic, fixed, (batch.observation, action))[0]
        size = preferred.detach().abs().mean().clamp_min(1e-6)
        loss = cloning + critic_loss - self.value_weight * preferred.mean() / size
        return loss, {"cloning_loss": cloning, "critic_loss": critic_loss, "value": self.scale * preferred.mean()}

    def action(self, hidden: Tensor) -> Tensor:
        return self.head(hidden[..., -1, :])

    def separate_parameters(self) -> Iterable[nn.Parameter]:
        return [*self.critic.parameters(), *self.target.parameters()]

    def after_step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for target, weight in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                target.lerp_(weight, TARGET_RATE)

    def training_state(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict()}

    def load_training_state(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])


def n_step_returns(batch: Batch, reward: Tensor, value: Tensor, discount: float) -> tuple[Tensor, Tensor]:
    """The discounted return after every step of slices: the rewards up to the last step that the slice has of the
    episode, and the value there, unless the episode ends in it.

    Args:
        batch: The slices.
        reward: (batch, time).
        value: (batch, time), the value of the state at every step.
        discount: The discount.

    Returns:
        The returns, (batch, time), and whether they hold more than the step's own value, (batch, time) bool: not at the
        last step of a slice or of a truncated episode, whose next state is not in the slice.
    """
    known = batch.terminated.clone()
    known[:, :-1] |= batch.timestep[:, 1:] > 0  # the next step is the episode's, too
    found, ahead = [], value[:, -1]
    for t in reversed(range(reward.shape[1])):
        ahead = torch.where(batch.terminated[:, t], 0.0, discount * ahead) + reward[:, t]
        ahead = torch.where(known[:, t], ahead, value[:, t])
        found.append(ahead)
    return torch.stack(found[::-1], dim=1), known

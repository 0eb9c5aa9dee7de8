"""Mixtures of normal distributions, for multimodal actions."""

from typing import Annotated

import gymnasium
import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.agent.objectives.base import Metrics, Objective, ObjectiveConfig, register_objective
from decision_rnn.agent.objectives.cross_entropy import CrossEntropy, add_gumbel_noise, one_hot_argmax
from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.data.stream import Batch
from decision_rnn.environments.layouts import Layout
from decision_rnn.utils.parsing import STRICT, PositiveInt


@dataclass(frozen=True, kw_only=True, config=STRICT)
class GMMConfig(ObjectiveConfig):
    """Likelihood of actions under a mixture of Gaussians in a Box, cross-entropy of discrete actions.

    Attributes:
        num_components: The number of Gaussians.
        min_std: Smallest standard deviation of a Gaussian, in units of half the action's range.
    """

    name: str = "gmm"
    num_components: PositiveInt = 5
    min_std: Annotated[float, Field(gt=0)] = 0.1


class GMM(Objective):
    """Mixture-of-Gaussians head for multimodal actions in a Box, trained by the negative log-likelihood.

    Components have means tanh(W h + b) and independent entries with standard deviations softplus(W h + b) + `min_std`:
    without the latter, the likelihood of actions at the bounds, which are exactly equal, would have no maximum. It is
    the head of robomimic's BC-RNN-GMM (Mandlekar et al., "What Matters in Learning from Offline Human Demonstrations
    for Robot Manipulation", 2021), acting as in its low-noise evaluation: the agent takes the mean of the most probable
    component, sampled actions are the mean of a component drawn by its probability.

    Metrics: `squared_error`, of the most probable component's mean.
    """

    samples = True

    def __init__(self, config: GMMConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.min_std = config.min_std
        self.shape = config.num_components, Layout.of_space(spec.action_space, "actions").size
        self.head = nn.Linear(spec.width, config.num_components * (1 + 2 * self.shape[1]))

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        logits, means, scales = self._mixture(hidden)
        # Validation of the arguments would synchronise with the device.
        components = torch.distributions.Normal(means, F.softplus(scales) + self.min_std, validate_args=False)
        log_likelihoods = components.log_prob(batch.action.unsqueeze(-2)).sum(-1)
        loss = -(logits.log_softmax(-1) + log_likelihoods).logsumexp(-1).mean()
        return loss, {"squared_error": F.mse_loss(_select_mean(logits, means), batch.action)}

    def action(self, hidden: Tensor) -> Tensor:
        logits, means, _ = self._mixture(hidden)
        return _select_mean(logits, means)

    def sample(self, hidden: Tensor) -> Tensor:
        logits, means, _ = self._mixture(hidden)
        return _select_mean(add_gumbel_noise(logits), means)

    def _mixture(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (..., components), means and scales before the softplus, each (..., components, action_dim)."""
        components, size = self.shape
        logits, means, scales = self.head(hidden).split([components, components * size, components * size], dim=-1)
        return logits, torch.tanh(means).unflatten(-1, self.shape), scales.unflatten(-1, self.shape)


def _select_mean(logits: Tensor, means: Tensor) -> Tensor:
    """The mean, (..., action_dim), of the component with the largest logit."""
    return (means * one_hot_argmax(logits).unsqueeze(-1)).sum(-2)


@register_objective(GMMConfig)
def gmm(config: GMMConfig, spec: AgentSpec) -> Objective:
    """`GMM` in a Box, `CrossEntropy` for discrete actions, which it represents without a mixture."""
    return GMM(config, spec) if isinstance(spec.action_space, gymnasium.spaces.Box) else CrossEntropy(spec)

"""Mixtures of normal distributions, for multimodal actions."""

from typing import Annotated

import gymnasium
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from decision_rnn.agent.objectives.base import Metrics, Objective, ObjectiveConfig, register_objective
from decision_rnn.agent.objectives.mse import CrossEntropy, add_gumbel_noise, one_hot_argmax
from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.data.stream import Batch
from decision_rnn.environments.layouts import Layout
from decision_rnn.utils.parsing import PositiveInt, config_dataclass

Mixture = tuple[Tensor, Tensor, Tensor]
"""Logits (..., components), means and scales before the softplus, each (..., components, action_dim)."""


@config_dataclass
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
    for Robot Manipulation", 2021). The agent takes the mean of the most probable component. A sampled action is the
    mean of a component drawn by its probability, as in robomimic's low-noise evaluation but for its noise of 1e-4.

    Guidance with weight w chooses among the components of p(a | condition), whose probabilities are multiplied by
    (p(a | condition) / p(a))^(w - 1) at their means; below 1, among those of p(a), with the exponent w. Components with
    less than half the mean probability, 0.5 / `num_components`, are left out unless the exponent is 0:
    little or no data supports them, so the ratio at their means is meaningless.

    Metrics: `squared_error`, of the most probable component's mean.
    """

    def __init__(self, config: GMMConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.min_std = config.min_std
        self.shape = config.num_components, Layout.of_space(spec.action_space, "actions").size
        self.head = nn.Linear(spec.width, config.num_components * (1 + 2 * self.shape[1]))

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        mixture = self._mixture(hidden)
        loss = -self.log_likelihood(mixture, batch.action).mean()
        return loss, {"squared_error": F.mse_loss(_select_mean(*mixture[:2]), batch.action)}

    def log_likelihood(self, mixture: Mixture, action: Tensor) -> Tensor:
        """(...), of actions (..., action_dim)."""
        logits, means, scales = mixture
        # Validation of the arguments would synchronise with the device.
        components = torch.distributions.Normal(means, F.softplus(scales) + self.min_std, validate_args=False)
        log_likelihoods = components.log_prob(action.unsqueeze(-2)).sum(-1)
        return (logits.log_softmax(-1) + log_likelihoods).logsumexp(-1)

    def action(self, hidden: Tensor) -> Tensor:
        logits, means, _ = self._mixture(hidden)
        return _select_mean(logits, means)

    def sample(self, hidden: Tensor) -> Tensor:
        logits, means, _ = self._mixture(hidden)
        return _select_mean(add_gumbel_noise(logits), means)

    def guided(self, hidden: Tensor, unconditional: Tensor, weight: float, sample: bool = False) -> Tensor:
        conditional, prior = self._mixture(hidden), self._mixture(unconditional)
        (logits, means, _), exponent = (conditional, weight - 1) if weight >= 1 else (prior, weight)
        candidates = means.movedim(-2, 0)
        ratio = self.log_likelihood(conditional, candidates) - self.log_likelihood(prior, candidates)
        if exponent:
            rare = logits.softmax(-1) < 0.5 / self.shape[0]
            logits = (logits + exponent * ratio.movedim(0, -1)).masked_fill(rare, -torch.inf)
        return _select_mean(add_gumbel_noise(logits) if sample else logits, means)

    def _mixture(self, hidden: Tensor) -> Mixture:
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

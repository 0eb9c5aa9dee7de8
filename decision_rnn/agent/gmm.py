"""An objective for data that go several ways: where a mean of actions is none of them, such as in demonstrations."""

import gymnasium
import torch
import torch.nn.functional as F
from torch import Tensor

from decision_rnn.agent.config import GMMConfig, register_objective
from decision_rnn.agent.objectives import MSE
from decision_rnn.agent.spaces import Head, is_largest, with_gumbel_noise
from decision_rnn.agent.spec import AgentSpec


class MixtureHead(Head):
    """Actions of a Box within [-1, 1] with the probabilities of a mixture of Gaussians with independent entries:
    (..., width) -> (..., action_dim).

    Means are tanh(W h + b), standard deviations softplus(W h + b) + `min_std`. Without the latter, actions at the
    bounds of the box, which are exactly equal, would be worth more and more the narrower a mode is.
    """

    samples = True

    def __init__(self, width: int, actions: int, modes: int, min_std: float) -> None:
        super().__init__(width, modes * (1 + 2 * actions))
        self.actions, self.modes, self.min_std = actions, modes, min_std

    def _mixture(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (..., modes), and means and scales before the softplus (..., modes, action_dim)."""
        sizes = [self.modes, *2 * [self.modes * self.actions]]
        logits, means, scales = super().forward(hidden).split(sizes, dim=-1)
        shape = self.modes, self.actions
        return logits, torch.tanh(means).unflatten(-1, shape), scales.unflatten(-1, shape)

    def forward(self, hidden: Tensor) -> Tensor:
        """The means of the most probable modes."""
        return _mean_of_largest(*self._mixture(hidden)[:2])

    def sample(self, hidden: Tensor) -> Tensor:
        """The means of modes that are drawn with their probabilities."""
        logits, means, _ = self._mixture(hidden)
        return _mean_of_largest(with_gumbel_noise(logits), means)

    def loss(self, hidden: Tensor, action: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The negative log-likelihood of the actions, and the squared error of the most probable modes' means."""
        logits, means, scales = self._mixture(hidden)
        # Validation would wait for the device.
        modes = torch.distributions.Normal(means, F.softplus(scales) + self.min_std, validate_args=False)
        likelihoods = modes.log_prob(action.unsqueeze(-2)).sum(-1)
        loss = -(logits.log_softmax(-1) + likelihoods).logsumexp(-1).mean()
        return loss, {"squared_error": F.mse_loss(_mean_of_largest(logits, means), action)}


@register_objective(GMMConfig)
class GMM(MSE):
    """The negative log-likelihood of actions in a Box under a mixture of Gaussians: the head of robomimic's BC-RNN-GMM
    (Mandlekar et al., "What Matters in Learning from Offline Human Demonstrations for Robot Manipulation", 2021).
    Discrete actions, whose probabilities are learned without it, have the cross-entropy of `MSE`.

    The agent takes the mean of the most probable mode; sampled actions are the mean of a mode drawn with its
    probability, without the mode's own noise, as in robomimic's low-noise evaluation.
    """

    def __init__(self, config: GMMConfig, spec: AgentSpec) -> None:
        space, head = spec.action_space, None
        if isinstance(space, gymnasium.spaces.Box):
            head = MixtureHead(spec.width, space.shape[0], config.num_components, config.min_std)
        super().__init__(config, spec, head)


def _mean_of_largest(logits: Tensor, means: Tensor) -> Tensor:
    """The mean, (..., action_dim), of the mode with the largest logit."""
    return (means * is_largest(logits).unsqueeze(-1)).sum(-2)

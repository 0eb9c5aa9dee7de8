"""An objective for data that go several ways: where a mean of actions is none of them, such as in demonstrations."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.config import GaussianMixtureConfig, register_objective
from decision_rnn.agent.objectives import Metrics, Objective
from decision_rnn.agent.spaces import box_of
from decision_rnn.agent.spec import AgentSpec
from decision_rnn.data.stream import Batch


@register_objective(GaussianMixtureConfig)
class GaussianMixture(Objective):
    """The negative log-likelihood of actions in a Box under a mixture of Gaussians with independent entries: the head
    of robomimic's BC-RNN-GMM (Mandlekar et al., "What Matters in Learning from Offline Human Demonstrations for Robot
    Manipulation", 2021).

    Means are tanh(W h + b), standard deviations softplus(W h + b) + `config.min_std`. Without the latter, actions at
    the bounds of the box, which are exactly equal, would be worth more and more the narrower a mode is. The agent takes
    the mean of the most probable mode; sampled actions are the mean of a mode drawn with its probability, without the
    mode's own noise, as in robomimic's low-noise evaluation. `squared_error`, which is logged, is that of the most
    probable mode's mean.
    """

    samples = True

    def __init__(self, config: GaussianMixtureConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.modes, self.min_std, self.actions = config.modes, config.min_std, box_of(spec, config.name).shape[0]
        self.head = nn.Linear(spec.width, self.modes * (1 + 2 * self.actions))

    def _mixture(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (..., modes), and means and scales before the softplus (..., modes, action_dim)."""
        logits, means, scales = self.head(hidden[..., -1, :]).split(
            [self.modes, *2 * [self.modes * self.actions]], dim=-1
        )
        shape = self.modes, self.actions
        return logits, torch.tanh(means).unflatten(-1, shape), scales.unflatten(-1, shape)

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        logits, means, scales = self._mixture(hidden)
        # Validation would wait for the device.
        modes = torch.distributions.Normal(means, F.softplus(scales) + self.min_std, validate_args=False)
        likelihoods = modes.log_prob(batch.action.unsqueeze(-2)).sum(-1)
        loss = -(logits.log_softmax(-1) + likelihoods).logsumexp(-1).mean()
        return loss, {"squared_error": F.mse_loss(_mean_of_largest(logits, means), batch.action)}

    def action(self, hidden: Tensor) -> Tensor:
        return _mean_of_largest(*self._mixture(hidden)[:2])

    def sample(self, hidden: Tensor) -> Tensor:
        logits, means, _ = self._mixture(hidden)
        gumbel = -torch.empty_like(logits).exponential_().log()
        return _mean_of_largest(logits + gumbel, means)


def _mean_of_largest(logits: Tensor, means: Tensor) -> Tensor:
    """The mean, (..., action_dim), of the mode with the largest logit."""
    # Comparing indices, unlike Tensor.gather, exports to ONNX for any batch size.
    chosen = logits.argmax(-1, keepdim=True) == torch.arange(logits.shape[-1], device=logits.device)
    return (means * chosen.unsqueeze(-1)).sum(-2)

"""An objective for data that go several ways, of any shape: noise is carried along learnt velocities to actions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.config import FlowMatchingConfig, register_objective
from decision_rnn.agent.objectives import Metrics, Objective
from decision_rnn.agent.spaces import box_of
from decision_rnn.agent.spec import AgentSpec
from decision_rnn.data.stream import Batch


@register_objective(FlowMatchingConfig)
class FlowMatching(Objective):
    """Flow matching (Lipman et al., "Flow Matching for Generative Modeling", 2023) on the straight paths of rectified
    flow (Liu et al., "Flow Straight and Fast", 2023), for actions in a Box, as the cloned policy of FQL (Park et al.,
    "Flow Q-Learning", 2025).

    With the data's action a, noise z ~ N(0, I), a time t ~ U(0, 1) and the hidden state h, the loss is
    mean((v(h, x_t, t) - (a - z))^2) at x_t = (1 - t) z + t a. An action is x_1, clipped to the box, of
    x_{t + 1/K} = x_t + v(h, x_t, t) / K in K steps from x_0 = z.

    The agent starts from z = 0, the noise's most probable value. With one entry, whose order the flow keeps, that leads
    to the median of the data's actions, so into the more probable of two ways, while fixed noise other than zero would
    always lead to one side of the data. Sampled actions start from noise drawn at every step. `squared_error`, which is
    logged, is that of the action that the agent takes at the last step of a slice.
    """

    samples = True

    def __init__(self, config: FlowMatchingConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.flow_steps, self.actions = config.flow_steps, box_of(spec, config.name).shape[0]
        # The first layer in two parts, of which that of the hidden state is the same at all steps of the flow.
        self.embed_hidden = nn.Linear(spec.width, config.width)
        self.embed_noisy = nn.Linear(self.actions + 1, config.width, bias=False)
        self.head = nn.Sequential(
            nn.GELU(), nn.Linear(config.width, config.width), nn.GELU(), nn.Linear(config.width, self.actions)
        )

    def velocity(self, embedded: Tensor, noisy: Tensor, time: Tensor) -> Tensor:
        """(..., action_dim), of embedded hidden states (..., channels), x_t (..., action_dim) and times (..., 1)."""
        return self.head(embedded + self.embed_noisy(torch.cat([noisy, time], dim=-1)))

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        embedded, action = self.embed_hidden(hidden[..., -1, :]), batch.action
        noise, time = torch.randn_like(action), torch.rand_like(action[..., :1])
        velocity = self.velocity(embedded, torch.lerp(noise, action, time), time)
        with torch.no_grad():  # of one step a slice: K evaluations at all of them would take longer than the loss
            error = F.mse_loss(self.action(hidden[:, -1]), action[:, -1])
        return F.mse_loss(velocity, action - noise), {"squared_error": error}

    def action(self, hidden: Tensor) -> Tensor:
        return self._flow(hidden, hidden.new_zeros(*hidden.shape[:-2], self.actions))

    def sample(self, hidden: Tensor) -> Tensor:
        return self._flow(hidden, torch.randn(*hidden.shape[:-2], self.actions, device=hidden.device))

    def _flow(self, hidden: Tensor, noise: Tensor) -> Tensor:
        embedded, x = self.embed_hidden(hidden[..., -1, :]), noise
        for step in range(self.flow_steps):
            time = torch.full_like(x[..., :1], step / self.flow_steps)
            x = x + self.velocity(embedded, x, time) / self.flow_steps
        return x.clamp(-1, 1)

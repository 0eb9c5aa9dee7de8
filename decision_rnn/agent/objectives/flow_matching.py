"""Flow matching, for actions of any distribution."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.objectives.base import Metrics, Objective, ObjectiveConfig, box_size, register_objective
from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.data.stream import Batch
from decision_rnn.utils.parsing import PositiveInt, config_dataclass


@config_dataclass
class FlowMatchingConfig(ObjectiveConfig):
    """Flow from noise to actions in a Box.

    Attributes:
        flow_steps: The number of Euler steps from noise to an action.
        width: Channels of the two hidden layers of the velocity network.
    """

    name: str = "flow_matching"
    flow_steps: PositiveInt = 10
    width: PositiveInt = 256


@register_objective(FlowMatchingConfig)
class FlowMatching(Objective):
    """Flow-matching head for actions of any distribution in a Box.

    Flow matching (Lipman et al., "Flow Matching for Generative Modeling", 2023) on the straight paths of rectified flow
    (Liu et al., "Flow Straight and Fast", 2023), as the BC policy of FQL (Park et al., "Flow Q-Learning", 2025).

    With the data's action a, noise z ~ N(0, I), a time t ~ U(0, 1) and the hidden state h, the loss is
    mean((v(h, x_t, t) - (a - z))^2) at x_t = (1 - t) z + t a. An action is x_1, clipped to the Box, of
    x_{t + 1/K} = x_t + v(h, x_t, t) / K in K steps from x_0 = z.

    The agent starts from z = 0, the mode of the noise; sampled actions start from noise drawn at every step. Guidance
    with weight w follows v_none + w (v - v_none), where v_none is the velocity without the condition (CFGRL).

    Metrics: `squared_error`, of the action that the agent takes at the last step of a segment.
    """

    def __init__(self, config: FlowMatchingConfig, spec: AgentSpec) -> None:
        super().__init__()
        self.flow_steps, self.action_dim = config.flow_steps, box_size(spec, config.name)
        # The first layer in two parts, of which that of the hidden state is the same at all steps of the flow.
        self.embed_hidden = nn.Linear(spec.width, config.width)
        self.embed_noisy = nn.Linear(self.action_dim + 1, config.width, bias=False)
        self.head = nn.Sequential(
            nn.GELU(), nn.Linear(config.width, config.width), nn.GELU(), nn.Linear(config.width, self.action_dim)
        )

    def velocity(self, embedded: Tensor, noisy: Tensor, time: Tensor) -> Tensor:
        """(..., action_dim), at embedded hidden states (..., channels), x_t (..., action_dim) and times (..., 1)."""
        return self.head(embedded + self.embed_noisy(torch.cat([noisy, time], dim=-1)))

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        embedded, action = self.embed_hidden(hidden), batch.action
        noise, time = torch.randn_like(action), torch.rand_like(action[..., :1])
        velocity = self.velocity(embedded, torch.lerp(noise, action, time), time)
        with torch.no_grad():  # at one step a segment: K evaluations at all of them would take longer than the loss
            error = F.mse_loss(self.action(hidden[:, -1]), action[:, -1])
        return F.mse_loss(velocity, action - noise), {"squared_error": error}

    def action(self, hidden: Tensor) -> Tensor:
        return self._flow(partial(self.velocity, self.embed_hidden(hidden)), self._noise(hidden, False))

    def sample(self, hidden: Tensor) -> Tensor:
        return self._flow(partial(self.velocity, self.embed_hidden(hidden)), self._noise(hidden, True))

    def guided(self, hidden: Tensor, unconditional: Tensor, weight: float, sample: bool = False) -> Tensor:
        embedded, embedded_none = self.embed_hidden(hidden), self.embed_hidden(unconditional)

        def velocity(noisy: Tensor, time: Tensor) -> Tensor:
            none = self.velocity(embedded_none, noisy, time)
            return none + weight * (self.velocity(embedded, noisy, time) - none)

        return self._flow(velocity, self._noise(hidden, sample))

    def _noise(self, hidden: Tensor, sample: bool) -> Tensor:
        shape = *hidden.shape[:-1], self.action_dim
        return torch.randn(shape, device=hidden.device) if sample else hidden.new_zeros(shape)

    def _flow(self, velocity: Callable[[Tensor, Tensor], Tensor], x: Tensor) -> Tensor:
        for step in range(self.flow_steps):
            time = torch.full_like(x[..., :1], step / self.flow_steps)
            x = x + velocity(x, time) / self.flow_steps
        return x.clamp(-1, 1)

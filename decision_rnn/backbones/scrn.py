"""SCRN, the structurally constrained recurrent network: slow context units beside a simple recurrent network.

Mikolov et al., "Learning Longer Memory in Recurrent Neural Networks" (2014), section 3, with alpha learnt:

    s_t = (1 - alpha) * (B x_t) + alpha * s_{t-1}           context; alpha = sigmoid(beta), one for each unit
    h_t = sigmoid(P s_t + A x_t + R h_{t-1})                hidden units
    y_t = U h_t + V s_t

The context, a linear recurrence, is computed first (recurrence.py); the hidden units are a loop over time.

Deviations from the paper: the paper's f, a softmax over words, is left to what follows the layer. alpha starts from
time_scales.py; the paper's 0.95 for all units is a half-life of 13.5 steps. There are as many context as hidden units,
where the paper has 40 beside 100 or 300. The hidden units and the output have biases, and R starts as in torch.nn.RNN.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import Layer, State, config_dataclass, register_backbone, run_steps
from decision_rnn.backbones.ops.recurrence import linear_recurrence
from decision_rnn.backbones.time_scales import FadingConfig


@config_dataclass
class SCRNConfig(FadingConfig):
    """SCRN, "Learning Longer Memory in Recurrent Neural Networks"."""

    name: str = "scrn"


@register_backbone(SCRNConfig)
class SCRN(Layer):
    """State: h and s, each (batch, width)."""

    recurrent_names = ("beta",)

    def __init__(self, config: SCRNConfig) -> None:
        width = config.width
        super().__init__((width,), (width,))
        self.context = nn.Linear(width, width, bias=False)
        self.beta = nn.Parameter(config.forget_gate_bias(width))
        self.hidden: nn.RNNBase = nn.RNN(2 * width, width)  # the weights of torch's cell, whose sigmoid torch lacks
        self.output = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        initial = self.initial_state(len(x))
        h, s = state or initial
        slow = linear_recurrence(torch.sigmoid(self.beta), self._drive(x), s, reset)
        outputs, (h,) = run_steps(self._advance, self._drive_hidden(x, slow), (h,), initial[:1], reset)
        return self.output(torch.cat([outputs, slow], dim=-1)), (h, slow[:, -1].clone())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        s = torch.sigmoid(self.beta) * state[1] + self._drive(x)
        h, _ = self._advance(self._drive_hidden(x, s), state[:1])
        return self.output(torch.cat([h, s], dim=-1)), (h, s)

    def _drive(self, x: Tensor) -> Tensor:
        """(1 - alpha) * B x, (..., width), in float32 also under autocast."""
        return torch.sigmoid(-self.beta) * self.context(x).to(self.beta.dtype)

    def _drive_hidden(self, x: Tensor, s: Tensor) -> Tensor:
        """What x and s add to the hidden units, (..., width)."""
        weight, _, bias, recurrent_bias = self.hidden.all_weights[0]
        return F.linear(torch.cat([x.to(s.dtype), s], dim=-1), weight, bias + recurrent_bias)

    def _advance(self, driven: Tensor, state: State) -> tuple[Tensor, State]:
        """h after a step, in float32 also under autocast, twice: also as the state."""
        h = torch.sigmoid(F.linear(state[0], self.hidden.all_weights[0][1]).to(state[0].dtype) + driven)
        return h, (h,)

"""SCRN, the structurally constrained recurrent network: slow context units beside a simple recurrent network.

Mikolov et al., "Learning Longer Memory in Recurrent Neural Networks" (2014), section 3, with alpha fixed or learnt:

    s_t = (1 - alpha) * (B x_t) + alpha * s_{t-1}           context; alpha = sigmoid(beta), one for each unit
    h_t = sigmoid(P s_t + A x_t + R h_{t-1})                hidden units
    y_t = U h_t + V s_t

The context, a linear recurrence, is computed first (recurrence.py); the hidden units are a loop over time (gated.py).

What differs: the paper's f, a softmax over words, is left to what follows the layer. alpha starts from time_scales.py;
the paper's 0.95 for all units is a half-life of 13.5 steps. There are as many context as hidden units, where the paper
has 40 beside 100 or 300. The hidden units and the output have biases, and R starts as in torch.nn.RNN.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from decision_rnn.backbones.built_in import SCRNConfig
from decision_rnn.backbones.contract import SequenceMixer, State, register
from decision_rnn.backbones.ops.gated import Factors, GatedMixer
from decision_rnn.backbones.ops.recurrence import linear_recurrence


class HiddenUnits(GatedMixer):
    """h_t = sigmoid(W z_t + R h_{t-1} + b). State: h, (batch, width)."""

    saved = 1  # the pre-activation
    has_kernel = False  # torch has tanh and ReLU

    def step_cell(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h = torch.sigmoid(torch.addmm(self.drive(x), state[0], self.cell.all_weights[0][1].T))
        return h, (h,)

    def advance(self, before: State, extra: Tensor | None, after: State, saved: Sequence[Tensor]) -> None:
        torch.sigmoid(saved[0], out=after[0])

    def factors(self, before: State, after: State, extra: Tensor | None, saved: Tensor) -> Factors:
        h = after[0]
        return Factors((h * (1 - h)).unsqueeze(2), keep=None)


@register(SCRNConfig)
class SCRN(SequenceMixer):
    """State: h, (batch, width), and s, (batch, context_units)."""

    def __init__(self, config: SCRNConfig) -> None:
        super().__init__()
        width, units = config.width, config.context_units or config.width
        self.context = nn.Linear(width, units, bias=False)
        self.beta = nn.Parameter(config.forget_gate_bias(units), requires_grad=config.learn_alpha)
        self.hidden = HiddenUnits(nn.RNNBase("RNN_TANH", width + units, width))
        self.output = nn.Linear(width + units, width)

    def initial_state(self, batch_size: int) -> State:
        return *self.hidden.initial_state(batch_size), self.beta.new_zeros(batch_size, len(self.beta))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        *h, s = self.initial_state(len(x)) if state is None else state
        slow = linear_recurrence(torch.sigmoid(self.beta), self._drive(x), s, reset)
        fast, after = self.hidden(torch.cat([x.to(slow.dtype), slow], dim=-1), tuple(h), reset)
        return self.output(torch.cat([fast, slow], dim=-1)), (*after, slow[:, -1].clone())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h, s = state
        s = torch.sigmoid(self.beta) * s + self._drive(x)
        h, after = self.hidden.step(torch.cat([x.to(s.dtype), s], dim=-1), (h,))
        return self.output(torch.cat([h, s], dim=-1)), (*after, s)

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        return (self.beta,) if self.beta.requires_grad else ()

    def _drive(self, x: Tensor) -> Tensor:
        """(1 - alpha) * B x, (..., context_units), in float32 also under autocast."""
        return torch.sigmoid(-self.beta) * self.context(x).to(self.beta.dtype)

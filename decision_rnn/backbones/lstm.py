"""LSTM, long short-term memory.

Hochreiter & Schmidhuber, "Long Short-Term Memory" (1997), with the forget gate of Gers et al. (2000), in the form
of torch.nn.LSTM:

    i_t, f_t, o_t = sigmoid(W x_t + U h_{t-1} + b)      input, forget and output gate
    g_t = tanh(W_g x_t + U_g h_{t-1} + b_g)             candidate
    c_t = f_t * c_{t-1} + i_t * g_t
    h_t = o_t * tanh(c_t)

With `peepholes`, each channel's gates also depend on its cell, after Gers & Schmidhuber, "Recurrent Nets that Time and
Count" (2000): p_i * c_{t-1} and p_f * c_{t-1} are added inside the sigmoids of i_t and f_t, and p_o * c_t inside the
sigmoid of o_t.

The biases of the forget and the input gate begin apart, one as far above 0 as the other below, as Tallec & Ollivier do
(time_scales.py): a cell that keeps more takes in less.

Slices are computed by rnn.py; with peepholes, which torch lacks, by one `step` after another.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import State, config_dataclass, register_backbone, run_stepwise, without_autocast
from decision_rnn.backbones.rnn import TorchRNN
from decision_rnn.backbones.time_scales import FadingConfig


@config_dataclass
class LSTMConfig(FadingConfig):
    """LSTM, "Long Short-Term Memory".

    Attributes:
        peepholes: Whether the gates also depend on the cell.
    """

    name: str = "lstm"
    peepholes: bool = False


@register_backbone(LSTMConfig)
class LSTM(TorchRNN):
    """State: h and c, each (batch, width)."""

    cell_step = staticmethod(torch.lstm_cell)

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(nn.LSTM(config.width, config.width, batch_first=True))
        shift, bound = config.forget_gate_bias(config.width), config.width**-0.5  # as for all weights of torch.nn.LSTM
        with torch.no_grad():  # torch adds two biases
            self.cell.bias_ih_l0[: 2 * config.width] += torch.cat([-shift, shift])
        peepholes = torch.empty(3, config.width).uniform_(-bound, bound) if config.peepholes else None
        self.peepholes = None if peepholes is None else nn.Parameter(peepholes)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        return super().forward(x, state, reset) if self.peepholes is None else run_stepwise(self, x, state, reset)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if self.peepholes is None:
            return super().step(x, state)
        (h, c), (peep_i, peep_f, peep_o) = state, self.peepholes
        weight, recurrent, bias, recurrent_bias = self.cell.all_weights[0]
        with without_autocast(x):
            gates = F.linear(x.to(h.dtype), weight, bias) + F.linear(h, recurrent, recurrent_bias)
            i, f, g, o = gates.chunk(4, dim=-1)
            c = torch.sigmoid(f + peep_f * c) * c + torch.sigmoid(i + peep_i * c) * torch.tanh(g)
            h = torch.sigmoid(o + peep_o * c) * torch.tanh(c)
        return h, (h, c)

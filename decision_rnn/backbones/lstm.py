"""LSTM, long short-term memory, computed by torch's own kernels.

Hochreiter & Schmidhuber, "Long Short-Term Memory" (1997), with the forget gate of Gers et al. (2000), in the form
of torch.nn.LSTM:

    i_t, f_t, o_t = sigmoid(W x_t + U h_{t-1} + b)      input, forget and output gate
    g_t = tanh(W_g x_t + U_g h_{t-1} + b_g)             candidate
    c_t = f_t * c_{t-1} + i_t * g_t
    h_t = o_t * tanh(c_t)

With `peepholes`, each channel's gates also depend on its cell, after Gers & Schmidhuber, "Recurrent Nets that Time and
Count" (2000): p_i * c_{t-1} and p_f * c_{t-1} are added inside the sigmoids of i_t and f_t, and p_o * c_t inside the
sigmoid of o_t.

The forget gate's bias starts at 1, as recommended by Jozefowicz et al., "An Empirical Exploration of Recurrent Network
Architectures" (2015), section 2.2: at 0, the cell loses half of its content at every step.

What differs: the kernel does not support resets, which segments.py adds, and runs in float32 also under autocast.
torch has no kernel with peepholes: they are computed in a loop over time, which takes 1.6 times as long (forward and
backward, batch 64, 20 steps, width 128, one CPU core).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, State, register
from decision_rnn.backbones.ops.segments import KernelMixer


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(BackboneConfig):
    """LSTM, "Long Short-Term Memory".

    Attributes:
        forget_bias: Initial bias of the forget gate; larger values remember longer at the start of training.
        peepholes: Whether the gates also depend on the cell.
    """

    name: str = "lstm"
    forget_bias: float = 1.0
    peepholes: bool = False


@register(LSTMConfig)
class LSTM(KernelMixer):
    """State: h and c, each (batch, width)."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(nn.LSTM(config.width, config.width, batch_first=True))
        forget = slice(config.width, 2 * config.width)
        with torch.no_grad():  # torch adds two biases
            *_, bias, other = self.cell.all_weights[0]
            bias[forget], other[forget] = config.forget_bias, 0
        bound = config.width**-0.5  # as for all weights of torch.nn.LSTM
        self.peepholes = (
            nn.Parameter(torch.empty(3, config.width).uniform_(-bound, bound)) if config.peepholes else None
        )

    def initial_state(self, batch_size: int) -> State:
        zeros = next(self.cell.parameters()).new_zeros(batch_size, self.cell.hidden_size)
        return zeros, zeros.clone()

    def _slice(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if self.peepholes is not None:
            return self._loop(x, state, None)
        h, c = state
        y, (h, c) = self.cell(x, (h.unsqueeze(0).contiguous(), c.unsqueeze(0).contiguous()))
        return y, (h.squeeze(0), c.squeeze(0))

    def _drive(self, x: Tensor) -> Tensor:
        weight, _, bias, other = self.cell.all_weights[0]
        return F.linear(x, weight, bias + other)

    def _advance(self, driven: Tensor, state: State) -> State:
        h, c = state
        i, f, g, o = torch.addmm(driven, h, self.cell.all_weights[0][1].T).chunk(4, dim=-1)
        if self.peepholes is None:
            c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(g))
        else:
            look_i, look_f, look_o = self.peepholes
            c = torch.sigmoid(f + look_f * c) * c + torch.sigmoid(i + look_i * c) * torch.tanh(g)
            o = o + look_o * c
        return torch.sigmoid(o) * torch.tanh(c), c

    def _step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if self.peepholes is not None:
            h, c = self._advance(self._drive(x), state)
        else:
            h, c = torch.lstm_cell(x, state, *self.cell.all_weights[0])
        return h, (h, c)

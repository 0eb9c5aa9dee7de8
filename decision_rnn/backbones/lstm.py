"""LSTM, long short-term memory, by torch's own kernels.

Hochreiter & Schmidhuber, "Long Short-Term Memory" (1997), with the forget gate of Gers et al. (2000), in the form
of torch.nn.LSTM:

    i_t, f_t, o_t = sigmoid(W x_t + U h_{t-1} + b)      input, forget and output gate
    g_t = tanh(W_g x_t + U_g h_{t-1} + b_g)             candidate
    c_t = f_t * c_{t-1} + i_t * g_t
    h_t = o_t * tanh(c_t)

The forget gate's bias starts at 1, as Jozefowicz et al., "An Empirical Exploration of Recurrent Network
Architectures" (2015), section 2.2, advise: at 0 the cell forgets half of itself at every step.

What differs: no peepholes; the kernel runs over the pieces of time between resets (segments.py), in float32 also
under autocast.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, State, register
from decision_rnn.backbones.segments import KernelMixer


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(BackboneConfig):
    """LSTM, "Long Short-Term Memory".

    Attributes:
        forget_bias: Initial bias of the forget gate; larger remembers longer at the start of training.
    """

    name: str = "lstm"
    forget_bias: float = 1.0


@register(LSTMConfig)
class LSTM(KernelMixer):
    """State: h and c, each (batch, width)."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(nn.LSTM(config.width, config.width, batch_first=True))
        forget = slice(config.width, 2 * config.width)
        with torch.no_grad():  # torch adds two biases
            *_, bias, other = self.cell.all_weights[0]
            bias[forget], other[forget] = config.forget_bias, 0

    def initial_state(self, batch_size: int) -> State:
        zeros = next(self.cell.parameters()).new_zeros(batch_size, self.cell.hidden_size)
        return zeros, zeros.clone()

    def _slice(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h, c = state
        y, (h, c) = self.cell(x, (h.unsqueeze(0).contiguous(), c.unsqueeze(0).contiguous()))
        return y, (h.squeeze(0), c.squeeze(0))

    def _step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h, c = torch.lstm_cell(x, state, *self.cell.all_weights[0])
        return h, (h, c)

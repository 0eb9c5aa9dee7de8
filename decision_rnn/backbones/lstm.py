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

How slices are computed: ops/gated.py.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from decision_rnn.backbones.built_in import LSTMConfig
from decision_rnn.backbones.contract import State, register
from decision_rnn.backbones.ops.gated import Factors, GatedMixer, sigmoid_backward, tanh_backward


@register(LSTMConfig)
class LSTM(GatedMixer):
    """State: h and c, each (batch, width)."""

    states = 2
    saved = 5  # i, f, g, o and tanh(c)

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(nn.RNNBase("LSTM", config.width, config.width))
        shift = config.forget_gate_bias(config.width)
        with torch.no_grad():  # torch adds two biases
            self.cell.all_weights[0][2][: 2 * config.width] += torch.cat([-shift, shift])
        bound = config.width**-0.5  # as for all weights of torch.nn.LSTM
        self.peepholes = (
            nn.Parameter(torch.empty(3, config.width).uniform_(-bound, bound)) if config.peepholes else None
        )
        self.has_kernel = not config.peepholes

    @property
    def extra(self) -> Tensor | None:
        """The peepholes of i, f and o, (3, width)."""
        return self.peepholes

    def step_cell(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if self.peepholes is None:
            h, c = torch.lstm_cell(x, state, *self.cell.all_weights[0])
            return h, (h, c)
        (h, c), (look_i, look_f, look_o) = state, self.peepholes
        i, f, g, o = torch.addmm(self.drive(x), h, self.cell.all_weights[0][1].T).chunk(4, dim=-1)
        c = torch.sigmoid(f + look_f * c) * c + torch.sigmoid(i + look_i * c) * torch.tanh(g)
        h = torch.sigmoid(o + look_o * c) * torch.tanh(c)
        return h, (h, c)

    def advance(self, before: State, extra: Tensor | None, after: State, saved: Sequence[Tensor]) -> None:
        (_, c), (new_h, new_c) = before, after
        i, f, g, o, squashed = saved
        if extra is not None:
            i.addcmul_(extra[0], c)
            f.addcmul_(extra[1], c)
        torch.mul(f.sigmoid_(), c, out=new_c).addcmul_(i.sigmoid_(), g.tanh_())
        if extra is not None:
            o.addcmul_(extra[2], new_c)
        torch.mul(o.sigmoid_(), torch.tanh(new_c, out=squashed), out=new_h)

    def factors(self, before: State, after: State, extra: Tensor | None, saved: Tensor) -> Factors:
        i, f, g, o, squashed = saved.chunk(5, dim=-1)
        gates = saved.new_empty(*saved.shape[:2], 3, g.shape[-1])
        of_i, of_f, of_g = gates.unbind(2)
        sigmoid_backward(g, i, grad_input=of_i)
        sigmoid_backward(before[1], f, grad_input=of_f)
        tanh_backward(i, g, grad_input=of_g)
        output, cell, keep = sigmoid_backward(squashed, o), tanh_backward(o, squashed), f
        if extra is not None:
            cell = cell.addcmul_(extra[2], output)
            keep = torch.addcmul(f, extra[0], of_i).addcmul_(extra[1], of_f)
        return Factors(gates, keep, cell, output)

    def extra_gradient(self, grads: Tensor, before: State, after: State) -> Tensor:
        grad_i, grad_f, _, grad_o = grads.unbind(2)
        seen = torch.stack((grad_i * before[1], grad_f * before[1], grad_o * after[1]))
        return seen.sum((1, 2))

"""GRU, the gated recurrent unit.

Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder" (2014), equations 5 to 8, in the form of
torch.nn.GRU (Chung et al. 2014, with the reset gate after the recurrent product, as in cuDNN):

    r_t = sigmoid(W_r x_t + U_r h_{t-1} + b_r)                           reset gate
    z_t = sigmoid(W_z x_t + U_z h_{t-1} + b_z)                           fraction of the state that is kept
    n_t = tanh(W_n x_t + b_n + r_t * (U_n h_{t-1} + c_n))                candidate
    h_t = (1 - z_t) * n_t + z_t * h_{t-1}

The gates depend on h_{t-1}, so there is no parallelism over time. How slices are computed: ops/gated.py.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.built_in import GRUConfig
from decision_rnn.backbones.contract import State, register
from decision_rnn.backbones.ops.gated import Factors, GatedMixer, sigmoid_backward, tanh_backward


@register(GRUConfig)
class GRU(GatedMixer):
    """State: h, (batch, width)."""

    saved = 4  # r, z, the recurrent product in n, and n
    gated_product = True

    def __init__(self, config: GRUConfig) -> None:
        super().__init__(nn.RNNBase("GRU", config.width, config.width))
        with torch.no_grad():  # torch adds two biases
            self.cell.all_weights[0][2][config.width : 2 * config.width] += config.forget_gate_bias(config.width)

    @property
    def extra(self) -> Tensor:
        """c_n, the bias of the candidate's recurrent product."""
        bias: Tensor = self.cell.all_weights[0][3]
        return bias[2 * self.cell.hidden_size :]

    def drive(self, x: Tensor) -> Tensor:
        weight, _, bias, other = self.cell.all_weights[0]
        width = self.cell.hidden_size
        return F.linear(x, weight, bias + F.pad(other[: 2 * width], (0, width)))

    def step_cell(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h = torch.gru_cell(x, state[0], *self.cell.all_weights[0])
        return h, (h,)

    def advance(self, before: State, extra: Tensor | None, after: State, saved: Sequence[Tensor]) -> None:
        r, z, u, n = saved
        torch.addcmul(n, r.sigmoid_(), u, out=n).tanh_()
        torch.lerp(n, before[0], z.sigmoid_(), out=after[0])

    def factors(self, before: State, after: State, extra: Tensor | None, saved: Tensor) -> Factors:
        r, z, u, n = saved.chunk(4, dim=-1)
        gates = saved.new_empty(*saved.shape[:2], 4, n.shape[-1])
        of_u, of_r, of_z, of_n = gates.unbind(2)
        tanh_backward(1 - z, n, grad_input=of_n)
        sigmoid_backward(before[0] - n, z, grad_input=of_z)
        torch.mul(of_n, r, out=of_u)
        sigmoid_backward(of_n * u, r, grad_input=of_r)
        return Factors(gates, keep=z)

    def extra_gradient(self, grads: Tensor, before: State, after: State) -> Tensor:
        return grads[:, :, 0].sum((0, 1), dtype=before[0].dtype)

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
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, State, register
from decision_rnn.backbones.ops.gated import GatedMixer, add_product, sigmoid_backward, tanh_backward


@dataclass(frozen=True, kw_only=True)
class GRUConfig(BackboneConfig):
    """GRU, "Learning Phrase Representations using RNN Encoder-Decoder"."""

    name: str = "gru"


@register(GRUConfig)
class GRU(GatedMixer):
    """State: h, (batch, width)."""

    saved = 4  # r, z, the recurrent product in n, and n
    gated_product = True

    def __init__(self, config: GRUConfig) -> None:
        super().__init__(nn.GRU(config.width, config.width, batch_first=True))

    @property
    def extra(self) -> Tensor:
        """The bias of the recurrent product."""
        bias: Tensor = self.cell.all_weights[0][3]
        return bias

    def drive(self, x: Tensor) -> Tensor:
        weight, _, bias, _ = self.cell.all_weights[0]
        return F.linear(x, weight, bias)

    def step_cell(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h = torch.gru_cell(x, state[0], *self.cell.all_weights[0])
        return h, (h,)

    def advance(
        self, driven: Tensor, before: State, recurrent: Tensor, extra: Tensor | None, after: State, saved: Tensor
    ) -> None:
        (h,), width = before, len(recurrent)
        r, z, u, n = saved.chunk(4, dim=-1)
        assert extra is not None
        add_product(saved[:, : 3 * width].copy_(extra), h, recurrent)
        saved[:, : 2 * width].add_(driven[:, : 2 * width]).sigmoid_()
        torch.addcmul(driven[:, 2 * width :].to(n.dtype), r, u, out=n).tanh_()
        torch.lerp(n, h, z, out=after[0])

    def adjoint(
        self, grads: State, before: State, after: State, extra: Tensor | None, saved: Tensor, grad_gates: Tensor
    ) -> State:
        (grad,), (h,) = grads, before
        r, z, u, n = saved.chunk(4, dim=-1)
        grad_u, grad_r, grad_z, grad_n = grad_gates.chunk(4, dim=-1)
        kept = grad * z
        tanh_backward(grad - kept, n, grad_input=grad_n)
        sigmoid_backward(grad * (h - n), z, grad_input=grad_z)
        sigmoid_backward(grad_n * u, r, grad_input=grad_r)
        torch.mul(grad_n, r, out=grad_u)
        return (kept,)

    def extra_gradient(self, grad_gates: Tensor, before: Sequence[Tensor], after: Sequence[Tensor]) -> Tensor:
        grad_u, grad_r, grad_z, _ = grad_gates.sum((0, 1), dtype=before[0].dtype).chunk(4)
        return torch.cat([grad_r, grad_z, grad_u])

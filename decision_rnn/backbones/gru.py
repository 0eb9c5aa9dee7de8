"""GRU, the gated recurrent unit, computed by torch's own kernels.

Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder" (2014), equations 5 to 8, in the form of
torch.nn.GRU (Chung et al. 2014, with the reset gate after the recurrent product, as in cuDNN):

    r_t = sigmoid(W_r x_t + U_r h_{t-1} + b_r)                           reset gate
    z_t = sigmoid(W_z x_t + U_z h_{t-1} + b_z)                           fraction of the state that is kept
    n_t = tanh(W_n x_t + b_n + r_t * (U_n h_{t-1} + c_n))                candidate
    h_t = (1 - z_t) * n_t + z_t * h_{t-1}

What differs: the kernel does not support resets, which segments.py adds, and runs in float32 also under autocast. The
gates depend on h_{t-1}, so there is no parallelism over time.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, State, register
from decision_rnn.backbones.ops.segments import KernelMixer


@dataclass(frozen=True, kw_only=True)
class GRUConfig(BackboneConfig):
    """GRU, "Learning Phrase Representations using RNN Encoder-Decoder"."""

    name: str = "gru"


@register(GRUConfig)
class GRU(KernelMixer):
    """State: h, (batch, width)."""

    def __init__(self, config: GRUConfig) -> None:
        super().__init__(nn.GRU(config.width, config.width, batch_first=True))

    def _drive(self, x: Tensor) -> Tensor:
        weight, _, bias, _ = self.cell.all_weights[0]
        return F.linear(x, weight, bias)

    def _advance(self, driven: Tensor, state: State) -> State:
        (h,), width = state, state[0].shape[1]
        _, recurrent, _, bias = self.cell.all_weights[0]
        of_state = torch.addmm(bias, h, recurrent.T)
        r, z = torch.sigmoid(driven[:, : 2 * width] + of_state[:, : 2 * width]).chunk(2, dim=-1)
        n = torch.tanh(torch.addcmul(driven[:, 2 * width :], r, of_state[:, 2 * width :]))
        return (torch.lerp(n, h, z),)

    def _step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h = torch.gru_cell(x, state[0], *self.cell.all_weights[0])
        return h, (h,)

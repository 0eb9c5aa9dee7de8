"""sLSTM, xLSTM's scalar memory with exponential gating and memory mixing.

Beck et al., "xLSTM: Extended Long Short-Term Memory" (2024), equations 8 to 17; R is block-diagonal, with a block for
each head:

    z_t = tanh(W_z x_t + R_z h_{t-1} + b_z),  o_t = sigmoid(W_o x_t + R_o h_{t-1} + b_o)
    i_t = exp(W_i x_t + R_i h_{t-1} + b_i),   f_t = sigmoid(W_f x_t + R_f h_{t-1} + b_f)
    c_t = f_t * c_{t-1} + i_t * z_t                       memory
    n_t = f_t * n_{t-1} + i_t                             normaliser
    h_t = o_t * c_t / n_t,  y_t = norm(h_t)               the paper's block normalises every head

Stabilised (equations 15 to 17): c and n are stored divided by exp(m_t) with m_t = max(log f_t + m_{t-1}, log i_t), so
that no exponent is above 0. The output does not depend on m, so no gradient is taken through it.

The gates depend on h_{t-1}, so there is no parallelism over time: a loop under autograd.

Deviations from the paper: instead of the paper's convolution in front of i and f and its gated MLP there is the block
that all mixers share (stack.py). f may also be exp; here it is the sigmoid, as in the authors' code. W is a full
matrix, theirs has a block for each head. R starts at zero, as theirs; the forget biases start from time_scales.py, each
head with all half-lives; theirs, from -7 to 5, are half-lives of up to 103 steps.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import HeadsConfig, Layer, State, config_dataclass, register_backbone, run_steps
from decision_rnn.backbones.time_scales import FadingConfig


@config_dataclass
class SLSTMConfig(HeadsConfig, FadingConfig):
    """sLSTM, "xLSTM: Extended Long Short-Term Memory". The recurrent matrices mix the channels of a head."""

    name: str = "slstm"
    normalizes_heads = True


@register_backbone(SLSTMConfig)
class SLSTM(Layer):
    """State: m, minus infinity before the first step, h, c and n, each (batch, heads, head width)."""

    def __init__(self, config: SLSTMConfig) -> None:
        width, heads, size = config.width, config.heads, config.width // config.heads
        super().__init__(*[(heads, size)] * 4, start=(-torch.inf, 0, 0, 0))
        self.gates = nn.Linear(width, 4 * width)  # (heads, z i f o, head width)
        self.recurrent = nn.Parameter(torch.zeros(heads, size, 4 * size))
        self.scale = nn.Parameter(torch.ones(width))
        with torch.no_grad():
            self.gates.bias.view(heads, 4, size)[:, 2] += config.forget_gate_bias(width).view(size, heads).T

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        initial = self.initial_state(len(x))
        h, state = run_steps(self._advance, self._drive(x), state or initial, initial, reset)
        return self._output(h), state

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h, state = self._advance(self._drive(x), state)
        return self._output(h), state

    def _drive(self, x: Tensor) -> Tensor:
        """What x adds to the gates, (..., heads, 4 * head width), in float32 also under autocast."""
        return self.gates(x).to(self.scale.dtype).unflatten(-1, (len(self.recurrent), -1))

    def _advance(self, driven: Tensor, state: State) -> tuple[Tensor, State]:
        """h and the state after a step."""
        before, h, c, n = state
        mixed = torch.bmm(h.transpose(0, 1), self.recurrent).transpose(0, 1).to(driven.dtype)
        z, insert, forget, o = (driven + mixed).chunk(4, dim=-1)
        kept = before + F.logsigmoid(forget)
        m = torch.maximum(kept, insert).detach()
        f, i = torch.exp(kept - m), torch.exp(insert - m)
        c, n = f * c + i * torch.tanh(z), f * n + i
        h = torch.sigmoid(o) * c / n
        return h, (m, h, c, n)

    def _output(self, h: Tensor) -> Tensor:
        """The output from h, (..., heads, head width)."""
        return F.layer_norm(h, h.shape[-1:]).flatten(-2) * self.scale

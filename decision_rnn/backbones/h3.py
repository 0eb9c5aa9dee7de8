"""H3, "Hungry Hungry Hippos": two state spaces, one that shifts and one with constant decays, with products between.

Fu et al., "Hungry Hungry Hippos: Towards Language Modeling with State Space Models" (2023), algorithm 1, with a head
width of 1, as in the authors' code:

    q_t, k_t, v_t = W_q x_t + b_q, W_k x_t + b_k, W_v x_t + b_v
    p_t = shift(k)_t * v_t,   shift(k)_t = sum_{j < kernel} w_j * k_{t-j}             zeros before an episode
    y_t = W_o (q_t * (diagonal(p)_t + D * p_t)) + b_o                                  diagonal: s4d.py

The shift lets a product compare a token with the ones before; the diagonal state space keeps it, and q selects.

Deviations from the paper: the shift sees 4 inputs by default, `kernel`, where the paper's state has 64, and its D is a
part of w_0. The diagonal state space is S4D-Lin with B = 1, and its dt starts from time_scales.py; the paper's 0.001 to
0.1 are half-lives from 14 to 1,400 steps. Wider heads, whose state is a matrix of head width by head width, are left
out.
"""

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import Kernel, Layer, State, config_dataclass, register_backbone
from decision_rnn.backbones.conv import convolve, convolve_step
from decision_rnn.backbones.s4d import DiagonalStateSpace, S4DConfig


@config_dataclass
class H3Config(S4DConfig):
    """H3, "Hungry Hungry Hippos".

    Attributes:
        kernel: Tokens that the shift state space sees, including the present one.
    """

    name: str = "h3"
    kernel: Kernel = 4


@register_backbone(H3Config)
class H3(Layer):
    """State: the last kernel - 1 k, oldest first, (batch, kernel - 1, width), and the diagonal state space's: real and
    imaginary parts, each (batch, width, state_size / 2)."""

    def __init__(self, config: H3Config) -> None:
        width, bound = config.width, config.kernel**-0.5  # the initialisation of torch.nn.Conv1d
        super().__init__((config.kernel - 1, width), *[(width, config.state_size // 2)] * 2)
        self.qkv = nn.Linear(width, 3 * width)
        self.shift = nn.Parameter(torch.empty(width, config.kernel).uniform_(-bound, bound))  # oldest step first
        self.diagonal = DiagonalStateSpace(config)
        self.d = nn.Parameter(torch.randn(width))
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        past, *before = state or self.initial_state(len(x))
        q, k, v = self._project(x)
        k, past = convolve(self.shift, torch.zeros_like(self.d), k, past, reset)
        p = k * v
        s, after = self.diagonal(p, tuple(before), reset)
        return self.output(q * (s + self.d * p)), (past, *after)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        q, k, v = self._project(x)
        k, past = convolve_step(self.shift, torch.zeros_like(self.d), k, state[0])
        p = k * v
        s, after = self.diagonal.step(p, state[1:])
        return self.output(q * (s + self.d * p)), (past, *after)

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        """q, k and v, (..., width), in float32 also under autocast."""
        return self.qkv(x).to(self.d.dtype).chunk(3, dim=-1)

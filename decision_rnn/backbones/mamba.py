"""Mamba: a selective state space (S6) whose step size, input and output maps depend on the input.

Gu & Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces" (2023), algorithm 2 and section 3.4, with
`inner` = expansion * width channels of `state_size` states each:

    u_t, z_t = W_in x_t
    v_t = silu(b + sum_{j < kernel} w_j * u_{t-j})                     short convolution of every channel
    dt_t = softplus(W_dt W_r v_t + b_dt),  B_t = W_B v_t,  C_t = W_C v_t
    h_t = exp(dt_t A) h_{t-1} + dt_t B_t v_t                           A = -exp(a), initially -1, -2, ... (S4D-Real)
    y_t = W_out (silu(z_t) * (C_t h_t + D v_t))

W_r has width / 16 rows, rounded up; softplus(b_dt) is initialised so that the first state of each channel, which keeps
exp(-dt), has its half-life (time_scales.py); that of state n is n times shorter.

Deviations from the paper: the paper spreads softplus(b_dt) over [0.001, 0.1], half-lives from 7 to 690 steps. An
episode's first steps are convolved with zeros rather than with the previous episode. On a CPU the scan is a loop over
time, see selective_scan.py; on a GPU the factors of all steps are stored in memory, where the paper's kernel keeps them
on chip.
"""

import math
from collections.abc import Iterable
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.backbones.config import STRICT, PositiveInt, register_backbone
from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.convolution import convolve, convolve_step
from decision_rnn.backbones.ops.selective_scan import selective_scan
from decision_rnn.backbones.time_scales import FadingConfig


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MambaConfig(FadingConfig):
    """Mamba, "Linear-Time Sequence Modeling with Selective State Spaces".

    Attributes:
        expansion: Number of inner channels as a multiple of `width`.
        state_size: Number of states of every inner channel.
        kernel: Kernel size of the short convolution, in steps.
    """

    name: str = "mamba"
    expansion: Annotated[float, Field(gt=0)] = 2.0
    state_size: PositiveInt = 16
    kernel: Annotated[int, Field(ge=2)] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if round(self.width * self.expansion) < 1:
            raise ValueError(f"backbone.expansion {self.expansion} leaves no channel of backbone.width {self.width}")


@register_backbone(MambaConfig)
class Mamba(SequenceMixer):
    """State: the last kernel - 1 inputs of the convolution, oldest first, (batch, kernel - 1, inner), and h,
    (batch, inner, state_size)."""

    def __init__(self, config: MambaConfig) -> None:
        super().__init__()
        inner, rank = round(config.width * config.expansion), math.ceil(config.width / 16)
        self.kernel, self.sizes = config.kernel, (rank, config.state_size, config.state_size)
        self.input = nn.Linear(config.width, 2 * inner, bias=False)
        self.convolution = nn.Conv1d(inner, inner, config.kernel, groups=inner)
        self.selection = nn.Linear(inner, sum(self.sizes), bias=False)
        self.dt = nn.Linear(rank, inner)
        self.a_log = nn.Parameter(torch.arange(1.0, config.state_size + 1).log().repeat(inner, 1))
        self.d = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, config.width, bias=False)
        dt = math.log(2) / config.half_lives(inner)
        with torch.no_grad():
            self.dt.bias.copy_(dt + torch.log(-torch.expm1(-dt)))  # the inverse of softplus

    def initial_state(self, batch_size: int) -> State:
        inner, size = self.a_log.shape
        return self.a_log.new_zeros(batch_size, self.kernel - 1, inner), self.a_log.new_zeros(batch_size, inner, size)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        past, h = self.initial_state(len(x)) if state is None else state
        u, gate = self._inputs(x)
        v, past = convolve(*self._filter(), u, past, reset)
        v = F.silu(v)
        dt, b, c = self._select(v)
        y, h = selective_scan(dt, -torch.exp(self.a_log), dt * v, b, c, h, reset)
        return self._output(y, v, gate), (past, h)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        past, h = state
        u, gate = self._inputs(x)
        v, past = convolve_step(*self._filter(), u, past)
        v = F.silu(v)
        dt, b, c = self._select(v)
        h = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.a_log)) * h + (dt * v).unsqueeze(-1) * b.unsqueeze(-2)
        return self._output((h * c.unsqueeze(-2)).sum(-1), v, gate), (past, h)

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        """A only, at the full rate. The authors' code decays neither A nor D; D, a vector, has no decay anyway."""
        return (self.a_log,)

    def _inputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """u and z, in float32 also under autocast."""
        u, gate = self.input(x).to(self.a_log.dtype).chunk(2, dim=-1)
        return u, gate

    def _filter(self) -> tuple[Tensor, Tensor]:
        """The convolution's weight, (inner, kernel), and bias."""
        assert self.convolution.bias is not None
        return self.convolution.weight[:, 0], self.convolution.bias

    def _select(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """dt, (..., inner), and B and C, (..., state_size)."""
        rank, b, c = self.selection(v).to(v.dtype).split(self.sizes, dim=-1)
        return F.softplus(self.dt(rank).to(v.dtype)), b, c

    def _output(self, y: Tensor, v: Tensor, gate: Tensor) -> Tensor:
        return self.output(F.silu(gate) * torch.addcmul(y, v, self.d))

"""LRU, the linear recurrent unit: a diagonal complex recurrence with a constant decay.

Orvieto et al., "Resurrecting Recurrent Neural Networks for Long Sequences" (2023), equations 5 to 8 and
appendix A:

    lambda = exp(-exp(nu) + i exp(theta))                    inside the unit disc for every nu
    h_t = lambda * h_{t-1} + gamma * (B x_t)                 gamma starts at sqrt(1 - |lambda|^2), learnt as its log
    y_t = Re(C h_t) + D * x_t

|lambda| is initialised from the half-lives of time_scales.py, its phase uniformly over [0, max_phase].

Parts can be ablated as in the paper: the parametrisation with `exponential`, lambda = exp(-nu + i theta), or `plain`,
lambda = real + i imag, neither of which keeps lambda inside the unit disc; and gamma with `normalization: false`.

Deviations from the paper: the nonlinearity after the layer is the MLP of the shared block rather than the paper's GLU,
and the norm before it is LayerNorm for every task. The paper spreads lambda uniformly over the area of a ring, which it
tunes for each task with the phase and the number of states; here the phase is up to pi / 10, with as many complex
states as the residual stream has channels.
"""

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.backbones.config import STRICT, PositiveInt, register_backbone
from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.ops.recurrence import linear_recurrence
from decision_rnn.backbones.time_scales import FadingConfig

PLANES = {"stable": ("nu_log", "theta_log"), "exponential": ("nu", "theta"), "plain": ("real", "imag")}
"""Names of lambda's two parameters in each parametrisation."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LRUConfig(FadingConfig):
    """LRU, "Resurrecting Recurrent Neural Networks for Long Sequences".

    Attributes:
        state_size: Complex channels of the recurrent state; `width` if left out.
        max_phase: Largest initial phase of lambda, in radians.
        parametrization: Parametrisation of lambda: `stable`, `exponential` or `plain`.
        normalization: Whether the input is scaled by gamma.
    """

    name: str = "lru"
    state_size: PositiveInt | None = None
    max_phase: Annotated[float, Field(gt=0)] = math.pi / 10
    parametrization: Literal["stable", "exponential", "plain"] = "stable"
    normalization: bool = True


@register_backbone(LRUConfig)
class LRU(SequenceMixer):
    """State: the real and imaginary parts of h, each (batch, state_size)."""

    def __init__(self, config: LRUConfig) -> None:
        super().__init__()
        width = config.width
        size = width if config.state_size is None else config.state_size
        decay = config.decay(size)
        phase = torch.empty(size).uniform_(0, config.max_phase).clamp_min(1e-12)
        self.parametrization = config.parametrization
        nu = -torch.log(decay)
        start = {
            "stable": (torch.log(nu), torch.log(phase)),
            "exponential": (nu, phase),
            "plain": (decay * torch.cos(phase), decay * torch.sin(phase)),
        }[config.parametrization]
        for name, value in zip(PLANES[config.parametrization], start, strict=True):
            self.register_parameter(name, nn.Parameter(value.float()))
        self.gamma_log = nn.Parameter(0.5 * torch.log1p(-(decay**2)).float()) if config.normalization else None
        # Real and imaginary parts are interleaved, as in the memory of a complex tensor.
        self.b = nn.Parameter(torch.randn(size, 2, width) / math.sqrt(2 * width))
        self.c = nn.Parameter(torch.randn(width, size, 2) / math.sqrt(size))
        self.d = nn.Parameter(torch.randn(width))

    def initial_state(self, batch_size: int) -> State:
        return self.b.new_zeros(batch_size, len(self.b)), self.b.new_zeros(batch_size, len(self.b))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        initial = torch.complex(*(self.initial_state(len(x)) if state is None else state))
        h = linear_recurrence(torch.complex(*self._decay()), torch.view_as_complex(self._drive(x)), initial, reset)
        return self._output(torch.view_as_real(h), x), (h[:, -1].real.clone(), h[:, -1].imag.clone())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        real, imag = state
        decay_real, decay_imag = self._decay()
        drive_real, drive_imag = self._drive(x).unbind(-1)
        real, imag = (
            decay_real * real - decay_imag * imag + drive_real,
            decay_real * imag + decay_imag * real + drive_imag,
        )
        return self._output(torch.stack((real, imag), dim=-1), x), (real, imag)

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        gamma = () if self.gamma_log is None else (self.gamma_log,)
        return *self._planes(), *gamma, self.b

    def recurrent_learning_rate(self, learning_rate: float) -> float:
        """Half the rate of the others (appendix B: lower; the half is `lr_factor` of Zucchet's minimal-LRU)."""
        return 0.5 * learning_rate

    def _planes(self) -> tuple[nn.Parameter, nn.Parameter]:
        first, second = (getattr(self, name) for name in PLANES[self.parametrization])
        return first, second

    def _decay(self) -> tuple[Tensor, Tensor]:
        """The real and imaginary parts of lambda, each (state_size,)."""
        first, second = self._planes()
        if self.parametrization == "plain":
            return first, second
        if self.parametrization == "stable":
            magnitude, phase = torch.exp(-torch.exp(first)), torch.exp(second)
        else:
            magnitude, phase = torch.exp(-first), second
        return magnitude * torch.cos(phase), magnitude * torch.sin(phase)

    def _drive(self, x: Tensor) -> Tensor:
        """gamma * B x, (..., state_size, 2), in float32 also under autocast."""
        weight = self.b if self.gamma_log is None else self.b * torch.exp(self.gamma_log)[:, None, None]
        return F.linear(x, weight.flatten(0, 1)).to(self.b.dtype).unflatten(-1, (-1, 2))

    def _output(self, h: Tensor, x: Tensor) -> Tensor:
        """Re(C h) + D * x, with h as (..., state_size, 2)."""
        conjugate = torch.stack((self.c[..., 0], -self.c[..., 1]), dim=-1)
        return F.linear(h.flatten(-2), conjugate.flatten(1)) + self.d * x

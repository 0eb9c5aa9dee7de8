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
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from decision_rnn.backbones.contract import Layer, State, config_dataclass, register_backbone
from decision_rnn.backbones.ops.complex_pairs import ComplexPair, product
from decision_rnn.backbones.ops.recurrence import linear_recurrence
from decision_rnn.backbones.time_scales import FadingConfig
from decision_rnn.utils.parsing import PositiveInt


@config_dataclass
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
    max_phase: PositiveFloat = math.pi / 10
    parametrization: Literal["stable", "exponential", "plain"] = "stable"
    normalization: bool = True


@register_backbone(LRUConfig)
class LRU(Layer):
    """State: the real and imaginary parts of h, each (batch, state_size)."""

    recurrent_names = ("nu_log", "theta_log", "nu", "theta", "real", "imag", "gamma_log", "b")

    def __init__(self, config: LRUConfig) -> None:
        width, size = config.width, config.state_size or config.width
        super().__init__((size,), (size,))
        decay = config.decay(size)
        phase = torch.empty(size).uniform_(0, config.max_phase).clamp_min(1e-12)
        nu = -torch.log(decay)
        start: dict[str, Tensor] = {  # lambda's two parameters
            "stable": {"nu_log": torch.log(nu), "theta_log": torch.log(phase)},
            "exponential": {"nu": nu, "theta": phase},
            "plain": {"real": decay * torch.cos(phase), "imag": decay * torch.sin(phase)},
        }[config.parametrization]
        self.lambda_names = tuple(start)
        for name, value in start.items():
            self.register_parameter(name, nn.Parameter(value.float()))
        self.gamma_log = nn.Parameter(0.5 * torch.log1p(-(decay**2)).float()) if config.normalization else None
        # Real and imaginary parts are interleaved, as in the memory of a complex tensor.
        self.b = nn.Parameter(torch.randn(size, 2, width) / math.sqrt(2 * width))
        self.c = nn.Parameter(torch.randn(width, size, 2) / math.sqrt(size))
        self.d = nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        initial = torch.complex(*(state or self.initial_state(len(x))))
        h = linear_recurrence(torch.complex(*self._decay()), torch.view_as_complex(self._drive(x)), initial, reset)
        return self._output(torch.view_as_real(h), x), (h[:, -1].real.clone(), h[:, -1].imag.clone())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        kept = product(self._decay(), state)
        real, imag = (part + new for part, new in zip(kept, self._drive(x).unbind(-1), strict=True))
        return self._output(torch.stack((real, imag), dim=-1), x), (real, imag)

    def recurrent_learning_rate(self, learning_rate: float) -> float:
        """Half the rate of the others (appendix B: lower; the half is `lr_factor` of Zucchet's minimal-LRU)."""
        return 0.5 * learning_rate

    def _decay(self) -> ComplexPair:
        """The real and imaginary parts of lambda, each (state_size,)."""
        first, second = (getattr(self, name) for name in self.lambda_names)
        if self.lambda_names == ("real", "imag"):
            return first, second
        is_log = self.lambda_names == ("nu_log", "theta_log")
        nu, theta = (torch.exp(first), torch.exp(second)) if is_log else (first, second)
        magnitude = torch.exp(-nu)
        return magnitude * torch.cos(theta), magnitude * torch.sin(theta)

    def _drive(self, x: Tensor) -> Tensor:
        """gamma * B x, (..., state_size, 2), in float32 also under autocast."""
        weight = self.b if self.gamma_log is None else self.b * torch.exp(self.gamma_log)[:, None, None]
        return F.linear(x, weight.flatten(0, 1)).to(self.b.dtype).unflatten(-1, (-1, 2))

    def _output(self, h: Tensor, x: Tensor) -> Tensor:
        """Re(C h) + D * x, with h as (..., state_size, 2)."""
        conjugate = torch.stack((self.c[..., 0], -self.c[..., 1]), dim=-1)
        return F.linear(h.flatten(-2), conjugate.flatten(1)) + self.d * x

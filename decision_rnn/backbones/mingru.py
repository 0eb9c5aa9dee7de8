"""minGRU: a GRU whose gate and candidate depend only on the input, so that it is a linear recurrence.

Feng et al., "Were RNNs All We Needed?" (2024), section 3.1 and appendix B:

    z_t = sigmoid(W_z x_t)                       update gate
    c_t = g(W_h x_t)                             candidate
    h_t = (1 - z_t) * h_{t-1} + z_t * c_t

with g(x) = x + 0.5 for x >= 0, sigmoid(x) otherwise (appendix B.2: it keeps the candidate positive, as the
paper's log-space scan requires).

A sigmoid never is 0, so that every step overwrites a little of the state. With `gate: stretched` a step may leave it
exactly as it is, as with the gate of GateL0RD (Gumbsch et al. 2021, arXiv 2110.15949):

    z_t = clip(1.2 sigmoid(W_z x_t) - 0.1, 0, 1)

with the stretch of the hard concrete distribution (Louizos et al. 2018, arXiv 1712.01312), without its noise. This
choice is ours. `init_half_life` then sets the bias only: as inputs vary, half-lives begin at 35 tokens or less, and
channels that begin with the longest ones are closed about half of the time. A closed gate has no gradient.

Deviations from the paper, and from the authors' code (BorealisAI/minRNNs):

- The recurrence is computed directly rather than, as with `scan: log`, in log space (ops/log_space.py), and both maps
  are one matrix product.
- h_0 = 0. The paper's log-space form applies g to a given h_0, so that zero becomes g(0) = 0.5; the authors' code can
  learn it, as g of a parameter. Here every linear recurrence starts an episode from zero, so that a reset is a mask
  without parameters or gradients of its own.
- The authors' code always projects h back to the width. Here this is done at expansions other than 1. Otherwise h
  itself is added to the residual stream, positive in every channel; subsequent norms and maps can remove that offset.
  Which scores better has not been measured.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from decision_rnn.backbones.contract import Layer, State, config_dataclass, register_backbone
from decision_rnn.backbones.ops.log_space import log_space_recurrence
from decision_rnn.backbones.ops.recurrence import STRETCH, gated_recurrence, log_odds, positive, stretch
from decision_rnn.backbones.time_scales import FadingConfig


@config_dataclass
class MinimalConfig(FadingConfig):
    """Options shared by minGRU and minLSTM.

    Attributes:
        expansion: Channels of the recurrent state as a multiple of `width`; if not 1, the state is projected back to
            `width`.
        scan: How a segment is computed: `direct`, step by step, exact and several times as fast on a CPU; or `log`,
            the paper's parallel scan in log space, for comparison, which loses precision as the segment grows.
        gate: `sigmoid`, or `stretched` and clipped, so that channels can keep what they hold over any number of steps;
            half-lives then begin at 35 tokens or less, whatever `init_half_life` is.
    """

    expansion: PositiveFloat = 1.0
    scan: Literal["direct", "log"] = "direct"
    gate: Literal["sigmoid", "stretched"] = "sigmoid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scan == "log" and self.gate == "stretched":
            raise ValueError("backbone.scan log takes logarithms, also of the gate: backbone.gate must be sigmoid")


@config_dataclass
class MinGRUConfig(MinimalConfig):
    """minGRU, "Were RNNs All We Needed?"."""

    name: str = "mingru"


@register_backbone(MinGRUConfig)
class MinGRU(Layer):
    """State: h, (batch, width * expansion)."""

    keep_gates: tuple[float, ...] = (-1.0,)
    """The gates, each with the sign with which its logit keeps the state."""

    def __init__(self, config: MinimalConfig) -> None:
        inner = round(config.width * config.expansion)
        super().__init__((inner,))
        self.log_space, self.stretched = config.scan == "log", config.gate == "stretched"
        self.gates = nn.Linear(config.width, (len(self.keep_gates) + 1) * inner)  # the candidate comes last
        bias = config.forget_gate_bias(inner)
        if self.stretched:  # of the sigmoid that is stretched to the fraction of these half-lives
            bias = torch.logit((torch.sigmoid(bias) + STRETCH) / (1 + 2 * STRETCH))
        shift = torch.cat([sign * bias for sign in self.keep_gates])
        self.gates.bias.data[: len(shift)] += shift
        self.output = nn.Linear(inner, config.width) if inner != config.width else nn.Identity()

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        (initial,) = state or self.initial_state(len(x))
        if self.log_space:
            odds, candidate = self._split(x, initial)
            log_candidate = torch.where(candidate >= 0, torch.log(F.relu(candidate) + 0.5), F.logsigmoid(candidate))
            h = log_space_recurrence(F.logsigmoid(-odds), F.logsigmoid(odds) + log_candidate, initial, reset)
        else:
            h = gated_recurrence(self.gates(x), initial, reset, self.stretched)
        return self.output(h), (h[:, -1].clone(),)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        odds, candidate = self._split(x, state[0])
        gate = torch.sigmoid(odds)
        gate = stretch(gate) if self.stretched else gate
        h = torch.lerp(state[0], positive(candidate), gate)
        return self.output(h), (h,)

    def _split(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """The log odds of z and the candidate before g, in float32, the dtype of h, also under autocast."""
        *gates, candidate = self.gates(x).to(h.dtype).chunk(len(self.keep_gates) + 1, dim=-1)
        return log_odds(gates), candidate

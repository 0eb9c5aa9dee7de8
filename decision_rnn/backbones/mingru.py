"""minGRU: a GRU whose gate and candidate depend only on the input, so that it is a linear recurrence.

Feng et al., "Were RNNs All We Needed?" (2024), section 3.1 and appendix B:

    z_t = sigmoid(W_z x_t)                       update gate
    c_t = g(W_h x_t)                             candidate
    h_t = (1 - z_t) * h_{t-1} + z_t * c_t

with g(x) = x + 0.5 for x >= 0, sigmoid(x) otherwise (appendix B.2: it keeps the candidate positive, as the
paper's log-space scan requires). With `candidate: signed`, g(x) = x, the plain form of section 3.1.

Deviations from the paper, and from the authors' code (BorealisAI/minRNNs):

- The recurrence is computed directly rather than in log space, and both maps are one matrix product.
- h_0 = 0. The paper's log-space form applies g to a given h_0, so that zero becomes g(0) = 0.5; the authors' code can
  learn it, as g of a parameter. Here every linear recurrence starts an episode from zero, so that a reset is a mask
  without parameters or gradients of its own.
- The authors' code always projects h back to the width. Here this is done at expansions other than 1 or with
  `projection`. Without it, h itself is added to the residual stream, positive in every channel (0.68 on average, once
  it has settled); subsequent norms and maps can remove that offset. No projection is the default because it trains
  better at equal parameters: equally well on hopper-medium, and on selective copying 93% of the tokens are right after
  1,000 steps, 78% with the projection (minLSTM 90% and 71%; 3 layers, 3 seeds).

The paper's log-space scan is available as `scan: log` (recurrence.py) for comparison: it does not support signed
candidates, loses precision as the slice grows, and makes the layer take four to five times as long (forward and
backward, batch 64, 20 steps, width 128, one CPU core). `step` is the same plain recurrence for both.
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.backbones.config import STRICT, register_backbone
from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.ops.recurrence import gated_recurrence, log_odds, log_space_recurrence, positive
from decision_rnn.backbones.time_scales import FadingConfig


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MinimalConfig(FadingConfig):
    """Options shared by minGRU and minLSTM.

    Attributes:
        expansion: Channels of the recurrent state as a multiple of `width`; if not 1, the state is projected back to
            `width`.
        projection: Whether the state is projected at expansion 1 too.
        candidate: `positive`, with g, as in the paper's experiments; or `signed`, without g.
        scan: How a slice of time is computed: `direct`, step by step, exact and faster on a CPU; or `log`, the
            paper's parallel scan in log space, which needs positive candidates.
    """

    expansion: Annotated[float, Field(gt=0)] = 1.0
    projection: bool = False
    candidate: Literal["positive", "signed"] = "positive"
    scan: Literal["direct", "log"] = "direct"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner < 1:
            raise ValueError(f"backbone.expansion {self.expansion} leaves no channel of backbone.width {self.width}")
        if self.scan == "log" and self.candidate == "signed":
            raise ValueError("backbone.scan log takes logarithms of candidates: backbone.candidate must be positive")

    @property
    def inner(self) -> int:
        """Channels of the recurrent state."""
        return round(self.width * self.expansion)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MinGRUConfig(MinimalConfig):
    """minGRU, "Were RNNs All We Needed?"."""

    name: str = "mingru"


@register_backbone(MinGRUConfig)
class MinGRU(SequenceMixer):
    """State: h, (batch, width * expansion)."""

    parts = 2  # pre-activations of a channel: the gates, then the candidate

    def __init__(self, config: MinimalConfig) -> None:
        super().__init__()
        self.inner = config.inner
        self.signed, self.log_space = config.candidate == "signed", config.scan == "log"
        self.gates = nn.Linear(config.width, self.parts * self.inner)
        self.shift_bias(self.gates.bias.data, config.forget_gate_bias(self.inner))
        projected = config.projection or self.inner != config.width
        self.output = nn.Linear(self.inner, config.width) if projected else nn.Identity()

    def shift_bias(self, bias: Tensor, shift: Tensor) -> None:
        """Add `shift`, (inner,), to the logits of keeping the state."""
        bias[: self.inner] -= shift

    def initial_state(self, batch_size: int) -> State:
        return (self.gates.weight.new_zeros(batch_size, self.inner),)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        (initial,) = self.initial_state(len(x)) if state is None else state
        if self.log_space:
            *gates, candidate = self.gates(x).to(initial.dtype).chunk(self.parts, dim=-1)
            odds = log_odds(gates)
            log_b = F.logsigmoid(odds) + log_positive(candidate)
            h = log_space_recurrence(F.logsigmoid(-odds), log_b, initial, reset)
        else:
            h = gated_recurrence(self.gates(x), initial, reset, self.signed)
        return self.output(h), (h[:, -1].clone(),)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        (h,) = state  # float32, also under autocast
        *gates, candidate = self.gates(x).to(h.dtype).chunk(self.parts, dim=-1)
        h = torch.lerp(h, candidate if self.signed else positive(candidate), torch.sigmoid(log_odds(gates)))
        return self.output(h), (h,)


def log_positive(x: Tensor) -> Tensor:
    """log g(x), finite where g(x) underflows (appendix B.2)."""
    return torch.where(x >= 0, torch.log(F.relu(x) + 0.5), F.logsigmoid(x))

"""minGRU: a GRU whose gate and candidate depend on the input alone, so that it is a linear recurrence.

Feng et al., "Were RNNs All We Needed?" (2024), section 3.1 and appendix B:

    z_t = sigmoid(W_z x_t)                       update gate
    c_t = g(W_h x_t)                             candidate
    h_t = (1 - z_t) * h_{t-1} + z_t * c_t

with g(x) = x + 0.5 for x >= 0, sigmoid(x) otherwise (appendix B.2: it keeps the candidate positive, as the
paper's log-space scan requires).

What differs: the recurrence is computed directly rather than in log space; h_0 = 0 rather than g(0);
both maps are one matrix product.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, SequenceMixer, State, register
from decision_rnn.backbones.recurrence import linear_recurrence


@dataclass(frozen=True, kw_only=True)
class MinGRUConfig(BackboneConfig):
    """minGRU, "Were RNNs All We Needed?".

    Attributes:
        expansion: Channels of the recurrent state over `width`; other than 1 it adds an output projection.
    """

    name: str = "mingru"
    expansion: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width * self.expansion < 1:
            raise ValueError(f"backbone.expansion {self.expansion} leaves no channel of backbone.width {self.width}")


@register(MinGRUConfig)
class MinGRU(SequenceMixer):
    """State: h, (batch, width * expansion)."""

    def __init__(self, config: MinGRUConfig) -> None:
        super().__init__()
        self.inner = round(config.width * config.expansion)
        self.gates = nn.Linear(config.width, 2 * self.inner)
        self.output = nn.Linear(self.inner, config.width) if self.inner != config.width else nn.Identity()

    def initial_state(self, batch_size: int) -> State:
        return (self.gates.weight.new_zeros(batch_size, self.inner),)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        (initial,) = self.initial_state(len(x)) if state is None else state
        z, candidate = self._gates(x)
        h = linear_recurrence(1 - z, z * candidate, initial, reset)
        return self.output(h), (h[:, -1].clone(),)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        (h,) = state
        z, candidate = self._gates(x)
        h = torch.lerp(h, candidate, z)
        return self.output(h), (h,)

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Update gate and candidate, in float32 also under autocast."""
        z, candidate = self.gates(x).to(self.gates.weight.dtype).chunk(2, dim=-1)
        return torch.sigmoid(z), positive(candidate)


def positive(x: Tensor) -> Tensor:
    """The paper's g: x + 0.5 for x >= 0, sigmoid(x) otherwise."""
    return _Positive.apply(x)


class _Positive(torch.autograd.Function):
    """g and its derivative without a `where`, which costs more than all the rest of it on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.maximum(x + 0.5, torch.sigmoid(x))  # sigmoid(x) > x + 0.5 exactly where x < 0
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        above = torch.ops.aten.threshold_backward(grads[0], x, 0)
        return torch.addcmul(above, grads[0] - above, y * (1 - y))

"""minLSTM: an LSTM whose gates depend on the input alone, so that it is a linear recurrence.

Feng et al., "Were RNNs All We Needed?" (2024), section 3.2 and appendix B:

    f_t = sigmoid(W_f x_t),  i_t = sigmoid(W_i x_t),  c_t = g(W_h x_t)
    f'_t = f_t / (f_t + i_t),  i'_t = i_t / (f_t + i_t)          length-independent scaling
    h_t = f'_t * h_{t-1} + i'_t * c_t

What differs: as for minGRU (mingru.py). The quotient is taken as f' = sigmoid(log f - log i), because f and i
both underflow for strongly negative gates.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, SequenceMixer, State, register
from decision_rnn.backbones.mingru import positive
from decision_rnn.backbones.recurrence import linear_recurrence


@dataclass(frozen=True, kw_only=True)
class MinLSTMConfig(BackboneConfig):
    """minLSTM, "Were RNNs All We Needed?".

    Attributes:
        expansion: Channels of the recurrent state over `width`; other than 1 it adds an output projection.
        forget_bias: Initial bias of the forget gate; larger remembers longer at the start of training.
    """

    name: str = "minlstm"
    expansion: float = 1.0
    forget_bias: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width * self.expansion < 1:
            raise ValueError(f"backbone.expansion {self.expansion} leaves no channel of backbone.width {self.width}")


@register(MinLSTMConfig)
class MinLSTM(SequenceMixer):
    """State: h, (batch, width * expansion)."""

    def __init__(self, config: MinLSTMConfig) -> None:
        super().__init__()
        self.inner = round(config.width * config.expansion)
        self.gates = nn.Linear(config.width, 3 * self.inner)
        with torch.no_grad():
            self.gates.bias[: self.inner] += config.forget_bias
        self.output = nn.Linear(self.inner, config.width) if self.inner != config.width else nn.Identity()

    def initial_state(self, batch_size: int) -> State:
        return (self.gates.weight.new_zeros(batch_size, self.inner),)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        (initial,) = self.initial_state(len(x)) if state is None else state
        forget, candidate = self._gates(x)
        h = linear_recurrence(forget, (1 - forget) * candidate, initial, reset)
        return self.output(h), (h[:, -1].clone(),)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        (h,) = state
        forget, candidate = self._gates(x)
        h = torch.lerp(candidate, h, forget)
        return self.output(h), (h,)

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised forget gate f' (the input gate is 1 - f') and candidate, in float32 also under autocast."""
        forget, insert, candidate = self.gates(x).to(self.gates.weight.dtype).chunk(3, dim=-1)
        return torch.sigmoid(F.logsigmoid(forget) - F.logsigmoid(insert)), positive(candidate)

"""Aaren, attention as a recurrent network: a learnt query over all steps of the episode so far.

Feng et al., "Attention as an RNN" (2024), section 3, with s_t = <q, k_t> / sqrt(head width):

    m_t = max(m_{t-1}, s_t)                                        running maximum
    a_t = a_{t-1} exp(m_{t-1} - m_t) + v_t exp(s_t - m_t)          numerator
    c_t = c_{t-1} exp(m_{t-1} - m_t) +     exp(s_t - m_t)          denominator
    o_t = a_t / c_t = sum_{s <= t} softmax_s(<q, k_s>) v_s

No exponent is ever above 0. The maximum is a scale on which o does not depend, so no gradient is taken through it; for
given maxima, (a, c) is a linear recurrence.

Deviations from the paper: the maxima are computed first, then the recurrence (recurrence.py); the paper scans the
triple.
"""

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.backbones.config import STRICT, BackboneConfig, PositiveInt, check_multiple, register_backbone
from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.ops.recurrence import linear_recurrence, running_max


@dataclass(frozen=True, kw_only=True, config=STRICT)
class AarenConfig(BackboneConfig):
    """Aaren, "Attention as an RNN".

    Attributes:
        heads: Attention heads, each with its own query.
    """

    name: str = "aaren"
    heads: PositiveInt = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiple(self.width, self.heads)


@register_backbone(AarenConfig)
class Aaren(SequenceMixer):
    """State: the maximum m, (batch, heads), minus infinity before the first step; and a followed by c,
    (batch, heads, head width + 1)."""

    forgets_slowly = True

    def __init__(self, config: AarenConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Parameter(torch.randn(config.heads, config.width // config.heads))
        self.kv = nn.Linear(config.width, 2 * config.width)
        self.output = nn.Linear(config.width, config.width)

    def initial_state(self, batch_size: int) -> State:
        heads, width = self.query.shape
        return (
            self.query.new_full((batch_size, heads), -torch.inf),
            self.query.new_zeros(batch_size, heads, width + 1),
        )

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        before, sums = self.initial_state(len(x)) if state is None else state
        score, value = self._score_and_value(x)
        top, earlier = running_max(score, before, reset)
        decay = torch.exp(earlier - top).unsqueeze(-1).expand_as(value)  # zero at resets, where `earlier` is -inf
        drive = value * torch.exp(score - top).unsqueeze(-1)
        sums = linear_recurrence(decay.flatten(2), drive.flatten(2), sums.flatten(1)).unflatten(2, (self.heads, -1))
        return self._output(sums), (top[:, -1].clone(), sums[:, -1].clone())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        before, sums = state
        score, value = self._score_and_value(x)
        top = torch.maximum(before, score).detach()
        sums = sums * torch.exp(before - top).unsqueeze(-1) + value * torch.exp(score - top).unsqueeze(-1)
        return self._output(sums), (top, sums)

    def _score_and_value(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """s, (..., heads), and v followed by a 1, (..., heads, head width + 1), in float32 also under autocast."""
        key, value = self.kv(x).to(self.query.dtype).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        score = (key * self.query).sum(-1) * self.query.shape[-1] ** -0.5
        return score, torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)

    def _output(self, sums: Tensor) -> Tensor:
        return self.output((sums[..., :-1] / sums[..., -1:]).flatten(-2))

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
from torch import Tensor, nn

from decision_rnn.backbones.contract import HeadsConfig, Layer, State, config_dataclass, register_backbone
from decision_rnn.backbones.ops.log_space import weighted_sums, weighted_sums_step


@config_dataclass
class AarenConfig(HeadsConfig):
    """Aaren, "Attention as an RNN". Each head has its own query."""

    name: str = "aaren"


@register_backbone(AarenConfig)
class Aaren(Layer):
    """State: the maximum m, (batch, heads), minus infinity before the first step; and a followed by c,
    (batch, heads, head width + 1)."""

    forgets_slowly = True

    def __init__(self, config: AarenConfig) -> None:
        heads, size = config.heads, config.width // config.heads
        super().__init__((heads,), (heads, size + 1), start=(-torch.inf, 0))
        self.query = nn.Parameter(torch.randn(heads, size))
        self.kv = nn.Linear(config.width, 2 * config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        maximum, sums = state or self.initial_state(len(x))
        sums, maxima, _ = weighted_sums(*self._score_and_value(x), maximum.unsqueeze(-1), sums, reset)
        return self._output(sums), (maxima[:, -1, :, 0].clone(), sums[:, -1].clone())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        sums, maximum = weighted_sums_step(*self._score_and_value(x), state[0].unsqueeze(-1), state[1])
        return self._output(sums), (maximum.squeeze(-1), sums)

    def _score_and_value(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """s, (..., heads, 1), and v followed by a 1, (..., heads, head width + 1), in float32 also under autocast."""
        key, value = self.kv(x).to(self.query.dtype).unflatten(-1, (2, len(self.query), -1)).unbind(-3)
        score = (key * self.query).sum(-1, keepdim=True) * self.query.shape[-1] ** -0.5
        return score, torch.cat([value, torch.ones_like(score)], dim=-1)

    def _output(self, sums: Tensor) -> Tensor:
        return self.output((sums[..., :-1] / sums[..., -1:]).flatten(-2))

"""RWKV-4: a weighted average of values whose weights fade at a learnt rate per channel, without queries.

Peng et al., "RWKV: Reinventing RNNs for the Transformer Era" (2023), section 3.1, time mixing, as in RWKV-4; with the
previous input x_{t-1}, zero before an episode's first step:

    r_t = W_r (mu_r * x_t + (1 - mu_r) * x_{t-1}),  k_t and v_t likewise           token shift
    a_t = exp(-w) a_{t-1} + exp(k_t) v_t,  b_t = exp(-w) b_{t-1} + exp(k_t)        w = exp(decay_log)
    wkv_t = (a_{t-1} + exp(u + k_t) v_t) / (b_{t-1} + exp(u + k_t))                 bonus u of the present
    y_t = W_o (sigmoid(r_t) * wkv_t)

Stabilised, as in the paper's appendix: a and b are stored divided by exp(m_t) with m_t = max(m_{t-1} - w, k_t), so that
no exponent is above 0. The output does not depend on m, so no gradient is taken through it; for given maxima, (a, b) is
a linear recurrence.

Deviations from the paper: channel mixing, the paper's feed-forward half with a token shift, squared ReLU and gate of
its own, is replaced by the MLP of the block that all mixers share (stack.py). exp(-w) starts from time_scales.py; the
authors' w, exp(-5) to exp(3), are half-lives from 0.03 to 103 steps. mu and u start as in the authors' first layer, in
all layers; the maps start as torch.nn.Linear, and w and u are trained at the same rate as the others (theirs two and
three times).
"""

from collections.abc import Iterable

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.backbones.config import STRICT, register_backbone
from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.ops.chunks import keep_mask
from decision_rnn.backbones.ops.recurrence import linear_recurrence, previous_states, running_max
from decision_rnn.backbones.time_scales import FadingConfig


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RWKVConfig(FadingConfig):
    """RWKV-4, "RWKV: Reinventing RNNs for the Transformer Era"."""

    name: str = "rwkv"


@register_backbone(RWKVConfig)
class RWKV(SequenceMixer):
    """State: the previous input, (batch, width); m, (batch, width), minus infinity before the first step; and a and b,
    (batch, 2 * width)."""

    def __init__(self, config: RWKVConfig) -> None:
        super().__init__()
        width = config.width
        part = torch.arange(width) / width
        self.mix = nn.Parameter(torch.stack([part.sqrt(), part, part]))  # of r, k and v
        self.receptance, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.decay_log = nn.Parameter(torch.log(-torch.log(config.decay(width))).float())
        self.bonus = nn.Parameter(torch.tensor(0.3).log() + 0.5 * ((torch.arange(width) + 1) % 3 - 1))

    def initial_state(self, batch_size: int) -> State:
        width = len(self.bonus)
        return (
            self.bonus.new_zeros(batch_size, width),
            self.bonus.new_full((batch_size, width), -torch.inf),
            self.bonus.new_zeros(batch_size, 2 * width),
        )

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        past, before, sums = self.initial_state(len(x)) if state is None else state
        x = x.to(past.dtype)
        keep = None if reset is None else keep_mask(reset, x.dtype)
        r, k, v = self._project(x, previous_states(x, past, keep))
        w = torch.exp(self.decay_log)
        top, earlier = running_max(k, before, reset, w.detach())
        decay = torch.exp(earlier - w - top).repeat(1, 1, 2)  # zero at resets, where `earlier` is minus infinity
        h = linear_recurrence(decay, _weighted(k - top, v), sums)
        y = self._read(r, k, v, earlier, previous_states(h, sums))
        return y, (x[:, -1].clone(), top[:, -1].clone(), h[:, -1].clone())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        past, before, sums = state
        x = x.to(past.dtype)
        r, k, v = self._project(x, past)
        faded = before - torch.exp(self.decay_log)
        top = torch.maximum(faded, k).detach()
        after = torch.exp(faded - top).repeat(1, 2) * sums + _weighted(k - top, v)
        return self._read(r, k, v, before, sums), (x.clone(), top, after)

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        return self.decay_log, self.bonus, self.mix

    def _project(self, x: Tensor, previous: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """r, k and v, (..., width), in float32 also under autocast."""
        r, k, v = (
            part(torch.lerp(previous, x, mix)).to(x.dtype)
            for part, mix in zip((self.receptance, self.key, self.value), self.mix, strict=True)
        )
        return r, k, v

    def _read(self, r: Tensor, k: Tensor, v: Tensor, before: Tensor, sums: Tensor) -> Tensor:
        """The output, from the state before the step: m and a followed by b."""
        present = self.bonus + k
        top = torch.maximum(before, present).detach()
        total = torch.exp(before - top).repeat(*[1] * (v.dim() - 1), 2) * sums + _weighted(present - top, v)
        numerator, denominator = total.chunk(2, dim=-1)
        return self.output(torch.sigmoid(r) * (numerator / denominator))


def _weighted(exponent: Tensor, v: Tensor) -> Tensor:
    """exp(exponent) v followed by exp(exponent), (..., 2 * width)."""
    weight = torch.exp(exponent)
    return torch.cat([weight * v, weight], dim=-1)

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

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import Layer, State, config_dataclass, register_backbone
from decision_rnn.backbones.ops.log_space import weighted_sums, weighted_sums_step
from decision_rnn.backbones.ops.recurrence import keep_mask, previous_states
from decision_rnn.backbones.time_scales import FadingConfig


@config_dataclass
class RWKVConfig(FadingConfig):
    """RWKV-4, "RWKV: Reinventing RNNs for the Transformer Era"."""

    name: str = "rwkv"


@register_backbone(RWKVConfig)
class RWKV(Layer):
    """State: the previous input, (batch, width); m, (batch, width), minus infinity before the first step; and a and b,
    (batch, 2 * width)."""

    recurrent_names = ("decay_log", "bonus", "mix")

    def __init__(self, config: RWKVConfig) -> None:
        width = config.width
        super().__init__((width,), (width,), (2 * width,), start=(0, -torch.inf, 0))
        part = torch.arange(width) / width
        self.mix = nn.Parameter(torch.stack([part.sqrt(), part, part]))  # of r, k and v
        self.receptance, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.decay_log = nn.Parameter(torch.log(-torch.log(config.decay(width))).float())
        self.bonus = nn.Parameter(torch.tensor(0.3).log() + 0.5 * ((torch.arange(width) + 1) % 3 - 1))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        past, maximum, sums = state or self.initial_state(len(x))
        x, sums = x.to(past.dtype), sums.unflatten(-1, (2, -1))
        keep = None if reset is None else keep_mask(reset, x.dtype)
        r, k, v = self._project(x, previous_states(x, past, keep))
        h, maxima, earlier = weighted_sums(k, v, maximum.unsqueeze(1), sums, reset, torch.exp(self.decay_log))
        y = self._read(r, k, v, earlier, previous_states(h, sums))
        return y, (x[:, -1].clone(), maxima[:, -1, 0].clone(), h[:, -1].flatten(1).clone())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        past, maximum, sums = state
        x, maximum, sums = x.to(past.dtype), maximum.unsqueeze(1), sums.unflatten(-1, (2, -1))
        r, k, v = self._project(x, past)
        after, new_maximum = weighted_sums_step(k, v, maximum, sums, torch.exp(self.decay_log))
        return self._read(r, k, v, maximum, sums), (x.clone(), new_maximum.squeeze(1), after.flatten(1))

    def _project(self, x: Tensor, previous: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """r, (..., width), k, (..., 1, width), and v followed by a 1, (..., 2, width), always in float32."""
        r, k, v = (
            part(torch.lerp(previous, x, mix)).to(x.dtype)
            for part, mix in zip((self.receptance, self.key, self.value), self.mix, strict=True)
        )
        return r, k.unsqueeze(-2), torch.stack([v, torch.ones_like(v)], dim=-2)

    def _read(self, r: Tensor, k: Tensor, v: Tensor, maximum: Tensor, sums: Tensor) -> Tensor:
        """The output, from the state before the step: m, and a followed by b."""
        total, _ = weighted_sums_step(self.bonus + k, v, maximum, sums)
        numerator, denominator = total.unbind(-2)
        return self.output(torch.sigmoid(r) * (numerator / denominator))

"""Retention, RetNet's linear attention in which every head forgets at a rate of its own.

Sun et al., "Retentive Network: A Successor to Transformer for Large Language Models" (2023), equations 5 to 8:

    r_t = sum_{s <= t} gamma^{t-s} Re(<q_t e^{i(t-s) theta}, k_s>) v_s                  parallel form
    S_t = gamma e^{i theta} S_{t-1} + k_t^T v_t,  r_t = Re(q_t S_t)                     recurrent form
    y_t = W_o (swish(W_g x_t) * norm(r_t))

with gamma = 1 - 2^{-5-head}, and a norm for every head. `forward` is the chunkwise form: parallel within blocks of
`CHUNK` steps, recurrent from block to block.

What differs: the state turns by theta at every step, where the paper turns q and k by their distance from the
beginning: the same function, without a position that grows. The scores are not normalised (section 2.3), since the
norm takes out any factor. The norm has no weights of its own.

Limits: an episode's first r is (q.k) v, which the norm divides by about |q.k|. Where that is near 0, the gradient of q
and k is the small rest of a cancellation, and in float32 it is off by some 1e-5 of the largest gradient (4e-5 seen).
A better sum would not mend it: in float64 from end to end, rounding q, k and v alone to float32 leaves up to 1e-5.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, SequenceMixer, State, register
from decision_rnn.backbones.ops.rotary import rotary_table, rotate
from decision_rnn.backbones.ops.segments import may_hold

CHUNK = 64


@dataclass(frozen=True, kw_only=True)
class RetentionConfig(BackboneConfig):
    """Retention, "Retentive Network".

    Attributes:
        heads: Heads, each with its own decay 1 - 2^(-5 - head).
        expansion: Channels of the values over `width`.
    """

    name: str = "retention"
    heads: int = 4
    expansion: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or self.width % (2 * self.heads):
            raise ValueError(f"backbone.width {self.width} must be a multiple of twice backbone.heads {self.heads}")
        inner = self.width * self.expansion
        if inner < self.heads or inner % self.heads:
            raise ValueError(
                f"backbone.expansion {self.expansion} of backbone.width {self.width} must give a multiple of "
                f"backbone.heads {self.heads}"
            )


@register(RetentionConfig)
class Retention(SequenceMixer):
    """State: S, (batch, heads, key width, value width); of the keys' complex coordinates each even row holds the
    real part, the row after it minus the imaginary part, so that r = q S in real numbers."""

    forgets_slowly = True

    gamma: Tensor
    cos: Tensor
    sin: Tensor

    def __init__(self, config: RetentionConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.inner = round(config.width * config.expansion)
        self.qkvg = nn.Linear(config.width, 2 * config.width + 2 * self.inner, bias=False)
        self.output = nn.Linear(self.inner, config.width, bias=False)
        cos, sin = rotary_table(CHUNK, config.width // config.heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        gamma = 1 - 2.0 ** -(5 + torch.arange(config.heads, dtype=torch.float64))
        self.register_buffer("gamma", gamma[:, None, None], persistent=False)

    def initial_state(self, batch_size: int) -> State:
        width = self.output.out_features
        return (self.output.weight.new_zeros(batch_size, self.heads, width // self.heads, self.inner // self.heads),)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        memory = None if state is None else state[0]
        q, k, v, gate = self._project(x)
        blocks = zip(q.split(CHUNK, dim=2), k.split(CHUNK, dim=2), v.split(CHUNK, dim=2), strict=True)
        mixed = []
        with torch.autocast(x.device.type, enabled=False):
            for i, block in enumerate(blocks):
                begins = None if reset is None else reset[:, i * CHUNK : (i + 1) * CHUNK]
                r, memory = self._chunk(*block, memory, begins)
                mixed.append(r)
        assert memory is not None
        return self._output(torch.cat(mixed, dim=2).transpose(1, 2), gate), (memory,)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        q, k, v, gate = self._project(x.unsqueeze(1))
        memory = self._next(state[0]) + k.transpose(-1, -2) * v
        r = (q.transpose(-1, -2) * memory).sum(-2)
        return self._output(r, gate.squeeze(1)), (memory,)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values, (batch, heads, time, head width), and the gate, in float32 also under
        autocast."""
        width = self.output.out_features
        joint = self.qkvg(x).to(self.output.weight.dtype)
        q, k, v, gate = joint.split((width, width, self.inner, self.inner), dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        return q, k * k.shape[-1] ** -0.5, v, gate

    def _chunk(
        self, q: Tensor, k: Tensor, v: Tensor, memory: Tensor | None, begins: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """A block of steps in parallel: r and the state after it. `begins`: (batch, time) where an episode does."""
        time = q.shape[2]
        age = torch.arange(time, device=q.device)
        cos, sin = self.cos[:time].to(q.dtype), self.sin[:time].to(q.dtype)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        gamma = self.gamma.to(q.dtype)
        within = torch.where(age[:, None] >= age, gamma ** (age[:, None] - age).clamp_min(0), 0)
        since, until = gamma[..., 0] ** age, gamma[..., 0] ** (time - 1 - age)  # the block's first step, its last
        if begins is not None and may_hold(begins):
            segment = begins.cumsum(1)
            within = within * (segment[:, :, None] == segment[:, None, :]).unsqueeze(1)
            since = since * (segment == 0).unsqueeze(1)
            until = until * (segment == segment[:, -1:]).unsqueeze(1)
        r = (q @ k.transpose(-1, -2) * within) @ v
        after = k.transpose(-1, -2) @ (v * until.unsqueeze(-1))
        if memory is not None:
            before = self._next(memory)
            r = r + (q * since.unsqueeze(-1)) @ before
            after = after + since[..., -1, None, None] * before
        return r, _turn(after, cos[-1, :, None], sin[-1, :, None])

    def _next(self, memory: Tensor) -> Tensor:
        """gamma e^{i theta} S: what is left of the state one step later."""
        cos, sin = self.gamma * self.cos[1, :, None], self.gamma * self.sin[1, :, None]
        return _turn(memory, cos.to(memory.dtype), sin.to(memory.dtype))

    def _output(self, r: Tensor, gate: Tensor) -> Tensor:
        """From r, (..., heads, value width)."""
        return self.output(F.silu(gate) * F.layer_norm(r, r.shape[-1:]).flatten(-2))


def _turn(memory: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """e^{i angle} S, for angles whose cos and sin, (..., key width / 2, 1), are given."""
    first, second = memory.unflatten(-2, (-1, 2)).unbind(-2)
    return torch.stack((first * cos + second * sin, second * cos - first * sin), dim=-2).flatten(-3, -2)

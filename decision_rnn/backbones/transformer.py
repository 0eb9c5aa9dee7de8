"""Local causal self-attention with rotary positions; its memory is the last `window` steps.

Vaswani et al., "Attention Is All You Need" (2017); rotary positions after Su et al., "RoFormer" (2021),
equation 34. Step t attends to the steps t - window < s <= t of its own episode:

    y_t = W_o sum_s softmax_s(<R_t q_t, R_s k_s> / sqrt(head_width)) v_s

With `output_gate`, the heads' outputs are multiplied by sigmoid(W_g x_t) before W_o, after Qiu et al., "Gated Attention
for Large Language Models" (2025).

The band is the same in parallel mode and in `step`, so the layer keeps the contract. Over several layers a
carried memory reaches back further than `window`, unlike re-running a window (WindowActor).

What differs from the Decision Transformer, whose layers are those of GPT-2:

- Positions are relative, by rotation of whole heads with theta 10000^(-2j / head width), since a position counted
  inside a window changes as the window moves. There is no decay with distance and no xPos. Keys are stored unrotated
  and rotated by their place in the window when read, which is exact after any number of steps.
- Reach: a band of `window` tokens rather than the whole slice.
- Initialisation: that of torch.nn.Linear; GPT-2's weights have a standard deviation of 0.02 and its biases are zero.
- Dropout: on the branch's output only, not on the attention weights.
- Norm and MLP are the shared block's (stack.py): LayerNorm before either branch, and ReLU, as in the authors' code.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, SequenceMixer, State, register
from decision_rnn.backbones.ops.rotary import rotary_table, rotate, rotate_step
from decision_rnn.backbones.ops.segments import fill_steps, keep_apart
from decision_rnn.backbones.resets import Resets


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BackboneConfig):
    """Transformer with local causal attention.

    Attributes:
        heads: Attention heads; their width must be even.
        window: How many tokens, including itself, a token attends to.
        output_gate: Whether the attention's output is multiplied by a sigmoid gate computed from the token.
    """

    name: str = "transformer"
    heads: int = 1
    window: int = 20
    output_gate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or self.window < 1:
            raise ValueError(f"backbone.heads {self.heads} and backbone.window {self.window} must be at least 1")
        if self.width % (2 * self.heads):
            raise ValueError(f"backbone.width {self.width} must be a multiple of twice backbone.heads {self.heads}")


@register(TransformerConfig)
class Transformer(SequenceMixer):
    """State: the last `window` keys and values, oldest first, (batch, window, width), and how many of them
    are written, (batch,). Unwritten entries are NaN, so that reading one by mistake shows."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.window = config.heads, config.window
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)
        self.gate = nn.Linear(config.width, config.width) if config.output_gate else None
        cos, sin = rotary_table(2 * config.window, config.width // config.heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def initial_state(self, batch_size: int) -> State:
        weight = self.output.weight
        unwritten = weight.new_full((batch_size, self.window, weight.shape[0]), torch.nan)
        return unwritten, unwritten.clone(), torch.zeros(batch_size, dtype=torch.int64, device=weight.device)

    def forward(self, x: Tensor, state: State | None = None, reset: Resets | None = None) -> tuple[Tensor, State]:
        mask = None if reset is None else reset.mask
        return keep_apart(self._masked, x, state, self.initial_state, mask)

    def _masked(self, x: Tensor, state: State | None, reset: Tensor | None) -> tuple[Tensor, State]:
        """`forward`, correct if all numbers are finite."""
        batch, time, _ = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        segment = torch.zeros(batch, time, dtype=torch.int64, device=x.device) if reset is None else reset.cumsum(1)
        fits = state is None and time <= self.window
        if fits:  # the usual training slice: one block without earlier steps
            past, block = 0, time
        else:
            past, block = self.window, self.window
            past_k, past_v, count = self.initial_state(batch) if state is None else state
            written = torch.arange(past, device=x.device) >= past - count[:, None]
            k = torch.cat([fill_steps(past_k, ~written, 0).to(k.dtype), k], dim=1)
            v = torch.cat([fill_steps(past_v, ~written, 0).to(v.dtype), v], dim=1)
            segment = torch.cat([torch.where(written, 0, -1), segment], dim=1)

        # Queries are split into blocks of `window`; each block attends to itself and the block before it.
        pad = -time % block
        blocks = (time + pad) // block
        query = self._heads(F.pad(q, (0, 0, 0, pad)).view(batch, blocks, block, -1))
        key, value, key_segment = k, v, segment
        if pad:
            key, value = F.pad(k, (0, 0, 0, pad)), F.pad(v, (0, 0, 0, pad))
            key_segment = F.pad(segment, (0, pad), value=-2)
        query_segment = key_segment[:, past:].view(batch, blocks, block)
        key_segment = key_segment.unfold(1, past + block, block)
        key, value = (self._heads(_blocks(part, past + block, block)) for part in (key, value))

        place = torch.arange(past + block, device=x.device)
        age = place[past:, None] - place
        visible = (age >= 0) & (age < self.window)
        if reset is not None or not fits:
            same = query_segment[..., :, None] == key_segment[..., None, :]
            visible = (visible & same).unsqueeze(2)
        query, key = rotate(query, *self._angles(query, past)), rotate(key, *self._angles(key, 0))
        mixed = self._attend(query, key, value, visible)
        mixed = mixed.transpose(2, 3).reshape(batch, blocks * block, -1)[:, :time]
        return self._output(mixed, x), self._final_state(k, v, segment)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        keys, values, count = state
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        keys = torch.cat([keys[:, 1:], k.unsqueeze(1)], dim=1)
        values = torch.cat([values[:, 1:], v.unsqueeze(1)], dim=1)
        count = (count + 1).clamp_max(self.window)
        written = torch.arange(self.window, device=x.device) >= self.window - count[:, None]
        key, value = (self._heads(fill_steps(part, ~written, 0)) for part in (keys, values))
        query = self._heads(q.unsqueeze(1))
        query, key = rotate_step(query, *self._angles(query, self.window - 1)), rotate_step(key, *self._angles(key, 0))
        mixed = self._attend(query, key, value, written[:, None, None])
        return self._output(mixed.flatten(1), x), (keys, values, count)

    def _heads(self, x: Tensor) -> Tensor:
        """(..., time, width) -> (..., heads, time, head width)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def _angles(self, x: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """cos and sin for the positions start, start + 1, ... of x, (..., time, head width)."""
        places = slice(start, start + x.shape[-2])
        return self.cos[places], self.sin[places]

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        """Softmax attention written out, which on a CPU is faster than the fused kernel on short sequences."""
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return torch.softmax(scores.masked_fill(~visible, -torch.inf), dim=-1).to(v.dtype) @ v

    def _output(self, mixed: Tensor, x: Tensor) -> Tensor:
        return self.output(mixed if self.gate is None else mixed * torch.sigmoid(self.gate(x)))

    def _final_state(self, k: Tensor, v: Tensor, segment: Tensor) -> State:
        """The newest `window` keys and values, NaN where they belong to an earlier episode or to none."""
        # Copied, since views would keep the whole slice in memory.
        keys, values = (part[:, -self.window :].to(self.output.weight.dtype, copy=True) for part in (k, v))
        current = segment[:, -self.window :] == segment[:, -1:]
        keys, values = fill_steps(keys, ~current, torch.nan), fill_steps(values, ~current, torch.nan)
        missing = self.window - keys.shape[1]
        if missing:
            keys = F.pad(keys, (0, 0, missing, 0), value=torch.nan)
            values = F.pad(values, (0, 0, missing, 0), value=torch.nan)
        return keys, values, current.sum(1)


def _blocks(x: Tensor, length: int, stride: int) -> Tensor:
    """Overlapping pieces of x, (batch, time, width), as (batch, blocks, length, width)."""
    if x.shape[1] == length:  # avoids the slow backward pass of `unfold`
        return x.unsqueeze(1)
    return x.unfold(1, length, stride).transpose(-1, -2)

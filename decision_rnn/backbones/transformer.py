"""Local causal self-attention with rotary positions; its memory is the last `window` steps.

Vaswani et al., "Attention Is All You Need" (2017); rotary positions after Su et al., "RoFormer" (2021),
equation 34. Step t attends to the steps t - window < s <= t of its own episode:

    y_t = W_o sum_s softmax_s(<R_t q_t, R_s k_s> / sqrt(head_width)) v_s

The band is the same in parallel mode and in `step`, so the layer keeps the contract. Over several layers a
carried memory reaches back further than `window`, unlike re-running a window.

Deviations from the Decision Transformer, whose layers are those of GPT-2:

- Positions are relative, by rotation of whole heads with theta 10000^(-2j / head width), since a position counted
  inside a window changes as the window moves. There is no decay with distance and no xPos. Keys are stored unrotated
  and rotated by their place in the window when read, which is exact after any number of steps.
- Reach: a band of `window` tokens rather than the whole segment.
- Initialisation: that of torch.nn.Linear; GPT-2's weights have a standard deviation of 0.02 and its biases are zero.
- Dropout: on the branch's output only, not on the attention weights.
- Norm and MLP are the shared block's (stack.py): LayerNorm before either branch, and ReLU, as in the authors' code.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import HeadsConfig, SequenceMixer, State, register_backbone
from decision_rnn.backbones.ops.chunks import run_chunks
from decision_rnn.backbones.ops.complex_pairs import rotary_table, rotate, rotate_step
from decision_rnn.utils.parsing import PositiveInt, config_dataclass


@config_dataclass
class TransformerConfig(HeadsConfig):
    """Transformer with local causal attention.

    Attributes:
        heads: Attention heads; their width must be even.
        window: How many tokens, including itself, a token attends to.
    """

    name: str = "transformer"
    heads: PositiveInt = 1
    window: PositiveInt = 20
    rotary = True


@register_backbone(TransformerConfig)
class Transformer(SequenceMixer):
    """State: the last `window` keys and values, oldest first, (batch, window, width), and how many of them
    are written, (batch,). Unwritten entries are NaN, so that reading one by mistake shows."""

    rotations: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.window = config.heads, config.window
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)
        table = rotary_table(2 * config.window, config.width // config.heads)
        self.register_buffer("rotations", table, persistent=False)

    def initial_state(self, batch_size: int) -> State:
        weight = self.output.weight
        unwritten = weight.new_full((batch_size, self.window, weight.shape[0]), torch.nan)
        return unwritten, unwritten.clone(), torch.zeros(batch_size, dtype=torch.int64, device=weight.device)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        mixed, after = run_chunks(self._chunk, (self.qkv(x),), state, reset, self.window)
        return self.output(mixed), after

    def _chunk(self, qkv: Tensor, state: State | None, episode: Tensor) -> tuple[Tensor, State]:
        """A chunk of at most `window` steps: the heads' outputs, (batch, time, width), and the state after it."""
        q, keys, values = qkv.chunk(3, dim=-1)
        time, past = q.shape[1], 0
        if state is not None:
            past, written = self.window, self._written(state[2])
            keys, values = (
                torch.cat([torch.where(written.unsqueeze(-1), old, 0).to(new.dtype), new], dim=1)
                for old, new in zip(state[:2], (keys, values), strict=True)
            )
            episode = torch.cat([written.long() - 1, episode], dim=1)  # -1: unwritten
        place = torch.arange(past + time, device=q.device)
        age = place[past:, None] - place
        visible = (age >= 0) & (age < self.window) & (episode[:, past:, None] == episode[:, None])
        mixed = self._attend(q, keys, values, visible.unsqueeze(1), rotate)
        own = F.pad(episode[:, -self.window :] == episode[:, -1:], (max(0, self.window - past - time), 0))
        unwritten = torch.zeros_like(own, dtype=keys.dtype).masked_fill(~own, torch.nan).unsqueeze(-1)
        keys, values = (  # padding is faster than filling, and a copy: a view would keep the whole segment in memory
            F.pad(part, (0, 0, max(0, self.window - past - time), 0))[:, -self.window :].add(unwritten)
            for part in (keys, values)
        )
        dtype = self.output.weight.dtype
        return mixed, (keys.to(dtype), values.to(dtype), own.sum(1))

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, dim=-1)
        keys, values = torch.cat([state[0][:, 1:], k], dim=1), torch.cat([state[1][:, 1:], v], dim=1)
        count = (state[2] + 1).clamp_max(self.window)
        written = self._written(count)
        key, value = (torch.where(written.unsqueeze(-1), part, 0) for part in (keys, values))
        mixed = self._attend(q, key, value, written[:, None, None], rotate_step)
        return self.output(mixed.squeeze(1)), (keys, values, count)

    def _written(self, count: Tensor) -> Tensor:
        """The entries of the state that are written, (batch, window)."""
        return torch.arange(self.window, device=count.device) >= self.window - count[:, None]

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor, rotate: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Softmax attention of the last keys' queries, all (batch, time, width), written out, which on a CPU is faster
        than the fused kernel on short sequences."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for part in (q, k, v))
        keys, queries = slice(k.shape[-2]), slice(k.shape[-2] - q.shape[-2], k.shape[-2])
        q, k = rotate(q, self.rotations[:, queries]), rotate(k, self.rotations[:, keys])
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        weights = torch.softmax(scores.masked_fill(~visible, -torch.inf), dim=-1).to(v.dtype)
        return (weights @ v).transpose(1, 2).flatten(2)

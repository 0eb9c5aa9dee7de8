"""The residual stack that all mixers share, so that backbones differ only in their mixers."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, SequenceMixer, State, registered
from decision_rnn.backbones.conv import Conv, ConvConfig

Call = Callable[[Any, Tensor, State | None], tuple[Tensor, State]]
"""Calls `forward` or `step` of a mixer."""


class Block(SequenceMixer):
    """Pre-norm residual block: x + mixer(norm(x)), then x + mlp(norm(x)). State: the mixer's.

    The MLP uses ReLU, as in the Decision Transformer; GELU costs three times as much on a CPU.

    With `convolution`, x + convolution(x) comes first, and its state precedes the mixer's; with `mlp_ratio` 0 there is
    no MLP. The block of "Were RNNs All We Needed?" (models/model.py of BorealisAI/minRNNs) corresponds to
    `convolution: 4` and `norm: rms`, and for selective copying also `mlp_ratio: 0` and the mixer's `expansion: 6`.
    """

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        hidden = round(config.width * config.mlp_ratio)
        kernel = config.convolution
        self.convolution = Conv(ConvConfig(width=config.width, kernel=kernel)) if kernel else None
        self.mixer_norm = make_norm(config)
        self.mixer = registered(config.name).cls(config)
        self.mlp: Any = None
        if hidden:
            self.mlp_norm = make_norm(config)
            self.mlp = nn.Sequential(nn.Linear(config.width, hidden), nn.ReLU(), nn.Linear(hidden, config.width))
        self.dropout = nn.Dropout(config.dropout)

    def initial_state(self, batch_size: int) -> State:
        past = () if self.convolution is None else self.convolution.initial_state(batch_size)
        return *past, *self.mixer.initial_state(batch_size)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        return self._run(x, state, lambda mixer, x, state: mixer(x, state, reset))

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self._run(x, state, lambda mixer, x, state: mixer.step(x, state))

    def _run(self, x: Tensor, state: State | None, call: Call) -> tuple[Tensor, State]:
        past: State = ()
        drop: Any = self.dropout if self.training else lambda x: x  # the overhead of a module matters where agents act
        if self.convolution is not None:
            mixed, past = call(self.convolution, x, state and state[:1])
            x = x + drop(mixed)
        mixed, after = call(self.mixer, self.mixer_norm(x), state and state[len(past) :])
        x = x + drop(mixed)
        if self.mlp is not None:
            x = x + drop(self.mlp(self.mlp_norm(x)))
        return x, (*past, *after)


class Backbone(SequenceMixer):
    """`layers` blocks and a final norm; itself a sequence mixer. State: the blocks' states, one after another."""

    blocks: Any

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        for below, block in pairwise(self.blocks):
            block.mixer.place_above(below.mixer)
        self.norm = make_norm(config)

    def initial_state(self, batch_size: int) -> State:
        return tuple(part for block in self.blocks for part in block.initial_state(batch_size))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        return self._run(x, state, lambda block, x, state: block(x, state, reset))

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self._run(x, state, lambda block, x, state: block.step(x, state))

    def _run(self, x: Tensor, state: State | None, call: Call) -> tuple[Tensor, State]:
        x = self.dropout(x) if self.training else x
        size = len(state or ()) // len(self.blocks)
        after: State = ()
        for i, block in enumerate(self.blocks):
            x, parts = call(block, x, state and state[i * size : (i + 1) * size])
            after += parts
        return self.norm(x), after


def make_norm(config: BackboneConfig) -> nn.Module:
    """The configured norm over the channels."""
    return nn.LayerNorm(config.width) if config.norm == "layer" else nn.RMSNorm(config.width, eps=1e-5)

"""The residual stack that all mixers share, so that backbones differ only in their mixers."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, cast

from torch import Tensor, nn

from decision_rnn.backbones.config import BackboneConfig, registered
from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.convolution import CausalConvolution


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
        self.convolution = CausalConvolution(config.width, config.convolution) if config.convolution else None
        self.mixer_norm = make_norm(config)
        self.mixer = registered(config.name).cls(config)
        self.mlp_norm, self.mlp = None, None
        if hidden:
            self.mlp_norm = make_norm(config)
            self.mlp = nn.Sequential(nn.Linear(config.width, hidden), nn.ReLU(), nn.Linear(hidden, config.width))
        self.dropout = nn.Dropout(config.dropout)

    def initial_state(self, batch_size: int) -> State:
        past = () if self.convolution is None else self.convolution.initial_state(batch_size)
        return *past, *self.mixer.initial_state(batch_size)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        past: State = ()
        if self.convolution is not None:
            mixed, past = self.convolution(x, None if state is None else state[:1], reset)
            x = x + self._drop(mixed)
        mixed, state = self.mixer(self.mixer_norm(x), None if state is None else state[len(past) :], reset)
        return self._mlp(x + self._drop(mixed)), (*past, *state)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        past: State = ()
        if self.convolution is not None:
            mixed, past = self.convolution.step(x, state[:1])
            x = x + self._drop(mixed)
        mixed, state = self.mixer.step(self.mixer_norm(x), state[len(past) :])
        return self._mlp(x + self._drop(mixed)), (*past, *state)

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        return self.mixer.recurrent_parameters()

    def _mlp(self, x: Tensor) -> Tensor:
        if self.mlp is None or self.mlp_norm is None:
            return x
        return x + self._drop(self.mlp(self.mlp_norm(x)))

    def _drop(self, x: Tensor) -> Tensor:
        """Dropout; the module call is skipped in evaluation mode, where its overhead matters."""
        return self.dropout(x) if self.training else x


class Backbone(SequenceMixer):
    """`layers` blocks and a final norm; itself a sequence mixer. State: the blocks' states, one after another."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        for below, block in pairwise(self._blocks()):
            block.mixer.place_above(below.mixer)
        self.norm = make_norm(config)

    def initial_state(self, batch_size: int) -> State:
        return tuple(part for block in self._blocks() for part in block.initial_state(batch_size))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        x = self.dropout(x)
        after: list[Tensor] = []
        for block, before in zip(self._blocks(), self._split(state), strict=True):
            x, parts = block(x, before, reset)
            after.extend(parts)
        return self.norm(x), tuple(after)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        x = self.dropout(x) if self.training else x
        after: list[Tensor] = []
        for block, before in zip(self._blocks(), self._split(state), strict=True):
            x, parts = block.step(x, before)
            after.extend(parts)
        return self.norm(x), tuple(after)

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        for block in self._blocks():
            yield from block.recurrent_parameters()

    def _blocks(self) -> list[Block]:
        return cast(list[Block], list(self.blocks))

    def _split(self, state: State | None) -> list[Any]:
        """The state of each block, equal parts of the stack's state, or None for each."""
        if state is None:
            return [None] * len(self.blocks)
        size = len(state) // len(self.blocks)  # 0 for a mixer without memory
        return [state[i * size : (i + 1) * size] for i in range(len(self.blocks))]


def make_norm(config: BackboneConfig) -> nn.Module:
    """The configured norm over the channels."""
    return nn.LayerNorm(config.width) if config.norm == "layer" else nn.RMSNorm(config.width, eps=1e-5)

"""The residual stack that all mixers share, so that a comparison of backbones compares the mixers alone."""

from collections.abc import Iterable
from typing import Any, cast

from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, SequenceMixer, State, registered


class Block(nn.Module):
    """Pre-norm residual block: x + mixer(norm(x)), then x + mlp(norm(x)).

    The MLP has the Decision Transformer's ReLU; GELU costs three times as much on a CPU.
    """

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        hidden = round(config.width * config.mlp_ratio)
        self.mixer_norm = nn.LayerNorm(config.width)
        self.mixer = registered(config.name).mixer(config)
        self.mlp_norm = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(nn.Linear(config.width, hidden), nn.ReLU(), nn.Linear(hidden, config.width))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, state: State | None, reset: Tensor | None) -> tuple[Tensor, State]:
        mixed, state = self.mixer(self.mixer_norm(x), state, reset)
        x = x + self.dropout(mixed)
        return x + self.dropout(self.mlp(self.mlp_norm(x))), state

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        mixed, state = self.mixer.step(self.mixer_norm(x), state)
        x = x + self.dropout(mixed)
        return x + self.dropout(self.mlp(self.mlp_norm(x))), state


class Backbone(SequenceMixer):
    """`layers` blocks and a final norm; itself a sequence mixer. State: the blocks' states, one after another."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)

    def initial_state(self, batch_size: int) -> State:
        return tuple(part for block in self._blocks() for part in block.mixer.initial_state(batch_size))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        x = self.dropout(x)
        after: list[Tensor] = []
        for block, before in zip(self._blocks(), self._split(state), strict=True):
            x, parts = block(x, before, reset)
            after.extend(parts)
        return self.norm(x), tuple(after)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        x = self.dropout(x)
        after: list[Tensor] = []
        for block, before in zip(self._blocks(), self._split(state), strict=True):
            x, parts = block.step(x, before)
            after.extend(parts)
        return self.norm(x), tuple(after)

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        for block in self._blocks():
            yield from block.mixer.recurrent_parameters()

    def _blocks(self) -> list[Block]:
        return cast(list[Block], list(self.blocks))

    def _split(self, state: State | None) -> list[Any]:
        """The blocks' own states: equal shares of the stack's, or None for each."""
        if state is None:
            return [None] * len(self.blocks)
        size = len(state) // len(self.blocks)
        return [state[i : i + size] for i in range(0, len(state), size)]

"""GRU, LSTM and RNN by torch's recurrent layers, between the steps at which episodes begin."""

from typing import Any

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import SequenceMixer, State, without_autocast
from decision_rnn.backbones.ops.chunks import keep_mask, pieces


class TorchRNN(SequenceMixer):
    """A mixer that is one of torch's recurrent layers. State: its own, h and for an LSTM c, each (batch, width).

    Under autocast, LSTM computes in half precision, with the cell in float32; the others in float32, since torch would
    round their gates.

    Args:
        cell: The layer, batch first.
    """

    cell: Any

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__()
        self.cell = cell
        self.states = 2 if isinstance(cell, nn.LSTM) else 1

    def initial_state(self, batch_size: int) -> State:
        zeros = next(self.cell.parameters()).new_zeros(batch_size, self.cell.hidden_size)
        return tuple(zeros.clone() for _ in range(self.states))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        state = self.initial_state(len(x)) if state is None else state
        if self.states == 2:
            return self._run(x, state, reset)
        with without_autocast(x):
            return self._run(x.to(state[0].dtype), state, reset)

    def _run(self, x: Tensor, state: State, reset: Tensor | None) -> tuple[Tensor, State]:
        outputs, dtype = [], state[0].dtype
        for piece in pieces(reset, x.shape[1]):
            if reset is not None:
                state = tuple(part * keep_mask(reset[:, piece.start, None], dtype)[:, 0] for part in state)
            before = tuple(part.unsqueeze(0) for part in state)
            y, after = self.cell(x[:, piece], before if self.states == 2 else before[0])
            state = tuple(part[0].to(dtype) for part in (after if self.states == 2 else (after,)))
            outputs.append(y)
        return torch.cat(outputs, dim=1), state

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        with without_autocast(x):
            return self.step_cell(x.to(state[0].dtype), state)

    def step_cell(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One step by torch's cell: the output and the state after it."""
        raise NotImplementedError

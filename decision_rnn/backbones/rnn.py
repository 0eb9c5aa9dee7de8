"""The simple recurrent network.

Elman, "Finding Structure in Time" (1990), in the form of torch.nn.RNN:

    h_t = tanh(W x_t + U h_{t-1} + b)

GRU and LSTM share its class: torch's layers run between resets. On CUDA, segments of up to `MAX_LOOP_STEPS` are
computed by one `step` after another: the host then need not know where resets are, and training can be captured as a
graph.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import (
    BackboneConfig,
    Layer,
    State,
    register_backbone,
    run_stepwise,
    without_autocast,
)
from decision_rnn.backbones.ops.chunks import run_between_resets
from decision_rnn.utils.parsing import config_dataclass

MAX_LOOP_STEPS = 64
"""The length of the longest segment that is computed step by step on CUDA."""


@config_dataclass
class RNNConfig(BackboneConfig):
    """Simple recurrent network, "Finding Structure in Time"."""

    name: str = "rnn"


class TorchRNN(Layer):
    """A mixer that is one of torch's recurrent layers. State: its own, h and for an LSTM c, each (batch, width).

    Under autocast, torch's LSTM computes in half precision, with the cell in float32; the others, and an LSTM step by
    step, in float32, since torch would round their gates.

    Args:
        cell: The layer, batch first.
    """

    cell: Any
    cell_step: ClassVar[Callable[..., Any]]
    """torch's function for one step of the layer."""

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__(*[(cell.hidden_size,)] * (2 if isinstance(cell, nn.LSTM) else 1))
        self.cell = cell

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.cell.flatten_parameters()  # cuDNN would copy weights that are not contiguous at every call

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        if x.device.type != "cpu" and reset is not None and x.shape[1] <= MAX_LOOP_STEPS:
            return run_stepwise(self, x, state, reset)
        state = state or self.initial_state(len(x))
        if len(state) == 2:
            return run_between_resets(self._run, (x,), state, reset)
        with without_autocast(x):
            return run_between_resets(self._run, (x.to(state[0].dtype),), state, reset)

    def _run(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        before = tuple(part.unsqueeze(0) for part in state)
        y, after = self.cell(x, before if len(before) == 2 else before[0])
        return y, tuple(part[0].to(state[0].dtype) for part in (after if len(before) == 2 else (after,)))

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        with without_autocast(x):
            before = state if len(state) == 2 else state[0]
            after = self.cell_step(x.to(state[0].dtype), before, *self.cell.all_weights[0])
        return (after[0], after) if len(state) == 2 else (after, (after,))


@register_backbone(RNNConfig)
class RNN(TorchRNN):
    """State: h, (batch, width)."""

    cell_step = staticmethod(torch.rnn_tanh_cell)

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(nn.RNN(config.width, config.width, batch_first=True))

"""The simple recurrent network.

Elman, "Finding Structure in Time" (1990), in the form of torch.nn.RNN:

    h_t = tanh(W x_t + U h_{t-1} + b)
"""

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from decision_rnn.backbones.config import STRICT, BackboneConfig, register_backbone
from decision_rnn.backbones.contract import State
from decision_rnn.backbones.torch_rnn import TorchRNN


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RNNConfig(BackboneConfig):
    """Simple recurrent network, "Finding Structure in Time"."""

    name: str = "rnn"


@register_backbone(RNNConfig)
class RNN(TorchRNN):
    """State: h, (batch, width)."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(nn.RNN(config.width, config.width, batch_first=True))

    def step_cell(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h = torch.rnn_tanh_cell(x, state[0], *self.cell.all_weights[0])
        return h, (h,)

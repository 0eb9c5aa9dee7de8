"""The simple recurrent network.

Elman, "Finding Structure in Time" (1990), in the form of torch.nn.RNN:

    h_t = tanh(W x_t + U h_{t-1} + b)
"""

import torch
from torch import nn

from decision_rnn.backbones.contract import BackboneConfig, options, register_backbone
from decision_rnn.backbones.torch_rnn import TorchRNN


@options
class RNNConfig(BackboneConfig):
    """Simple recurrent network, "Finding Structure in Time"."""

    name: str = "rnn"


@register_backbone(RNNConfig)
class RNN(TorchRNN):
    """State: h, (batch, width)."""

    cell_step = staticmethod(torch.rnn_tanh_cell)

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(nn.RNN(config.width, config.width, batch_first=True))

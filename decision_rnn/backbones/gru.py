"""GRU, the gated recurrent unit.

Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder" (2014), equations 5 to 8, in the form of
torch.nn.GRU (Chung et al. 2014, with the reset gate after the recurrent product, as in cuDNN):

    r_t = sigmoid(W_r x_t + U_r h_{t-1} + b_r)                           reset gate
    z_t = sigmoid(W_z x_t + U_z h_{t-1} + b_z)                           fraction of the state that is kept
    n_t = tanh(W_n x_t + b_n + r_t * (U_n h_{t-1} + c_n))                candidate
    h_t = (1 - z_t) * n_t + z_t * h_{t-1}

The gates depend on h_{t-1}, so there is no parallelism over time (rnn.py). The bias of z starts from
time_scales.py.
"""

import torch
from torch import nn

from decision_rnn.backbones.contract import config_dataclass, register_backbone
from decision_rnn.backbones.rnn import TorchRNN
from decision_rnn.backbones.time_scales import FadingConfig


@config_dataclass
class GRUConfig(FadingConfig):
    """GRU, "Learning Phrase Representations using RNN Encoder-Decoder"."""

    name: str = "gru"


@register_backbone(GRUConfig)
class GRU(TorchRNN):
    """State: h, (batch, width)."""

    cell_step = staticmethod(torch.gru_cell)

    def __init__(self, config: GRUConfig) -> None:
        super().__init__(nn.GRU(config.width, config.width, batch_first=True))
        with torch.no_grad():  # torch adds two biases
            self.cell.bias_ih_l0[config.width : 2 * config.width] += config.forget_gate_bias(config.width)

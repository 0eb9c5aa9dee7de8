"""The simple recurrent network, computed by torch's own kernels.

Elman, "Finding Structure in Time" (1990), in the form of torch.nn.RNN:

    h_t = tanh(W x_t + U h_{t-1} + b)

With `activation: relu` it is the network of Le et al., "A Simple Way to Initialize Recurrent Networks of Rectified
Linear Units" (2015): ReLU in place of tanh, U initialised to the identity and b to zero, so that the state is initially
a sum of its inputs. Unlike with tanh, the state may grow without bound.

What differs: W keeps torch.nn.RNN's initialisation (Le et al. use a standard deviation of 0.001); the kernel does not
support resets, which segments.py adds, and runs in float32 also under autocast.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, State, register
from decision_rnn.backbones.ops.segments import KernelMixer

Activation = Literal["tanh", "relu"]


@dataclass(frozen=True, kw_only=True)
class RNNConfig(BackboneConfig):
    """Simple recurrent network, "Finding Structure in Time".

    Attributes:
        activation: `tanh`, or `relu` with U initialised to the identity.
    """

    name: str = "rnn"
    activation: Activation = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation not in get_args(Activation):
            raise ValueError(f"backbone.activation {self.activation!r} must be tanh or relu")


@register(RNNConfig)
class RNN(KernelMixer):
    """State: h, (batch, width)."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(nn.RNN(config.width, config.width, nonlinearity=config.activation, batch_first=True))
        if config.activation == "relu":
            _, recurrent, *biases = self.cell.all_weights[0]
            nn.init.eye_(recurrent)
            for bias in biases:
                nn.init.zeros_(bias)
        self._activation = {"tanh": torch.tanh, "relu": torch.relu}[config.activation]
        self._cell_step = {"tanh": torch.rnn_tanh_cell, "relu": torch.rnn_relu_cell}[config.activation]

    def _drive(self, x: Tensor) -> Tensor:
        weight, _, bias, other = self.cell.all_weights[0]
        return F.linear(x, weight, bias + other)

    def _advance(self, driven: Tensor, state: State) -> State:
        return (self._activation(torch.addmm(driven, state[0], self.cell.all_weights[0][1].T)),)

    def _step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h = self._cell_step(x, state[0], *self.cell.all_weights[0])
        return h, (h,)

"""The simple recurrent network.

Elman, "Finding Structure in Time" (1990), in the form of torch.nn.RNN:

    h_t = tanh(W x_t + U h_{t-1} + b)

With `activation: relu` it is the network of Le et al., "A Simple Way to Initialize Recurrent Networks of Rectified
Linear Units" (2015): ReLU in place of tanh, U initialised to the identity and b to zero, so that the state is initially
a sum of its inputs. Unlike with tanh, the state may grow without bound.

What differs: W keeps torch.nn.RNN's initialisation (Le et al. use a standard deviation of 0.001). How slices are
computed: ops/gated.py.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from decision_rnn.backbones.built_in import RNNConfig
from decision_rnn.backbones.contract import State, register
from decision_rnn.backbones.ops.gated import Factors, GatedMixer


@register(RNNConfig)
class RNN(GatedMixer):
    """State: h, (batch, width)."""

    saved = 1  # the pre-activation

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(nn.RNNBase(f"RNN_{config.activation.upper()}", config.width, config.width))
        self.rectified = config.activation == "relu"
        if self.rectified:
            _, recurrent, *biases = self.cell.all_weights[0]
            nn.init.eye_(recurrent)
            for bias in biases:
                nn.init.zeros_(bias)

    def step_cell(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        cell = torch.rnn_relu_cell if self.rectified else torch.rnn_tanh_cell
        h = cell(x, state[0], *self.cell.all_weights[0])
        return h, (h,)

    def advance(self, before: State, extra: Tensor | None, after: State, saved: Sequence[Tensor]) -> None:
        squash = torch.relu if self.rectified else torch.tanh
        after[0].copy_(squash(saved[0]))

    def factors(self, before: State, after: State, extra: Tensor | None, saved: Tensor) -> Factors:
        h = after[0]
        slope = (h > 0).to(h.dtype) if self.rectified else 1 - h * h
        return Factors(slope.unsqueeze(2), keep=None)

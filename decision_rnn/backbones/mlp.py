"""MLP, the control without memory: two linear layers that see only the current step.

    y_t = W_2 GELU(W_1 x_t + b_1) + b_2

The usual policy of behaviour cloning, in the block that all mixers share. The difference in score between a layer with
memory and this one at equal parameters estimates the value of memory on a dataset, up to what seeds and sizes change;
in Markov environments it can be zero
(Emmons et al., "RvS: What is Essential for Offline RL via Supervised Learning?" (2021), whose policies are conditioned
MLPs of two hidden layers).

A step's token holds the return-to-go, the observation and, with `agent.previous_action`, the previous action, the only
past input that this layer can see. With `agent.tokens interleaved` each is a separate token and the layer sees only the
last one, the observation.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, Layer, State, config_dataclass, register_backbone


@config_dataclass
class MLPConfig(BackboneConfig):
    """MLP, the control without memory; its hidden layer has `width` channels."""

    name: str = "mlp"


@register_backbone(MLPConfig)
class MLP(Layer):
    """State: none, the empty tuple."""

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.hidden = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        return self.output(F.gelu(self.hidden(x))), ()

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.forward(x)

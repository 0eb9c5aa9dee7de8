"""MLP, the control without memory: two linear layers that see this step alone.

    y_t = W_2 GELU(W_1 x_t + b_1) + b_2

The policy of behaviour cloning, in the block that all mixers share. What a layer with memory scores above it at equal
parameters is what its memory is worth on a dataset: in Markov environments that can be nothing (Emmons et al., "RvS:
What is Essential for Offline RL via Supervised Learning?" (2021), whose policies are conditioned MLPs of two hidden
layers).

A step's token holds the return-to-go and the observation, and with `agent.previous_action` the one thing of the past
that it can see. With `agent.tokens interleaved` each is a token of its own, of which only the last is seen: the
observation, and neither return nor previous action.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, SequenceMixer, State, register


@dataclass(frozen=True, kw_only=True)
class MLPConfig(BackboneConfig):
    """MLP, the control without memory; its hidden layer has `width` channels."""

    name: str = "mlp"


@register(MLPConfig)
class MLP(SequenceMixer):
    """State: none, the empty tuple."""

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.hidden = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def initial_state(self, batch_size: int) -> State:
        return ()

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        return self.output(F.gelu(self.hidden(x))), ()

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.forward(x)

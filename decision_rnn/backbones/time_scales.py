"""How long layers remember at the start of training: one policy for all layers whose state fades.

The unit is the half-life: the number of tokens after which half of what a channel holds is left, log(1/2) / log(keep)
if it keeps the fraction `keep` of its state at every token. A layer spreads its channels or heads over half-lives from
one token to `init_half_life` tokens, with as many between 1 and 10 as between 10 and 100, so that at the start some
hold the present and others the past. Training changes them, except for retention's.

This is the chrono initialisation of Tallec & Ollivier, "Can recurrent neural networks warp time?" (2018), section 2: a
gate with bias log(T - 1) keeps 1 - 1 / T of its state. They draw T uniformly up to the longest dependency, which leaves
one channel in a hundred for the shortest hundredth; here the half-lives are spaced evenly in their logarithm.
"""

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from decision_rnn.backbones.contract import BACKBONES, BackboneConfig, config_dataclass


@config_dataclass
class FadingConfig(BackboneConfig):
    """The part of a configuration that layers share whose state fades.

    Attributes:
        init_half_life: Longest half-life of the state at the start of training, in tokens, of which a step has one
            unless `agent.tokens` is interleaved: the channels or heads of every layer are spread evenly over the
            logarithms of half-lives from one token to this one.
    """

    # Of a longer half-life, float32 no longer resolves the fraction that a step forgets.
    init_half_life: Annotated[float, Field(ge=1, le=1e6)] = 20.0

    def half_lives(self, count: int, shortest: float = 1.0) -> Tensor:
        """Half-lives of `count` channels or heads in tokens, from the longest to the shortest, (count,) float64."""
        ends = math.log(max(self.init_half_life, shortest)), math.log(shortest)
        return torch.exp(torch.linspace(*ends, count, dtype=torch.float64))

    def decay(self, count: int) -> Tensor:
        """The fraction that each of `count` channels or heads keeps of its state in a step, (count,) float64."""
        return (-1 / self.half_lives(count)).exp2()

    def forget_gate_bias(self, count: int) -> Tensor:
        """Bias with which a sigmoid is that fraction, log(decay / (1 - decay)): 0 at a half-life of one step."""
        return -(math.log(2) / self.half_lives(count)).expm1().log().float()


def memory_exceeds(backbone: BackboneConfig, tokens: int) -> bool:
    """Whether half or more of what a state holds may be left after so many tokens, as training starts."""
    if isinstance(backbone, FadingConfig):
        return backbone.init_half_life >= tokens
    entry = BACKBONES.get(backbone.name)  # that of a policy may be defined in a plugin that is not imported
    return entry is not None and getattr(entry.cls, "forgets_slowly", False)

"""Conv, a causal depthwise convolution in place of attention: every channel sees only its own last steps.

Kim et al., "Decision ConvFormer: Local Filtering in MetaFormer is Sufficient for Decision Making" (2023), section 4:

    y_t = b + sum_{j < kernel} w_j * x_{t-j}             zeros before an episode's first step

Only the MLP of the shared block mixes channels. A stack of `layers` sees layers * (kernel - 1) + 1 steps.

Deviations from the paper: its sequence has three tokens a step (return, observation, action), each with its own filter;
its kernel of 6 tokens sees two steps. Here a step is one token, so that there is one filter and a kernel of 6 sees six
steps. With `agent.tokens interleaved` and `agent.previous_action true` there are three tokens a step as in the paper,
all with the same filter. The block's MLP has ReLU rather than GELU, and positions are only embedded with
`agent.timestep_embedding`.
"""

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from decision_rnn.backbones.config import STRICT, BackboneConfig, register_backbone
from decision_rnn.backbones.convolution import CausalConvolution


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ConvConfig(BackboneConfig):
    """Conv, "Decision ConvFormer".

    Attributes:
        kernel: Number of steps that an output sees, including its own.
    """

    name: str = "conv"
    kernel: Annotated[int, Field(ge=2)] = 6


@register_backbone(ConvConfig)
class Conv(CausalConvolution):
    """State: the last `kernel` - 1 inputs, oldest first, (batch, kernel - 1, width)."""

    def __init__(self, config: ConvConfig) -> None:
        super().__init__(config.width, config.kernel)

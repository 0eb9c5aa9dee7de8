"""Conv, a causal depthwise convolution in place of attention: every channel sees its own last steps, and no more.

Kim et al., "Decision ConvFormer: Local Filtering in MetaFormer is Sufficient for Decision Making" (2023), section 4:

    y_t = b + sum_{j < kernel} w_j * x_{t-j}             zeros before an episode's first step

Channels are mixed by the MLP of the shared block alone. `layers` of them see layers * (kernel - 1) + 1 steps.

What differs: the paper's sequence has three tokens a step (return, observation, action) and a filter for each of the
three; its kernel of 6 tokens sees two steps. Here a step is one token, so that one filter does and a kernel of 6
sees six steps. With `agent.tokens interleaved` and `agent.previous_action true` the kernel counts three tokens a step
as the paper's does, under one filter for all.
The block's MLP has ReLU rather than GELU, and positions are not embedded unless `agent.timestep_embedding` asks for it.
"""

from dataclasses import dataclass

from decision_rnn.backbones.contract import BackboneConfig, register
from decision_rnn.backbones.convolution import CausalConvolution


@dataclass(frozen=True, kw_only=True)
class ConvConfig(BackboneConfig):
    """Conv, "Decision ConvFormer".

    Attributes:
        kernel: Steps that an output sees, its own included.
    """

    name: str = "conv"
    kernel: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kernel < 2:
            raise ValueError(f"backbone.kernel {self.kernel} must be at least 2; the backbone mlp sees one step alone")


@register(ConvConfig)
class Conv(CausalConvolution):
    """State: the last `kernel` - 1 inputs, oldest first, (batch, kernel - 1, width)."""

    def __init__(self, config: ConvConfig) -> None:
        super().__init__(config.width, config.kernel)

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

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import BackboneConfig, Kernel, Layer, State, config_dataclass, register_backbone
from decision_rnn.backbones.ops.recurrence import first_order


@config_dataclass
class ConvConfig(BackboneConfig):
    """Conv, "Decision ConvFormer".

    Attributes:
        kernel: Number of tokens that an output sees, including its own.
    """

    name: str = "conv"
    kernel: Kernel = 6


@register_backbone(ConvConfig)
class Conv(Layer):
    """A causal depthwise convolution, which a block may also have in front of its mixer.

    State: the last `kernel` - 1 inputs, oldest first, (batch, kernel - 1, width).
    """

    def __init__(self, config: ConvConfig) -> None:
        width, kernel = config.width, config.kernel
        super().__init__((kernel - 1, width))
        bound = kernel**-0.5  # the initialisation of torch.nn.Conv1d
        self.weight = nn.Parameter(torch.empty(width, kernel).uniform_(-bound, bound))  # oldest step first
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        (past,) = state or self.initial_state(len(x))
        y, past = convolve(self.weight, self.bias, x, past, reset)
        return y, (past,)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, past = convolve_step(self.weight, self.bias, x, state[0])
        return y, (past,)


def convolve(weight: Tensor, bias: Tensor, x: Tensor, past: Tensor, reset: Tensor | None) -> tuple[Tensor, Tensor]:
    """The convolution of x, (batch, time, width), with `weight`, (width, kernel), the oldest step first; and the last
    inputs. `past`: the inputs before, (batch, kernel - 1, width)."""
    time, kernel = x.shape[1], weight.shape[1]
    inputs = torch.cat([past, x.to(weight.dtype)], dim=1)
    after, masks = inputs[:, time:], None
    if reset is None:
        after = after.clone()
    else:
        episode = F.pad(reset.cumsum(1), (kernel - 1, 0))
        same = episode.unfold(1, kernel, 1) == episode[:, kernel - 1 :, None]  # (batch, time, kernel)
        masks = same.permute(2, 0, 1).unsqueeze(3).to(weight.dtype)
        after = after * (episode[:, time:] == episode[:, -1:]).unsqueeze(2)
    return _Convolution.apply(inputs, masks, weight, bias), after


def convolve_step(weight: Tensor, bias: Tensor, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
    """One step of `convolve`: x, (batch, width)."""
    inputs = torch.cat([past, x.to(past.dtype).unsqueeze(1)], dim=1)
    return (inputs * weight.T).sum(1) + bias, inputs[:, 1:]


class _Convolution(torch.autograd.Function):
    """Every tap adds to the output in place, and to the gradient of the inputs; on a CPU faster than torch's
    convolution, which wants time last, and than autograd, which makes a tensor of all steps for every tap."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, masks: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, masks, weight)
        *earlier, present = _taps(inputs, weight)
        y = torch.addcmul(bias, present, weight[:, -1])
        for j, tap in enumerate(earlier):
            y.addcmul_(tap if masks is None else tap * masks[j], weight[:, j])
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (inputs, masks, weight) = grads, ctx.saved_tensors
        grad_inputs, grad_weight = torch.zeros_like(inputs), torch.empty_like(weight)
        for j, (tap, grad_tap) in enumerate(zip(_taps(inputs, weight), _taps(grad_inputs, weight), strict=True)):
            masked = grad if masks is None or j == len(masks) - 1 else grad * masks[j]
            grad_tap.addcmul_(masked, weight[:, j])
            grad_weight[:, j] = (masked * tap).sum((0, 1))
        return grad_inputs, None, grad_weight, grad.sum((0, 1))


def _taps(inputs: Tensor, weight: Tensor) -> list[Tensor]:
    """x at t - kernel + 1, ..., t, each (batch, time, width), from the last inputs and x."""
    kernel = weight.shape[1]
    return [inputs[:, j : inputs.shape[1] - kernel + 1 + j] for j in range(kernel)]

"""A short causal depthwise convolution, which a block may have in front of its mixer.

y_t = b + sum_{j < window} w_j * x_{t-j}            zeros before an episode's first step
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.ops.first_order import first_order


class CausalConvolution(SequenceMixer):
    """State: the last `window` - 1 inputs, oldest first, (batch, window - 1, width).

    Args:
        width: Channels.
        window: Number of steps that an output sees, including its own.
    """

    def __init__(self, width: int, window: int) -> None:
        super().__init__()
        bound = window**-0.5  # the initialisation of torch.nn.Conv1d
        self.weight = nn.Parameter(torch.empty(width, window).uniform_(-bound, bound))  # oldest step first
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def initial_state(self, batch_size: int) -> State:
        width, window = self.weight.shape
        return (self.weight.new_zeros(batch_size, window - 1, width),)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        (past,) = self.initial_state(len(x)) if state is None else state
        y, past = convolve(self.weight, self.bias, x, past, reset)
        return y, (past,)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, past = convolve_step(self.weight, self.bias, x, state[0])
        return y, (past,)


def convolve(weight: Tensor, bias: Tensor, x: Tensor, past: Tensor, reset: Tensor | None) -> tuple[Tensor, Tensor]:
    """The convolution of x, (batch, time, width), and the last inputs.

    Args:
        weight: (width, window), the oldest step first.
        bias: (width,).
        x: (batch, time, width).
        past: The inputs before, (batch, window - 1, width).
        reset: (batch, time) bool, true where an episode begins.
    """
    time, window = x.shape[1], weight.shape[1]
    steps = torch.cat([past, x.to(weight.dtype)], dim=1)
    after, masks = steps[:, time:], None
    if reset is None:
        after = after.clone()
    else:
        episode = F.pad(reset.cumsum(1), (window - 1, 0))
        same = episode.unfold(1, window, 1) == episode[:, window - 1 :, None]  # (batch, time, window)
        masks = same.permute(2, 0, 1).unsqueeze(3).to(weight.dtype)
        after = after * (episode[:, time:] == episode[:, -1:]).unsqueeze(2)
    return _Convolution.apply(steps, masks, weight, bias), after


def convolve_step(weight: Tensor, bias: Tensor, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
    """One step of `convolve`: x, (batch, width)."""
    steps = torch.cat([past, x.to(past.dtype).unsqueeze(1)], dim=1)
    return (steps * weight.T).sum(1) + bias, steps[:, 1:]


class _Convolution(torch.autograd.Function):
    """Every tap adds to the output in place, and to the gradient of the steps; on a CPU faster than torch's
    convolution, which wants time last, and than autograd, which makes a tensor of all steps for every tap."""

    @staticmethod
    def forward(ctx: Any, steps: Tensor, masks: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(steps, masks, weight)
        *earlier, present = _taps(steps, weight)
        y = torch.addcmul(bias, present, weight[:, -1])
        for j, tap in enumerate(earlier):
            y.addcmul_(tap if masks is None else tap * masks[j], weight[:, j])
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (steps, masks, weight) = grads, ctx.saved_tensors
        grad_steps, grad_weight = torch.zeros_like(steps), torch.empty_like(weight)
        for j, (tap, grad_tap) in enumerate(zip(_taps(steps, weight), _taps(grad_steps, weight), strict=True)):
            masked = grad if masks is None or j == len(masks) - 1 else grad * masks[j]
            grad_tap.addcmul_(masked, weight[:, j])
            grad_weight[:, j] = (masked * tap).sum((0, 1))
        return grad_steps, None, grad_weight, grad.sum((0, 1))


def _taps(steps: Tensor, weight: Tensor) -> list[Tensor]:
    """x at t - window + 1, ..., t, each (batch, time, width), from the last inputs and x."""
    window = weight.shape[1]
    return [steps[:, j : steps.shape[1] - window + 1 + j] for j in range(window)]

"""A short causal depthwise convolution, which a block may have in front of its mixer.

y_t = b + sum_{j < window} w_j * x_{t-j}            zeros before an episode's first step
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.ops.blocks import run_blocks
from decision_rnn.backbones.ops.first_order import first_order

BLOCK = 256


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
        return _zeros(self.weight, batch_size)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        return convolve(self.weight, self.bias, x, state, reset)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return convolve_step(self.weight, self.bias, x, state[0])


def convolve(
    weight: Tensor, bias: Tensor, x: Tensor, state: State | None, resets: Tensor | None
) -> tuple[Tensor, State]:
    """The convolution of x, (batch, time, width), and the last inputs; `state`: those before, zeros if None.

    Args:
        weight: (width, window), the oldest step first.
        bias: (width,).
    """
    zeros = partial(_zeros, weight)
    return run_blocks(partial(_block, weight, bias), (x.to(weight.dtype),), state, zeros, resets, BLOCK)


def _zeros(weight: Tensor, batch_size: int) -> State:
    """The inputs before an episode."""
    width, window = weight.shape
    return (weight.new_zeros(batch_size, window - 1, width),)


def _block(
    weight: Tensor, bias: Tensor, parts: tuple[Tensor, ...], state: State | None, void: Tensor | None
) -> tuple[Tensor, State]:
    steps = torch.cat([(state or _zeros(weight, len(parts[0])))[0], *parts], dim=1)
    return _Convolution.apply(steps, weight, bias), (steps[:, parts[0].shape[1] :].clone(),)


def convolve_step(weight: Tensor, bias: Tensor, x: Tensor, past: Tensor) -> tuple[Tensor, State]:
    """One step of `convolve`: x, (batch, width)."""
    steps = torch.cat([past, x.to(past.dtype).unsqueeze(1)], dim=1)
    return (steps * weight.T).sum(1) + bias, (steps[:, 1:],)


class _Convolution(torch.autograd.Function):
    """Every tap adds to the output in place, and to the gradient of the steps; on a CPU faster than torch's
    convolution, which wants time last, and than autograd, which makes a tensor of all steps for every tap."""

    @staticmethod
    def forward(ctx: Any, steps: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(steps, weight)
        taps = _taps(steps, weight)
        y = torch.addcmul(bias, taps[0], weight[:, 0])
        for tap, of_tap in zip(taps[1:], weight.unbind(1)[1:], strict=True):
            y.addcmul_(tap, of_tap)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (grad,), (steps, weight) = grads, ctx.saved_tensors
        grad_steps, grad_weight = torch.zeros_like(steps), torch.empty_like(weight)
        of_taps = zip(_taps(steps, weight), _taps(grad_steps, weight), weight.unbind(1), strict=True)
        for j, (tap, grad_tap, of_tap) in enumerate(of_taps):
            grad_tap.addcmul_(grad, of_tap)
            grad_weight[:, j] = (grad * tap).sum((0, 1))
        return grad_steps, grad_weight, grad.sum((0, 1))


def _taps(steps: Tensor, weight: Tensor) -> list[Tensor]:
    """x at t - window + 1, ..., t, each (batch, time, width), from the last inputs and x."""
    window = weight.shape[1]
    return [steps[:, j : steps.shape[1] - window + 1 + j] for j in range(window)]

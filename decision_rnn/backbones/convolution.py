"""A short causal depthwise convolution, which a block may have in front of its mixer.

y_t = b + sum_{j < window} w_j * x_{t-j}            zeros before an episode's first step
"""

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.ops.blocks import run_blocks
from decision_rnn.backbones.resets import Resets

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
        width, window = self.weight.shape
        return (self.weight.new_zeros(batch_size, window - 1, width),)

    def forward(self, x: Tensor, state: State | None = None, reset: Resets | None = None) -> tuple[Tensor, State]:
        return convolve(self.weight, self.bias, x, state, reset)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return convolve_step(self.weight, self.bias, x, state[0])


def convolve(
    weight: Tensor, bias: Tensor, x: Tensor, state: State | None, resets: Resets | None
) -> tuple[Tensor, State]:
    """The convolution of x, (batch, time, width), and the last inputs; `state`: those before, zeros if None.

    Args:
        weight: (width, window), the oldest step first.
        bias: (width,).
    """
    width, window = weight.shape

    def zeros(batch_size: int) -> State:
        return (weight.new_zeros(batch_size, window - 1, width),)

    def block(parts: tuple[Tensor, ...], state: State | None, void: Tensor | None) -> tuple[Tensor, State]:
        (x,), time = parts, parts[0].shape[1]
        steps = torch.cat([(state or zeros(len(x)))[0], x], dim=1)
        y = _sum([steps[:, j : j + time] for j in range(window)], weight, bias)
        return y, (steps[:, time:].clone(),)

    return run_blocks(block, (x.to(weight.dtype),), state, zeros, resets, BLOCK)


def convolve_step(weight: Tensor, bias: Tensor, x: Tensor, past: Tensor) -> tuple[Tensor, State]:
    """One step of `convolve`: x, (batch, width)."""
    steps = torch.cat([past, x.to(past.dtype).unsqueeze(1)], dim=1)
    return _sum(list(steps.unbind(1)), weight, bias), (steps[:, 1:],)


def _sum(taps: list[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """y from x at t - window + 1, ..., t; on a CPU faster than torch's convolution, which wants time last."""
    y = bias
    for tap, of_tap in zip(taps, weight.unbind(1), strict=True):
        y = y + tap * of_tap
    return y

"""A short causal depthwise convolution, which a block may have in front of its mixer.

y_t = b + sum_{j < window} w_j * x_{t-j}            zeros before an episode's first step
"""

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import SequenceMixer, State
from decision_rnn.backbones.ops.segments import fill_steps, may_hold
from decision_rnn.backbones.resets import Resets


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
        mask = None if reset is None else reset.mask
        (past,) = self.initial_state(len(x)) if state is None else state
        steps, time, window = torch.cat([past, x.to(past.dtype)], dim=1), x.shape[1], self.weight.shape[1]
        taps = [steps[:, j : j + time] for j in range(window)]
        if mask is not None and may_hold(mask):
            episode = torch.cat([mask.new_zeros(len(x), window - 1), mask], dim=1).cumsum(1)
            current = episode[:, window - 1 :]
            taps = [fill_steps(tap, episode[:, j : j + time] != current, 0) for j, tap in enumerate(taps)]
            steps = fill_steps(steps, episode != episode[:, -1:], 0)
        return self._sum(taps), (steps[:, time:].clone(),)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        steps = torch.cat([state[0], x.to(state[0].dtype).unsqueeze(1)], dim=1)
        return self._sum(list(steps.unbind(1))), (steps[:, 1:],)

    def _sum(self, taps: list[Tensor]) -> Tensor:
        """y from x at t - window + 1, ..., t: tap by tap, since a reset zeroes some taps."""
        y: Tensor = self.bias
        for tap, weight in zip(taps, self.weight.unbind(1), strict=True):
            y = y + tap * weight
        return y

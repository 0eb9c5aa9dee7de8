"""The return in reach: how much an agent could still earn, judged from what it has seen."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.agent.config import LEVELS

LONG = 1000
"""Timesteps by which an episode's clock is divided."""


class ReturnInReach(nn.Module):
    """Quantiles of the return-to-go, given a hidden state that does not depend on what was asked for.

    They are learnt with the agent by quantile regression (Koenker & Bassett 1978), all `LEVELS` at once. With a high
    level, it is the return that the best of the data's episodes go on to earn from a situation like this: Zhuang et
    al., "Reinformer" (2024), take an upper expectile for the same purpose, whose frequency in the data is not known.

    Args:
        width: Channels of the hidden states.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(width + 2, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, len(LEVELS)),
        )

    def quantiles(self, hidden: Tensor, timestep: Tensor) -> Tensor:
        """The quantiles of `LEVELS`, rising, (..., levels), in units of the return scale.

        Args:
            hidden: (..., width).
            timestep: (...), steps since the episode's start.
        """
        time = timestep.unsqueeze(-1).to(hidden.dtype)
        clock = torch.cat([time / LONG, torch.log1p(time) / 7], dim=-1)
        found = self.network(torch.cat([hidden, clock], dim=-1))
        return torch.cat([found[..., :1], F.softplus(found[..., 1:])], dim=-1).cumsum(-1)

    def loss(self, hidden: Tensor, timestep: Tensor, return_to_go: Tensor) -> Tensor:
        """The quantile loss, a scalar, for returns-to-go (..., 1) in units of the return scale."""
        error = return_to_go - self.quantiles(hidden, timestep)
        levels = error.new_tensor(LEVELS)
        return torch.maximum(levels * error, (levels - 1) * error).mean()

    def forward(self, hidden: Tensor, timestep: Tensor, level: float) -> Tensor:
        """The quantile of a level within those of `LEVELS`, (..., 1), in units of the return scale."""
        above = next(i for i in range(1, len(LEVELS)) if level <= LEVELS[i])
        share = (level - LEVELS[above - 1]) / (LEVELS[above] - LEVELS[above - 1])
        lower, upper = self.quantiles(hidden, timestep)[..., above - 1 : above + 1].split(1, dim=-1)
        return lower + share * (upper - lower)

"""Segments of better episodes drawn more often."""

import numpy as np
import torch
from torch import Tensor

from decision_rnn.data.store import EpisodeStore


class WeightedStarts:
    """Samples first steps of segments, anywhere in an episode or at its beginning, by its return.

    With a weighting w, a first step is drawn with probability proportional to exp(w g), where g is its episode's
    return, scaled to 0 for the lowest of the store and 1 for the highest: the trajectory weighting of Hong et al.,
    "Harnessing Mixed Offline Reinforcement Learning Datasets via Trajectory Weighting" (2023), with a temperature of
    1 / w. They draw episodes this way; here an episode is also weighted by its length, as with uniform segments, unless
    segments start at beginnings.
    """

    def __init__(self, store: EpisodeStore, context: int, weighting: float, at_beginnings: bool) -> None:
        returns = store.episode_returns
        relative = np.zeros(len(store)) if store.equal_returns else (returns - returns.min()) / float(np.ptp(returns))
        self.weights = torch.from_numpy(np.exp(weighting * relative))
        # No segment starts in the last context - 1 steps of the store.
        bounds = torch.from_numpy(store.offsets).clamp_max(store.steps - context + 1)
        choices = bounds.diff().clamp_max(1) if at_beginnings else bounds.diff()
        self.first, self.last = bounds[:-1], bounds[:-1] + choices - 1
        self.cumulative = (self.weights * choices).cumsum(0)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Sample `count` first steps, (count,) int64."""
        drawn = torch.rand(count, dtype=torch.float64, generator=generator) * self.cumulative[-1]
        episode = torch.searchsorted(self.cumulative, drawn, right=True).clamp_max(len(self.weights) - 1)
        before_end = ((self.cumulative[episode] - drawn) / self.weights[episode]).long()
        return torch.maximum(self.last[episode] - before_end, self.first[episode])  # rounding may leave the episode

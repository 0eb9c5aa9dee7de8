"""Faults of a sensor in training batches, from which agents learn to act without seeing."""

import torch
from torch import Tensor

from decision_rnn.environments.sensor_fault import Fault


class SensorFaults:
    """Replaces observations of random spells of steps, as `SensorFault` does in an environment.

    A fault begins at a step with probability `rate` and lasts `steps` steps on average, with a geometric distribution.
    The first step of a segment and of an episode is always seen.

    Args:
        fault: What is seen in place of an observation.
        rate: The probability that a fault begins.
        steps: The mean length of a fault in steps.
        generator: Draws the faults and the noise.
    """

    def __init__(self, fault: Fault, rate: float, steps: int, generator: torch.Generator) -> None:
        self.fault, self.rate, self.steps, self.generator = fault, rate, steps, generator

    def draw(self, begins: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """For each step the step of its segment whose observation is seen, (B, K) int64, or -1 for none; and what is
        seen then, (B, K, size), or without noise (B, K, 1).

        Args:
            begins: (B, K) bool, true at the first step of an episode.
            size: The number of entries of an observation.
        """
        drawn = torch.rand(begins.shape, generator=self.generator)
        failed = torch.zeros_like(begins)
        for t in range(1, begins.shape[1]):
            fails = torch.where(failed[:, t - 1], drawn[:, t] >= 1 / self.steps, drawn[:, t] < self.rate)
            failed[:, t] = fails & ~begins[:, t]
        seen = torch.arange(begins.shape[1]).expand_as(failed).masked_fill(failed, -1)
        if self.fault == "freeze":
            seen = seen.cummax(1).values
        if self.fault == "noise":
            return seen, torch.randn(*begins.shape, size, generator=self.generator)
        return seen, torch.zeros(*begins.shape, 1)


def seen_observations(observation: Tensor, seen: Tensor, instead: Tensor) -> Tensor:
    """Observations (B, K, O) as they are seen, from what `SensorFaults.draw` returned."""
    frozen = observation.gather(1, seen.clamp_min(0).unsqueeze(-1).expand_as(observation))
    return torch.where((seen < 0).unsqueeze(-1), instead, frozen)

"""The loss on episodes that are not trained on."""

from collections import defaultdict

import torch
from torch import Tensor

from decision_rnn.agent import DecisionAgent
from decision_rnn.config import TrainingConfig
from decision_rnn.data.stream import StepStream
from decision_rnn.training.device import autocast

BATCHES = 10
"""The number of batches of a validation. Rows that continue have a state from at most so many segments."""


class Validation:
    """The mean loss of an agent, and its objective's metrics, over the first batches of a stream, in the precision of
    training: the same segments, goals and noise at every call.

    Args:
        stream: Batches of the held-out episodes, on the agent's device.
        settings: The options of training.
    """

    def __init__(self, stream: StepStream, settings: TrainingConfig) -> None:
        self.stream, self.settings = stream, settings
        self.start = stream.state_dict()

    def __call__(self, agent: DecisionAgent) -> dict[str, float]:
        """The means, by name, of an agent in evaluation mode; uses up random numbers."""
        self.stream.load_state_dict(self.start)
        torch.manual_seed(0)
        state, values = None, defaultdict[str, list[Tensor]](list)
        with torch.inference_mode(), autocast(self.settings, self.stream.device):
            for _ in range(BATCHES):
                output = agent(self.stream.sample(), state)
                state = output.state if self.stream.carries_state else None
                for name, value in {"loss": output.loss, **output.metrics}.items():
                    values[name].append(value)
        return {f"validation_{name}": torch.stack(entries).mean().item() for name, entries in values.items()}

"""The loss on episodes that are not trained on."""

from collections import defaultdict
from dataclasses import replace

import gymnasium
import torch
from torch import Tensor

from decision_rnn.agent import DecisionAgent
from decision_rnn.config import RunConfig
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.store import EpisodeStore
from decision_rnn.training.device import autocast
from decision_rnn.training.prepare import make_stream, select_episodes
from decision_rnn.utils.errors import InputError

BATCHES = 10
"""The number of batches of a validation. Rows that continue have a state from at most so many segments."""


class Validation:
    """The mean loss of an agent, and its objective's metrics, over batches of the dataset that `validation` names, in
    the precision of training, drawn as in training: the same segments, goals and noise at every call and in runs of
    every seed.

    Args:
        config: The configuration of a run that names one.
        store: The data that it is trained on.
        observations: Their observation space.
        device: The agent's.

    Raises:
        InputError: If the dataset is not available, too small, or of another task.
    """

    def __init__(
        self, config: RunConfig, store: EpisodeStore, observations: gymnasium.Space, device: torch.device
    ) -> None:
        assert config.validation is not None
        held_out = open_dataset(config.validation, partial=config.partial).store
        sizes, own = ((each.observation_dim, each.action_dim) for each in (held_out, store))
        if sizes != own:
            raise InputError(
                f"the observations and actions of validation {config.validation} have {sizes} numbers, and those of "
                f"{config.dataset} {own}. Name a dataset of the same task."
            )
        self.config, self.device = config, device
        self.store = select_episodes(replace(config, dataset=config.validation), held_out)
        self.stream = make_stream(config, self.store, observations, 0, device)
        self.start = self.stream.state_dict()

    def __call__(self, agent: DecisionAgent) -> dict[str, float]:
        """The means, by name, of an agent in evaluation mode; uses up random numbers."""
        self.stream.load_state_dict(self.start)
        torch.manual_seed(0)
        state, values = None, defaultdict[str, list[Tensor]](list)
        with torch.inference_mode(), autocast(self.config.training, self.device):
            for _ in range(BATCHES):
                output = agent(self.stream.sample(), state)
                state = output.state if self.stream.carries_state else None
                for name, value in {"loss": output.loss, **output.metrics}.items():
                    values[name].append(value)
        return {f"validation_{name}": torch.stack(entries).mean().item() for name, entries in values.items()}

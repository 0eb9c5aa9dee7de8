"""The loss on episodes that are not trained on."""

from dataclasses import replace

import gymnasium
import torch

from decision_rnn.agent import DecisionAgent
from decision_rnn.config import RunConfig
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.store import EpisodeStore
from decision_rnn.training.slices import goals_of, select_episodes, slices_of
from decision_rnn.utils.errors import InputError

BATCHES = 10
"""The number of batches of a validation. Rows that continue have a state from at most so many segments."""


class Validation:
    """The mean loss of an agent, and its objective's metrics, over batches of the dataset that `validation` names,
    drawn as in training: the same segments, goals and noise at every call and in runs of every seed.

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
        for what in ("observation_dim", "action_dim"):
            found, expected = (getattr(of, what) for of in (held_out, store))
            if found != expected:
                raise InputError(
                    f"validation {config.validation} has {what.replace('_dim', 's')} of {found} numbers, and "
                    f"{config.dataset} of {expected}: name a dataset of the same task"
                )
        self.store = select_episodes(replace(config, dataset=config.validation), held_out)
        self.stream = slices_of(config, self.store, goals_of(config, observations), 0, device)
        self.beginning = self.stream.state_dict()
        self.carries_state = self.stream.tbptt_segments > 1

    def __call__(self, agent: DecisionAgent) -> dict[str, float]:
        """The means, by name, of an agent in evaluation mode; uses up random numbers."""
        self.stream.load_state_dict(self.beginning)
        torch.manual_seed(0)
        state, found = None, []
        with torch.inference_mode():
            for _ in range(BATCHES):
                output = agent(self.stream.sample(), state)
                state = output.state if self.carries_state else None
                found.append({"loss": output.loss, **output.metrics})
        return {f"validation_{name}": torch.stack([of[name] for of in found]).mean().item() for name in found[0]}

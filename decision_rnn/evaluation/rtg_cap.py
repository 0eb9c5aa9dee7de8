"""A trained agent with another cap of the return-to-go: `condition.rtg_cap` takes effect only when acting."""

import copy
from dataclasses import replace
from numbers import Real

import torch

from decision_rnn.agent import ReturnToGoConfig
from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.store.selection import top_episodes
from decision_rnn.errors import InputError


def with_rtg_cap(trained: TrainedAgent, quantile: float) -> TrainedAgent:
    """The agent that the same run would have trained with another `condition.rtg_cap`; the weights are the same.

    Args:
        trained: The agent.
        quantile: At each timestep the agent sees at most this quantile of the returns-to-go of those episodes in its
            data that last so long: from 0, which is no cap and needs no data, to 1, the largest.

    Returns:
        A copy, on the same device.

    Raises:
        InputError: If the quantile is not a number from 0 to 1, the agent is not return-conditioned, or its training
            data cannot be opened here or have changed.
    """
    if isinstance(quantile, bool) or not isinstance(quantile, Real):
        raise InputError(f"rtg_cap is {quantile!r:.100}: it must be a number from 0, which is no cap, to 1")
    quantile = float(quantile)
    if not isinstance(trained.config.condition, ReturnToGoConfig):
        raise InputError(
            f"rtg_cap {quantile:g} has nothing to cap: this run of {trained.config.dataset} has condition "
            f"{trained.config.condition.name}, which sees no return-to-go"
        )
    config = replace(trained.config, condition=replace(trained.config.condition, rtg_cap=quantile))
    agent = copy.deepcopy(trained.agent)
    agent.condition.cap = None
    if quantile > 0:
        dataset = open_dataset(config.dataset, config.path, config.partial)
        store = dataset.open()
        trained.provenance.check_contents(store, "the agent", "another cap needs the data as they were")
        limit = top_episodes(store, config.top_fraction).returns_to_go_quantile(quantile)
        agent.condition.cap = torch.from_numpy(limit).to(agent.condition.scale)
    return replace(trained, agent=agent, config=config)

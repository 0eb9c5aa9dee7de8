"""A trained agent with another limit of the return-to-go: `agent.return_limit` takes effect only when acting."""

import copy
from dataclasses import replace
from numbers import Real

import torch

from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.store.selection import top_episodes
from decision_rnn.errors import InputError


def with_return_limit(trained: TrainedAgent, quantile: float) -> TrainedAgent:
    """The agent that the same run would have trained with another `agent.return_limit`; the weights are the same.

    Args:
        trained: The agent.
        quantile: At each timestep the agent sees at most this quantile of the returns-to-go of those episodes in its
            data that last so long: from 0, which is no limit and needs no data, to 1, the largest.

    Returns:
        A copy, on the same device.

    Raises:
        InputError: If the quantile is not a number from 0 to 1, the agent is not return-conditioned, or its training
            data cannot be opened here or have changed.
    """
    if isinstance(quantile, bool) or not isinstance(quantile, Real):
        raise InputError(f"return_limit is {quantile!r:.100}: it must be a number from 0, which is no limit, to 1")
    quantile = float(quantile)
    config = replace(trained.config, agent=replace(trained.config.agent, return_limit=quantile))
    if not config.agent.return_conditioning:
        raise InputError(
            f"a return limit of {quantile:g} has nothing to act on: this run of {config.dataset} has "
            "agent.return_conditioning false, so it is told no return"
        )
    agent = copy.deepcopy(trained.agent)
    agent.config, agent.return_limit = config.agent, None
    if quantile > 0:
        dataset = open_dataset(config.dataset, config.path, config.partial)
        store = dataset.open()
        trained.provenance.check_contents(store, "the agent", "another return limit needs the data as they were")
        limit = top_episodes(store, config.best_fraction).returns_to_go_quantile(quantile)
        agent.return_limit = torch.from_numpy(limit).to(agent.return_scale)
    return replace(trained, agent=agent, config=config)

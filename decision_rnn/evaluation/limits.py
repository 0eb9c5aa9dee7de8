"""A trained agent with other limits of the return-to-go: both limits of `ReturnToGoConfig` act after training."""

import copy
from dataclasses import replace
from numbers import Real
from typing import Any

import torch

from decision_rnn.agent.conditions import ReturnToGoConfig
from decision_rnn.agent.reach import LEVELS
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.store.selection import top_episodes
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError


def with_limits(trained: TrainedAgent, rtg_cap: float | None = None, reach: float | None = None) -> TrainedAgent:
    """The agent with another `condition.rtg_cap`, another `condition.reach`, or both; the weights are the same.

    Args:
        trained: The agent.
        rtg_cap: The agent sees at most this quantile of its data's returns-to-go (`EpisodeStore.return_to_go_caps`):
            from 0, which is no cap and needs no data, to 1, the largest. Unchanged if left out.
        reach: The agent sees at most this quantile of what it judges in reach; 0 for no such limit. Unchanged if left
            out.

    Returns:
        A copy, on the same device.

    Raises:
        InputError: If a quantile is not a number in its range, the agent is not return-conditioned or has not learnt
            what is in reach, or its training data cannot be opened here or have changed.
    """
    config, agent = trained.config, copy.deepcopy(trained.agent)
    for name, value, low, high in (("rtg_cap", rtg_cap, 0.0, 1.0), ("reach", reach, LEVELS[0], LEVELS[-1])):
        if value is None:
            continue
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not (value == 0 or low <= value <= high):
            raise InputError(
                f"{name} is {value!r:.100}: it must be a number from {low:g} to {high:g}, or 0 for no limit"
            )
        if not isinstance(config.condition, ReturnToGoConfig):
            raise InputError(
                f"{name} {value:g} has nothing to limit: this run of {config.dataset} has condition "
                f"{config.condition.name}, which sees no return-to-go"
            )
        if name == "reach" and value and getattr(agent.condition, "reach", None) is None:
            raise InputError(
                f"reach is {value:g}, but this run of {config.dataset} has not learnt what is in reach: train with "
                "agent.condition_at head"
            )
        changed: dict[str, Any] = {name: float(value)}
        config = replace(config, condition=replace(config.condition, **changed))
    condition: Any = agent.condition
    if reach is not None:
        condition.level = float(reach)
    if rtg_cap is not None:
        condition.cap = None
        if rtg_cap > 0:
            dataset = open_dataset(config.dataset, config.path, config.partial)
            store = dataset.open()
            trained.provenance.check_contents(store, "the agent", "another cap needs the data as they were")
            cap, _ = top_episodes(store, config.top_fraction).return_to_go_caps(float(rtg_cap))
            condition.cap = torch.from_numpy(cap).to(condition.scale)
    return replace(trained, agent=agent, config=config)

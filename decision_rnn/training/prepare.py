"""A run before its first step: the agent, its trainer and its batches, from a configuration and data."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import torch
from torch import Tensor

from decision_rnn.agent import DecisionAgent, ReturnToGoConfig, agent_spec
from decision_rnn.agent.conditions import return_to_go_limits
from decision_rnn.config import RunConfig
from decision_rnn.data.hindsight import steps_ahead
from decision_rnn.data.layouts import Layout
from decision_rnn.data.spec import observation_index
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.training.ranks import ALONE, Ranks
from decision_rnn.training.slices import goals_of, slices_of
from decision_rnn.training.trainer import Trainer
from decision_rnn.utils.errors import InputError

LIMIT = "condition.acting_limit"
"""The name of the limit of the return-to-go among an agent's weights."""
OTHER_SEEDS = 1 << 32
"""Distance between the seeds of processes that train one agent; that of a run is smaller."""


def prepare(
    config: RunConfig,
    store: EpisodeStore,
    return_scale: float,
    spaces: tuple[gymnasium.Space, gymnasium.Space] | None = None,
    initial: TrainedAgent | None = None,
    ranks: Ranks = ALONE,
) -> tuple[DecisionAgent, Trainer[DecisionAgent], StepStream]:
    """A new agent, its trainer and its stream of batches, from the run's seed.

    Args:
        config: The run's configuration.
        store: The data.
        return_scale: The divisor of returns-to-go, but for those of goals in hindsight, which are steps.
        spaces: The spaces of observations and actions, boxes of actions bounded; vectors of numbers, for actions within
            [-1, 1], if left out.
        initial: An agent of the same architecture whose weights and statistics, but for the limit of the return-to-go,
            replace the initial ones.
        ranks: This process's place among those that train the agent.

    Raises:
        InputError: If the weights of `initial` do not fit.
    """
    index = observation_index(config.observation.mask, store.environment_id)
    seen = slice(None) if index is None else index
    observations, actions = spaces or (None, store.action_dim)
    mean, std = torch.from_numpy(store.observation_mean), torch.from_numpy(store.observation_std)
    goals = goals_of(config, observations)
    if goals is not None:
        mean, std = mean.clone(), std.clone()  # the store's own stay those of its data
        for statistics in (mean, std):
            statistics[goals.asked] = statistics[goals.reached]
        return_scale = steps_ahead(store, config.goal_discount)
    if observations is not None:  # one-hot vectors stay as they are: a rare choice would become a large number
        choices = torch.from_numpy(Layout.of_space(observations, "observations").categorical)
        mean, std = mean.masked_fill(choices, 0.0), std.masked_fill(choices, 1.0)
    condition, limit, training_limit = config.condition_options, None, None
    if isinstance(condition, ReturnToGoConfig) and condition.limited:
        limit, training_limit = map(torch.from_numpy, return_to_go_limits(store, condition.rtg_quantile))
    spec = agent_spec(
        mean[seen],
        std[seen],
        actions,
        observations,
        observation_index=None if index is None else torch.from_numpy(index),
        return_scale=return_scale,
        rtg_limit=limit,
        training_rtg_limit=training_limit,
    )
    torch.manual_seed(config.seed)
    agent = DecisionAgent(config.agent, config.backbone, spec, condition, config.objective_options)
    if initial is not None:
        _load_initial(agent, initial, config)
    if ranks.rank:  # equal weights, but not equal dropout
        torch.manual_seed(torch.initial_seed() + ranks.rank * OTHER_SEEDS)
    trainer = Trainer(agent, replace(config.training_options, tbptt_segments=config.tbptt_segments), ranks)
    return agent, trainer, slices_of(config, store, goals, config.seed, trainer.device, ranks)


def restore(
    trainer: Trainer[DecisionAgent], stream: StepStream, weights: Mapping[str, Tensor], state: Mapping[str, Any]
) -> None:
    """Restore what `prepare` returned from a checkpoint's weights and its training state."""
    trainer.result.load_state_dict(weights)
    trainer.load_state_dict(state)
    stream.load_state_dict(state["stream"])


def _load_initial(agent: DecisionAgent, initial: TrainedAgent, config: RunConfig) -> None:
    """Give an agent the weights and statistics of another, but not its limit of the return-to-go."""
    ours, theirs = ((a.encoder.features, a.action_dim) for a in (agent, initial.agent))
    if ours != theirs:
        raise InputError(
            f"init_from {config.init_from} sees {theirs[0]} entries of an observation and has {theirs[1]} actions, but "
            f"{config.dataset} has {ours[0]} and {ours[1]}: name an agent of the same task"
        )
    weights = {**initial.agent.state_dict(), LIMIT: agent.state_dict().get(LIMIT)}
    try:
        agent.load_state_dict({name: weight for name, weight in weights.items() if weight is not None})
    except RuntimeError:
        raise InputError(
            f"the weights of init_from {config.init_from} have other shapes than this run's: leave out the keys of "
            "backbone, agent and objective, which then are the agent's"
        ) from None

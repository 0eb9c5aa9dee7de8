"""A run before its first step: the agent, its trainer and its batches, from a configuration and data."""

from dataclasses import replace

import gymnasium
import torch

from decision_rnn.agent import DecisionAgent, ReturnToGoConfig, agent_spec
from decision_rnn.config import RunConfig
from decision_rnn.data.hindsight import GoalEntries, steps_ahead
from decision_rnn.data.spec import observation_index
from decision_rnn.data.store import EpisodeStore, top_episodes
from decision_rnn.data.stream import StepStream
from decision_rnn.environments.layouts import Layout
from decision_rnn.runs.checkpoint import LIMIT, TrainedAgent
from decision_rnn.training.device import pick_device
from decision_rnn.training.limits import return_to_go_limits
from decision_rnn.training.trainer import Trainer
from decision_rnn.utils.distributed import own_rows, rank
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted

SEED_STRIDE = 1 << 32
"""Distance between the seeds of processes that train one agent; that of a run is smaller."""


def select_episodes(config: RunConfig, store: EpisodeStore) -> EpisodeStore:
    """The episodes of a dataset that a run is trained on; InputError if they are too few."""
    episodes = top_episodes(store, config.top_fraction)
    if episodes.steps < config.training.context:
        raise InputError(
            f"{config.dataset} with top_fraction {config.top_fraction} has {counted(episodes.steps, 'step')}, fewer "
            f"than training.context {config.training.context}."
        )
    return episodes


def make_stream(
    config: RunConfig,
    episodes: EpisodeStore,
    observations: gymnasium.Space,
    seed: int,
    device: torch.device | str,
    rows: slice = slice(None),
) -> StepStream:
    """The batches of a run; InputError if goals are to be relabeled and observations of this space have none."""
    settings = config.training
    return StepStream(
        episodes,
        settings.context,
        settings.batch_size,
        seed,
        device,
        tbptt_segments=config.tbptt_segments,
        return_weighting=settings.return_weighting,
        segment_start=settings.segment_start,
        goals=GoalEntries.of_space(observations, config.dataset) if config.relabeled else None,
        goal_discount=config.goal_discount,
        p_randomgoal=settings.p_randomgoal,
        rows=rows,
    )


def prepare(
    config: RunConfig,
    episodes: EpisodeStore,
    return_scale: float,
    spaces: tuple[gymnasium.Space, gymnasium.Space] | None = None,
    initial: TrainedAgent | None = None,
) -> tuple[DecisionAgent, Trainer[DecisionAgent], StepStream]:
    """A new agent, its trainer and its stream of batches, from the run's seed.

    Args:
        config: The run's configuration.
        episodes: The data.
        return_scale: The divisor of returns-to-go, but for those of goals in hindsight, which are steps.
        spaces: The spaces of observations and actions, boxes of actions bounded; those of the data if left out.
        initial: An agent of the same architecture whose weights and statistics, but for the limit of the return-to-go,
            replace the initial ones.

    Raises:
        InputError: If the weights of `initial` do not fit.
    """
    index = observation_index(config.observation.mask, episodes.environment_id)
    observations, actions = spaces or (episodes.observation_space, episodes.action_space)
    device, rows = pick_device(config.training.device), own_rows(config.training.batch_size)
    stream = make_stream(config, episodes, observations, config.seed, device, rows)

    mean, std = torch.from_numpy(episodes.observation_mean), torch.from_numpy(episodes.observation_std)
    if stream.goals is not None:
        mean, std = mean.clone(), std.clone()  # the store's own stay those of its data
        for statistics in (mean, std):
            statistics[stream.goals.entries.desired] = statistics[stream.goals.entries.achieved]
        return_scale = steps_ahead(episodes, config.goal_discount)
    # One-hot vectors stay as they are: a rare choice would become a large number.
    choices = torch.from_numpy(Layout.of_space(observations, "observations").categorical)
    mean, std = mean.masked_fill(choices, 0.0), std.masked_fill(choices, 1.0)
    visible = torch.arange(len(mean)) if index is None else torch.from_numpy(index)
    spec = agent_spec(
        mean[visible],
        std[visible],
        actions,
        observations,
        observation_index=None if index is None else visible,
        return_scale=return_scale,
    )
    condition = config.condition_options
    if isinstance(condition, ReturnToGoConfig) and condition.limited:
        acting, training = map(torch.from_numpy, return_to_go_limits(episodes, condition.rtg_quantile))
        spec = replace(spec, rtg_limit=acting, training_rtg_limit=training)
    torch.manual_seed(config.seed)
    agent = DecisionAgent(config.agent, config.backbone, spec, condition, config.objective_options)
    if initial is not None:
        weights = {**initial.agent.state_dict(), LIMIT: agent.state_dict().get(LIMIT)}
        try:
            agent.load_state_dict({name: weight for name, weight in weights.items() if weight is not None})
        except RuntimeError:
            raise InputError(
                f"the weights of init_from {config.init_from} have other shapes than this run's: {config.dataset} has "
                "other observations or actions, or keys of backbone, agent or objective differ. Leave them out."
            ) from None
    if rank() > 0:  # equal weights, but not equal dropout
        torch.manual_seed(config.seed + rank() * SEED_STRIDE)
    return agent, Trainer(agent, config.training_options, carry_state=stream.carries_state), stream

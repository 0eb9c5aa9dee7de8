"""Preparation of a run: its agent, trainer and batches, from a configuration, data and the last checkpoint."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import gymnasium
import torch

from decision_rnn.agent import AgentSpec, DecisionAgent, ReturnToGoConfig, check_objective
from decision_rnn.config import RunConfig
from decision_rnn.data.dataset import Dataset, check_name, open_dataset
from decision_rnn.data.hindsight import GoalEntries, goal_changes, steps_ahead
from decision_rnn.data.info import SHIFTED, share_outside, warn_of_shift
from decision_rnn.data.limits import return_to_go_limits
from decision_rnn.data.store import EpisodeStore, top_episodes
from decision_rnn.data.stream import StepStream
from decision_rnn.environments.spaces import described_spaces
from decision_rnn.environments.tasks import observation_index
from decision_rnn.evaluation.evaluate import evaluation_environment
from decision_rnn.evaluation.metrics import metrics_named
from decision_rnn.runs.checkpoint import LIMIT, TrainedAgent, load_agent, load_training_state
from decision_rnn.runs.folder import (
    MetricsLog,
    check_resumed_run,
    checkpoints_of,
    last_checkpoint,
    remove_run,
    write_config,
)
from decision_rnn.runs.loggers import find_logger
from decision_rnn.training.device import pick_device
from decision_rnn.training.loop import TrainingLoop
from decision_rnn.training.summary import describe_run
from decision_rnn.training.trainer import Trainer
from decision_rnn.training.validation import Validation
from decision_rnn.utils.distributed import own_rows, rank, world_size
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import pluralize, shell_join, tell, warn

SEED_STRIDE = 1 << 32
"""Distance between the seeds of processes that train one agent; that of a run is smaller."""


def prepare_run(
    config: RunConfig, dataset: Dataset, folder: Path, resume: bool = False, overwrite: bool = False
) -> TrainingLoop:
    """Prepare a run in its folder, from its first step or, if `resume`, its last checkpoint, and print a description.

    Raises:
        InputError: If the run cannot be trained on the dataset or evaluated here, or the folder holds another one.
    """
    config, store = check_run(config, dataset, folder, resume), dataset.store
    episodes = select_episodes(config, store)
    saved = load_agent(folder) if resume and checkpoints_of(folder) else None
    initial = None if saved or config.init_from is None else load_agent(config.init_from, config.plugins)
    # An agent that is trained further keeps its action box.
    trained = saved or initial
    if initial is not None:
        sizes = initial.agent.observation_layout.size, initial.agent.action_dim
        store.check_entries(str(config.init_from), sizes, initial.observation_names, initial.provenance.action_names)
    actions = store.action_space if trained is None else trained.agent.action_space
    spec = replace(dataset.spec, spaces=described_spaces(store.observation_space, actions))
    agent, trainer, stream = prepare(config, episodes, spec.return_scale, actions, initial)
    held_out = None if config.validation is None else open_validation(config, store)
    validation = None
    if held_out is not None:
        validation = Validation(make_stream(config, held_out, 0, trainer.device), config.training)
    means = defaultdict[str, list[torch.Tensor]](list)
    if saved is None:
        position = stream.state_dict()
        check_objective(agent, stream.sample(), config.objective.name)
        agent.check_acting(config.evaluation.actions, config.evaluation.inference)
        stream.load_state_dict(position)
    else:
        if store.fingerprint != saved.provenance.fingerprint:
            raise InputError(
                f"{folder} was trained on other contents of {dataset.name}. Train another run from its weights, "
                f"{shell_join('--init_from', folder)}, with another --output."
            )
        state = load_training_state(last_checkpoint(folder))
        trainer.result.load_state_dict(saved.agent.state_dict())
        trainer.load_state_dict(state)
        stream.load_state_dict(state["stream"])
        means.update({name: list(values.to(trainer.device)) for name, values in state["means"].items()})

    if resume:
        tell(f"resuming {folder} at step {trainer.steps:,}")
    for line in describe_run(config, spec, agent, store, episodes):
        tell(line)
    for warning in () if held_out is None else warn_of_shift(episodes, held_out):
        warn(f"warning: {config.validation}: {warning}")
    box = actions if initial is not None and isinstance(actions, gymnasium.spaces.Box) else None
    if box is not None and (outside := share_outside(episodes.actions, box)) >= SHIFTED:
        warn(
            f"warning: in {outside:.1%} of the steps of {dataset.name} an action is outside the box of init_from "
            f"{config.init_from}, which its agent keeps to: train another agent for larger actions"
        )
    if rank() == 0:
        if overwrite:
            remove_run(folder)
        write_config(config, folder)  # after all checks: a folder that holds a run accepts no other run
    log = MetricsLog(folder, config, trainer.steps, 0.0 if saved is None else saved.seconds)
    return TrainingLoop(folder, config, spec, trainer, stream, validation, log, means)


def check_config(config: RunConfig) -> None:
    """InputError if a run cannot be trained here whatever its data are."""
    batch_size = config.training.batch_size
    if batch_size % world_size():
        raise InputError(f"training.batch_size {batch_size} is not a multiple of {world_size()} processes.")
    metrics_named(config.evaluation.metrics)
    for name in config.training.loggers:
        find_logger(name)
    if config.validation is not None:
        check_name(config.validation)


def check_run(config: RunConfig, dataset: Dataset, folder: Path, resume: bool) -> RunConfig:
    """The configuration of a run that can be trained in a folder and evaluated here; InputError if it cannot be."""
    evaluation = config.evaluation
    if evaluation.episodes or evaluation.checkpoint_episodes:
        if dataset.spec.environment_id is None and evaluation.environment_id is None:
            tell(f"{dataset.name} names no environment: the agent is trained and not evaluated (evaluation.episodes 0)")
            config = replace(config, evaluation=replace(evaluation, episodes=0, checkpoint_episodes=0))
        else:
            evaluation_environment(evaluation, dataset.spec)
    return check_resumed_run(config, folder) if resume else config


def select_episodes(config: RunConfig, store: EpisodeStore) -> EpisodeStore:
    """The episodes of a dataset that a run is trained on; InputError if they are too few."""
    episodes = top_episodes(store, config.top_fraction)
    if episodes.steps < config.training.context:
        raise InputError(
            f"{config.dataset} with top_fraction {config.top_fraction} has {pluralize(episodes.steps, 'step')}, fewer "
            f"than training.context {config.training.context}."
        )
    return episodes


def open_validation(config: RunConfig, store: EpisodeStore) -> EpisodeStore:
    """The episodes of the dataset that `validation` names; InputError if it is not available, too small, or of another
    task than the training data in `store`."""
    name = str(config.validation)
    held_out = open_dataset(name, partial=config.partial).store
    sizes = store.observation_dim, store.action_dim
    try:
        held_out.check_entries(config.dataset, sizes, store.labels("observations"), store.action_names)
    except InputError as error:
        raise InputError(f"validation {name}: {error}") from None
    return select_episodes(replace(config, dataset=name), held_out)


def goal_entries(config: RunConfig, episodes: EpisodeStore) -> GoalEntries | None:
    """The entries of observations that are goals, if these are relabeled; InputError if the space has no goals."""
    relabeled = config.training.goal_relabeling == "hindsight"
    return GoalEntries.of_space(episodes.observation_space, config.dataset) if relabeled else None


def make_stream(
    config: RunConfig,
    episodes: EpisodeStore,
    seed: int,
    device: torch.device | str = "cpu",
    rows: slice = slice(None),
) -> StepStream:
    """The batches of a run; InputError if goals are to be relabeled and observations have none."""
    settings = config.training
    return StepStream(
        episodes,
        settings.context,
        settings.batch_size,
        seed,
        device,
        tbptt_segments=config.tbptt_segments,
        segment_start=settings.segment_start,
        goals=goal_entries(config, episodes),
        goal_discount=config.goal_discount,
        p_swappedgoal=settings.p_swappedgoal,
        subgoal_steps=config.subgoal_steps,
        sensor_fault=settings.sensor_fault,
        sensor_fault_rate=settings.sensor_fault_rate,
        sensor_fault_steps=settings.sensor_fault_steps,
        rows=rows,
    )


def prepare(
    config: RunConfig,
    episodes: EpisodeStore,
    return_scale: float,
    actions: gymnasium.Space | None = None,
    initial: TrainedAgent | None = None,
) -> tuple[DecisionAgent, Trainer, StepStream]:
    """A new agent, its trainer and its stream of batches, from the run's seed; arguments and errors of `make_agent`."""
    agent = make_agent(config, episodes, return_scale, actions, initial)
    device, rows = pick_device(config.training.device), own_rows(config.training.batch_size)
    stream = make_stream(config, episodes, config.seed, device, rows)
    if rank() > 0:  # equal weights, but not equal dropout
        torch.manual_seed(config.seed + rank() * SEED_STRIDE)
    initial_state = agent.backbone.initial_state if stream.carries_state else None
    return agent, Trainer(agent, config.training, initial_state), stream


def make_agent(
    config: RunConfig,
    episodes: EpisodeStore,
    return_scale: float,
    actions: gymnasium.Space | None = None,
    initial: TrainedAgent | None = None,
) -> DecisionAgent:
    """A new agent, from the run's seed.

    Args:
        config: The run's configuration.
        episodes: The data.
        return_scale: The divisor of returns-to-go, but for those of goals in hindsight, which are steps.
        actions: The action space, if it is not that of the data.
        initial: An agent of the same architecture whose weights and statistics, but for the limit of the return-to-go,
            replace the initial ones.

    Raises:
        InputError: If goals are to be relabeled and there are none, or the weights of `initial` do not fit.
    """
    index = observation_index(config.observation.mask, episodes.environment_id)
    mean, std = torch.from_numpy(episodes.observation_mean), torch.from_numpy(episodes.observation_std)
    if (goals := goal_entries(config, episodes)) is not None:
        mean, std = mean.clone(), std.clone()  # the store's own stay those of its data
        for statistics in (mean, std):
            statistics[goals.desired] = statistics[goals.achieved]
        return_scale = steps_ahead(episodes, config.goal_discount)
    # One-hot vectors stay as they are: a rare choice would become a large number.
    choices = torch.from_numpy(episodes.layout("observations").categorical)
    mean, std = mean.masked_fill(choices, 0.0), std.masked_fill(choices, 1.0)
    visible = torch.arange(len(mean)) if index is None else torch.from_numpy(index)
    changes = None
    if goals is not None and config.subgoal_steps:  # the backbone does not see the goal
        changes = goal_changes(episodes, goals, config.subgoal_steps)
        visible = visible[(visible < goals.desired.start) | (visible >= goals.desired.stop)]
    spec = AgentSpec(
        observation_space=episodes.observation_space,
        action_space=episodes.action_space if actions is None else actions,
        observation_mean=mean[visible],
        observation_std=std[visible],
        observation_index=None if len(visible) == len(mean) else visible,
        return_scale=return_scale,
        goal_changes=changes,
        action_changes=torch.from_numpy(episodes.action_changes()) if config.agent.delta_actions else None,
    )
    condition = config.condition
    if isinstance(condition, ReturnToGoConfig) and condition.limited:
        acting, training = map(torch.from_numpy, return_to_go_limits(episodes, condition.rtg_quantile))
        spec = replace(spec, rtg_limit=acting, training_rtg_limit=training)
    torch.manual_seed(config.seed)
    agent = DecisionAgent(config.agent, config.backbone, spec, condition, config.objective)
    if initial is not None:
        weights = {**initial.agent.state_dict(), LIMIT: agent.state_dict().get(LIMIT)}
        try:
            agent.load_state_dict({name: weight for name, weight in weights.items() if weight is not None})
        except RuntimeError:
            raise InputError(
                f"the weights of init_from {config.init_from} have other shapes than this run's: {config.dataset} has "
                "other observations or actions, or keys of backbone, agent or objective differ. Leave them out."
            ) from None
    return agent

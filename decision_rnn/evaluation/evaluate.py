"""Evaluation of an agent: its scores for every target return."""

import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal
from typing import Protocol as Interface

import numpy as np
import torch

from decision_rnn.backbones import count_parameters
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spaces import layouts_of
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.environments.registry import environment_spaces
from decision_rnn.environments.settings import check_environment
from decision_rnn.evaluation.actor import Actor, EvaluatedPolicy, actor_of
from decision_rnn.evaluation.metrics import metrics_named
from decision_rnn.evaluation.remarks import remarks
from decision_rnn.evaluation.results import (
    PACKAGES,
    MetricResult,
    Protocol,
    Result,
    TargetResult,
    stored_result,
    write_result,
)
from decision_rnn.evaluation.rollout import RolloutResult, one_thread, rollout
from decision_rnn.evaluation.subjects import load_subject
from decision_rnn.evaluation.targets import asked_returns, capped_as_best, check_conditioned
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.training.configuration import evaluation_settings
from decision_rnn.training.run_folder import write_scores
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import check_folder
from decision_rnn.utils.machine import commit, hardware, versions
from decision_rnn.utils.messages import counted, quiet
from decision_rnn.utils.parsing import PositiveInt, convert
from decision_rnn.utils.plugins import check_plugins, import_plugins
from decision_rnn.utils.workers import default_processes, jobs_at_a_time

TIMED_ACTIONS = 200
"""Number of consecutive actions whose median time is reported."""


class RunFolder(Interface):
    """A run: its folder, and the agent of its last checkpoint."""

    @property
    def folder(self) -> Path: ...

    @property
    def agent(self) -> TrainedAgent: ...


def evaluate(
    agent: TrainedAgent | EvaluatedPolicy | RunFolder | str | Path,
    target_returns: float | str | Sequence[float | str] | None = None,
    *,
    episodes: int | None = None,
    inference: Literal["recurrent", "window"] | None = None,
    window: int | None = None,
    actions: Literal["greedy", "sampled"] | None = None,
    seed: int | None = None,
    max_episode_steps: int | None = None,
    environment_id: str | None = None,
    metrics: Sequence[str] | None = None,
    output: Path | str | None = None,
    processes: int | None = None,
    progress: bool = True,
    plugins: Sequence[str] = (),
) -> Result:
    """Play episodes in the agent's environment and score them; `decision-rnn evaluate` does the same.

    Every episode has its own environment and seed; the result is the same for any number of processes. Arguments that
    are left out take the run's settings. The result of a run, or of one of its checkpoints, is also written to its
    folder.

    Args:
        agent: A run, an agent, a name that `load_agent` accepts, or the file of an exported policy.
        target_returns: Undiscounted sums of the environment's rewards, or `auto` for the limit of what the agent sees;
            if left out, `auto` and the paper's for the task that are inside the data, or, of an agent without a limit,
            the paper's and the best return in the data. An agent trained by cloning takes none.
        episodes: The number of episodes to play for each target.
        inference: `recurrent` to carry the state over the whole episode, or `window` to re-run the last steps for every
            action, the Decision Transformer's protocol.
        window: Steps in that window, if `inference` is `window`.
        actions: `greedy` for the most probable discrete action or mode of `gmm`, and the flow from zero of
            `flow_matching`, or `sampled` to draw it with its probability.
        seed: Episode i of every target starts with the environment's reset(seed + i).
        max_episode_steps: Largest number of steps of an episode.
        environment_id: The environment to play in, if not the data's: one with the same observations and actions.
        metrics: What is measured in every episode besides its return: names such as `success`, or of metrics
            registered by `register_metric`.
        output: A folder to write the result to, instead of the run's.
        processes: The number of processes; one per core if left out.
        progress: Whether to show a progress bar.
        plugins: Modules to import first.

    Returns:
        The result. `.targets` has an entry for each target return: `.return_mean`, `.return_sd` (over episodes),
        `.score_mean`, `.score_sd` (`print(result)` says what scores 0 and 100), `.length_mean` (steps), `.returns`,
        every episode's, and `.metrics` by name, each with `.mean`, `.sd` and `.values`.

    Raises:
        InputError: If there is no such agent, its environment cannot be made here, a value is invalid, the result
            cannot be written (checked before playing).
        EnvironmentFailure: If a process dies.

    Example:
        >>> result = decision_rnn.evaluate(run, [90.0], episodes=2, progress=False)
        >>> len(result.targets[0].returns)
        2
        >>> print(result)  # doctest: +ELLIPSIS
        mingru on local/swing, step 20, 2 episodes per target, carried state, MountainCarContinuous-v0
        ...
    """
    import_plugins(plugins)
    processes = convert(processes, PositiveInt | None, "processes")
    policy: TrainedAgent | EvaluatedPolicy
    folder: Path | None = None
    if isinstance(agent, str | Path):
        policy, folder = load_subject(agent)
    elif isinstance(agent, TrainedAgent | EvaluatedPolicy):
        policy = agent
    else:
        policy, folder = agent.agent, agent.folder
    if isinstance(policy, EvaluatedPolicy) and (inference == "window" or actions == "sampled"):
        raise InputError("an exported policy carries its state and acts greedily: evaluate its run for anything else")
    if target_returns is not None:
        check_conditioned(policy.config)
    settings = evaluation_settings(
        policy.config.evaluation,
        target_returns=target_returns,
        episodes=episodes,
        inference=inference,
        window=window,
        actions=actions,
        seed=seed,
        max_episode_steps=max_episode_steps,
        environment_id=environment_id,
        metrics=metrics,
    )
    folder = folder if output is None else Path(output)
    if folder is not None:
        check_folder(folder / "results")
    with quiet(not progress):
        result = score(policy, settings, processes)
    if folder is not None:
        write_result(folder, result)
        if (folder / "config.yaml").is_file():  # a run's
            write_scores(folder, result.step, result.scalars("evaluation"))
    return result


def score(policy: TrainedAgent | EvaluatedPolicy, settings: EvaluationConfig, processes: int | None = None) -> Result:
    """Play the episodes of an evaluation on the CPU. The result is the same for any number of processes.

    An agent on a GPU is copied to the CPU: a checkpoint's score must not depend on where it was trained, and most of
    the time is spent in the environments, which run on all cores.

    Args:
        policy: The agent, on any device, or an exported policy.
        settings: Number of episodes, target returns and protocol.
        processes: Number of processes; if left out, one for every core that this process may use.

    Raises:
        InputError: If `settings.episodes` is 0, a metric is unknown, or the run needs modules that have not been
            imported.
        EnvironmentFailure: If a process dies.
    """
    environment_id = evaluation_environment(settings, policy.provenance)  # first: it may be why episodes are 0
    if settings.episodes == 0:
        raise InputError("evaluation.episodes is 0, which means no evaluation: give at least 1, such as 100")
    if isinstance(policy, TrainedAgent):
        check_plugins(policy.config.plugins, f"this run of {policy.provenance.name}")
        agent, actor = policy.agent, actor_of(policy.agent, settings)
        counts = count_parameters(agent), count_parameters(agent.backbone)
        cost = action_cost(actor, agent.observation_dim)
        policy = EvaluatedPolicy(actor, policy.config, policy.provenance, policy.step, policy.seconds, *counts, cost)
    metrics = metrics_named(settings.metrics)
    config = policy.config
    dataset = summarise_data(policy.provenance, replace(config, evaluation=settings))
    protocol = Protocol.from_settings(settings, dataset, config)
    begun = time.perf_counter()
    played = rollout(
        policy.actor,
        environment_id,
        [target or 0.0 for target in protocol.target_returns],  # behaviour cloning has no target and ignores it
        protocol.episodes,
        protocol.seed,
        default_processes() if processes is None else processes,
        [name for name in config.plugins if name in sys.modules],  # an exported policy needs its environment's only
        *step_limits(settings, dataset),
        tuple(metrics.values()),
    )
    seconds = time.perf_counter() - begun
    microseconds, state_bytes = policy.cost or (None, None)
    return Result(
        config=config,
        dataset=dataset,
        step=policy.step,
        protocol=protocol,
        targets=tuple(
            _target_result(config, dataset, protocol, target, episodes)
            for target, episodes in zip(protocol.target_returns, played, strict=True)
        ),
        remarks=remarks(config, dataset, protocol, played),
        training_seconds=round(policy.seconds, 1),
        parameters=policy.parameters,
        backbone_parameters=policy.backbone_parameters,
        environment_steps=int(sum(episodes.lengths.sum() for episodes in played)),
        evaluation_seconds=round(seconds, 2),
        commit=commit(),
        versions=versions(PACKAGES),
        hardware=hardware(),
        action_microseconds=microseconds and round(microseconds, 1),
        state_bytes=state_bytes,
        jobs=jobs_at_a_time(),
    )


def _target_result(
    config: RunConfig, dataset: DatasetSpec, protocol: Protocol, target: float | None, episodes: RolloutResult
) -> TargetResult:
    scores = dataset.normalised(episodes.returns)
    if not np.isfinite(scores).all():
        raise InputError(
            f"episodes of {dataset.environment_id} have returns that are not finite and have no score: check the "
            "agent's weights and the environment"
        )
    # Three decimals, or more where rewards are small, so that no episode's score moves by a thousandth of a point.
    decimals = max(3, math.ceil(5 - math.log10(abs(dataset.reference_max - dataset.reference_min))))
    tasks = dataset.tasks if protocol.environment_id is None and len(scores) >= dataset.tasks else 1
    task_of = (protocol.seed + np.arange(len(scores))) % tasks
    return TargetResult(
        target_return=target,
        in_range=dataset.contains(target) if config.takes_return else None,
        return_mean=float(episodes.returns.mean()),
        return_sd=float(episodes.returns.std()),
        score_mean=float(scores.mean()),
        score_sd=float(scores.std()),
        length_mean=float(episodes.lengths.mean()),
        initial_return_to_go=None if episodes.asked is None else float(episodes.asked.mean()),
        limited=None if episodes.limited is None else float(episodes.limited.sum() / episodes.lengths.sum()),
        task_scores=tuple(float(scores[task_of == task].mean()) for task in range(tasks)) if tasks > 1 else (),
        returns=tuple(round(float(value), decimals) for value in episodes.returns),
        metrics={
            name: MetricResult(mean=float(values.mean()), sd=float(values.std()), values=tuple(values.tolist()))
            for name, values in episodes.metrics.items()
        },
    )


def action_cost(actor: Actor, observation_dim: int) -> tuple[float, int]:
    """Median microseconds of one `act` in one environment, on one thread, and the bytes of state after the last."""
    observation, reward = torch.zeros(1, observation_dim), torch.zeros(1)
    times = []
    with one_thread(), torch.inference_mode():
        state = actor.initial_state(torch.ones(1))
        for _ in range(TIMED_ACTIONS):
            begun = time.perf_counter()
            _, state, _ = actor.act(observation, reward, state)
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6, sum(part.numel() * part.element_size() for part in state.flatten())


def evaluation_environment(settings: EvaluationConfig, data: DatasetSpec) -> str:
    """The id of the environment that agents trained on these data are evaluated in.

    Raises InputError, with a remedy, if it cannot be made here, or has observations or actions of other sizes.
    """
    if settings.environment_id is None:
        environment_id = check_environment(data.environment_id, data.requirements, data.environment_settings)
        remedy = "register the environment of its data, or train on new ones"
    else:
        environment_id = check_environment(settings.environment_id)
        remedy = "choose an evaluation.environment_id with those of the data"
    spaces = data.observation_space, data.action_space
    trained, here = layouts_of(spaces, data.name), layouts_of(environment_spaces(environment_id), environment_id)
    sizes = ([layout and layout.size for layout in layouts] for layouts in (trained, here))
    for kind, size, now in zip(("observations", "actions"), *sizes, strict=True):
        if size not in (None, now):
            raise InputError(
                f"the agent was trained on {kind} of {counted(size, 'number')}, and {environment_id} as it is "
                f"registered here has {now}: {remedy}"
            )
    return environment_id


def step_limits(settings: EvaluationConfig, data: DatasetSpec) -> tuple[int | None, int | None]:
    """The largest number of steps of an episode and that of the longest in the data, which is that of the data's
    environment alone."""
    return settings.max_episode_steps, data.longest_episode if settings.environment_id is None else None


def summarise_data(data: DatasetSpec, config: RunConfig) -> DatasetSpec:
    """The data of a run as its result reports them: what hides a part of them limits what scores may be compared."""
    comparable, mask = data.comparable, config.observation.mask
    if mask != "none":
        comparable = f"the agent sees no {mask}: compare only with agents that see none either"
    if (played := config.evaluation.environment_id) is not None:
        comparable = f"played in {played}, not in that of the data: compare only with agents that play there"
    if config.partial == "drop":
        comparable += "; partial episodes were dropped"
    return replace(data, comparable=comparable)


def evaluate_once(run: Path, trained: TrainedAgent, settings: EvaluationConfig, processes: int | None = None) -> Result:
    """The stored result of a run's checkpoint, or that of `score`, which is then stored."""
    result = stored_result(run, trained.config, trained.provenance, trained.step, settings)
    if result is None:
        result = score(trained, settings, processes)
        write_result(run, result)
    return result


def checkpoint_settings(config: RunConfig, data: DatasetSpec) -> EvaluationConfig:
    """How every checkpoint of a run is evaluated: with `evaluation.checkpoint_episodes`, at the first target return of
    the run and, unless it is capped to the same, at the best in the data."""
    settings = config.evaluation
    first = asked_returns(settings, data, config)[0]
    targets = (first,) if capped_as_best(first, data, config) else tuple(dict.fromkeys((first, data.return_max)))
    return replace(settings, episodes=settings.checkpoint_episodes, target_returns=targets)

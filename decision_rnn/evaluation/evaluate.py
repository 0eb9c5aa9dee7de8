"""Evaluation of a trained agent: scores for every target return, those beyond the data reported as such."""

import math
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from decision_rnn.backbones import count_parameters
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.environments.environments import (
    check_environment,
    environment_spaces,
    layouts_of,
    sizes_of,
)
from decision_rnn.evaluation.actor import Actor, actor_of
from decision_rnn.evaluation.metrics import metrics_named
from decision_rnn.evaluation.report import remark_on_cuts, remarks
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
from decision_rnn.evaluation.targets import asked_returns, capped_as_best
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.machine import commit, hardware, versions
from decision_rnn.utils.messages import counted
from decision_rnn.utils.plugins import check_plugins
from decision_rnn.utils.workers import default_processes, jobs_at_a_time

TIMED_ACTIONS = 200
"""Number of consecutive actions whose median time is reported."""


@dataclass(frozen=True)
class EvaluatedPolicy:
    """What is evaluated, and what its Result reports of it; the other attributes are described there.

    Attributes:
        actor: In evaluation mode, on the CPU; it carries its state or re-runs a window, as the settings say.
        provenance: The data it was trained on.
        seconds: Wall time of its training.
        cost: Microseconds of an action and bytes of the state, as from `action_cost`; None if not measured.
    """

    actor: Actor
    config: RunConfig
    provenance: DatasetSpec
    step: int
    seconds: float
    parameters: int
    backbone_parameters: int
    cost: tuple[float, int] | None = None


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


def evaluate(
    policy: TrainedAgent | EvaluatedPolicy, settings: EvaluationConfig, processes: int | None = None
) -> Result:
    """Play the evaluation episodes on the CPU. The result is the same for any number of processes.

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
            _target_result(config, dataset, protocol, *of) for of in zip(protocol.target_returns, played, strict=True)
        ),
        remarks=(*remarks(config, dataset, protocol), *remark_on_cuts(dataset, protocol, played)),
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
        asked_mean=None if episodes.asked is None else float(episodes.asked.mean()),
        limited=None if episodes.limited is None else float(episodes.limited.sum() / episodes.lengths.sum()),
        task_scores=tuple(float(scores[task_of == task].mean()) for task in range(tasks)) if tasks > 1 else (),
        returns=tuple(round(float(value), decimals) for value in episodes.returns),
        metrics={
            name: MetricResult(mean=float(values.mean()), sd=float(values.std()), values=tuple(values.tolist()))
            for name, values in episodes.metrics.items()
        },
    )


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
    trained = sizes_of(layouts_of(spaces, data.name))
    here = sizes_of(layouts_of(environment_spaces(environment_id), environment_id))
    for kind, size, now in zip(("observations", "actions"), trained, here, strict=True):
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
    """The stored result of a run's checkpoint, or that of `evaluate`, which is then stored."""
    result = stored_result(run, trained.config, trained.provenance, trained.step, settings)
    if result is None:
        result = evaluate(trained, settings, processes)
        write_result(run, result)
    return result


def checkpoint_settings(config: RunConfig, data: DatasetSpec) -> EvaluationConfig:
    """How every checkpoint of a run is evaluated: with `evaluation.checkpoint_episodes`, at the first target return of
    the run and, unless it is capped to the same, at the best in the data."""
    settings = config.evaluation
    first = asked_returns(settings, data, config)[0]
    targets = (first,) if capped_as_best(first, data, config) else tuple(dict.fromkeys((first, data.return_max)))
    return replace(settings, episodes=settings.checkpoint_episodes, target_returns=targets)

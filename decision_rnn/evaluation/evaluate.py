"""Evaluation of a trained agent: scores for every target return, those beyond the data reported as such."""

import math
import time
from dataclasses import dataclass

import numpy as np

from decision_rnn.backbones import count_parameters
from decision_rnn.checkpoint import Provenance, TrainedAgent
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.environments import check_environment
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import Actor, actor_of, prepare_to_act, window_of
from decision_rnn.evaluation.remarks import remarks
from decision_rnn.evaluation.results import PACKAGES, DataSummary, Protocol, Result, TargetResult
from decision_rnn.evaluation.rollout import RolloutResult, rollout
from decision_rnn.evaluation.targets import asked_returns
from decision_rnn.machine import commit, hardware, versions
from decision_rnn.plugins import check_plugins
from decision_rnn.workers import default_processes


def evaluate(trained: TrainedAgent, settings: EvaluationConfig, processes: int | None = None) -> Result:
    """Play the evaluation episodes on the CPU. The result is the same for any number of processes.

    An agent on a GPU is copied to the CPU: a checkpoint's score must not depend on where it was trained, and most of
    the time is spent in the environments, which run on all cores.

    Args:
        trained: The agent, on any device.
        settings: Number of episodes, target returns and protocol.
        processes: Number of processes; if left out, one for every core that this process may use.

    Raises:
        InputError: If `settings.episodes` is 0, the run needs modules that have not been imported, or a process dies.
    """
    agent = prepare_to_act(trained.agent)
    subject = Subject(
        actor_of(agent, window_of(settings)),
        trained.config,
        trained.provenance,
        trained.step,
        trained.seconds,
        count_parameters(agent),
        count_parameters(agent.backbone),
    )
    return evaluate_actor(subject, settings, processes)


@dataclass(frozen=True)
class Subject:
    """An actor to be evaluated, and what its Result reports of it; the other attributes are described there.

    Attributes:
        actor: In evaluation mode, on the CPU. It carries its state or re-runs a window, as the evaluation settings
            say.
        provenance: The data it was trained on.
        seconds: Wall time of its training.
    """

    actor: Actor
    config: RunConfig
    provenance: Provenance
    step: int
    seconds: float
    parameters: int
    backbone_parameters: int


def evaluate_actor(subject: Subject, settings: EvaluationConfig, processes: int | None = None) -> Result:
    """Like `evaluate`, for any actor: an agent or an exported policy."""
    if settings.episodes == 0:
        raise InputError("evaluation.episodes is 0, which means no evaluation: give at least 1, such as 100")
    config, spec = subject.config, subject.provenance.spec
    check_plugins(config.plugins, f"this run of {spec.name}")
    check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    dataset = summarise_data(subject.provenance, config)
    protocol = Protocol.of(settings, asked_returns(settings, spec, dataset.return_max), config.takes_target)
    begun = time.perf_counter()
    played = rollout(
        subject.actor,
        spec.environment_id,
        [
            0.0 if target is None else target for target in protocol.target_returns
        ],  # behaviour cloning has no target and ignores it
        protocol.episodes,
        protocol.seed,
        default_processes() if processes is None else processes,
        config.plugins,
    )
    seconds = time.perf_counter() - begun
    return Result(
        config=config,
        dataset=dataset,
        step=subject.step,
        protocol=protocol,
        targets=tuple(
            _of_target(target, dataset, spec, episodes)
            for target, episodes in zip(protocol.target_returns, played, strict=True)
        ),
        remarks=tuple(remarks(config, dataset, protocol)),
        training_seconds=round(subject.seconds, 1),
        parameters=subject.parameters,
        backbone_parameters=subject.backbone_parameters,
        environment_steps=int(sum(episodes.lengths.sum() for episodes in played)),
        evaluation_seconds=round(seconds, 2),
        commit=commit(),
        versions=versions(PACKAGES),
        hardware=hardware(),
    )


def _of_target(target: float | None, dataset: DataSummary, spec: DatasetSpec, episodes: RolloutResult) -> TargetResult:
    scores = spec.normalised(episodes.returns)
    if not np.isfinite(scores).all():
        raise InputError(
            f"episodes of {spec.environment_id} have returns that are not finite and have no score: check the "
            "agent's weights and the environment"
        )
    # Three decimals, or more where rewards are small, so that no episode's score moves by a thousandth of a point.
    decimals = max(3, math.ceil(5 - math.log10(abs(spec.reference_max - spec.reference_min))))
    return TargetResult(
        target_return=target,
        in_range=dataset.holds(target),
        return_mean=float(episodes.returns.mean()),
        return_sd=float(episodes.returns.std()),
        score_mean=float(scores.mean()),
        score_sd=float(scores.std()),
        length_mean=float(episodes.lengths.mean()),
        returns=tuple(round(float(value), decimals) for value in episodes.returns),
    )


def summarise_data(provenance: Provenance, config: RunConfig) -> DataSummary:
    """The summary of a run's training data that its result holds."""
    spec, mask = provenance.spec, config.observation.mask
    comparable = spec.comparable
    if mask != "none":
        comparable = f"the agent sees no {mask}: compare only with agents that see none either"
    if config.partial == "drop":
        comparable += "; partial episodes were dropped"
    return DataSummary(
        name=spec.name,
        fingerprint=provenance.fingerprint,
        environment_id=spec.environment_id,
        return_mean=provenance.return_mean,
        return_sd=provenance.return_sd,
        return_min=provenance.return_min,
        return_max=provenance.return_max,
        score_mean=float(spec.normalised(provenance.return_mean)),
        reference_min=spec.reference_min,
        reference_max=spec.reference_max,
        comparable=comparable,
        notes=provenance.notes,
    )

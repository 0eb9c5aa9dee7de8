"""Evaluation of an agent: its scores for every target return."""

import math
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from decision_rnn.agent import ActingState
from decision_rnn.agent.conditions.return_to_go import ReturnToGo
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.logs import listed
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.environments.layouts import Layout
from decision_rnn.environments.registry import check_environment
from decision_rnn.evaluation.acting import Actor
from decision_rnn.evaluation.actor import ExportedPolicy, actor_of, evaluation_settings, find_policy
from decision_rnn.evaluation.held_out import score_run
from decision_rnn.evaluation.metrics import metrics_named
from decision_rnn.evaluation.results import (
    PACKAGES,
    MetricResult,
    Protocol,
    Result,
    TargetResult,
    stored_result,
    write_result,
)
from decision_rnn.evaluation.rollout import one_thread, rollout
from decision_rnn.evaluation.targets import check_target, evaluated_returns
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.runs.folder import write_scores
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import check_folder
from decision_rnn.utils.machine import commit, hardware, versions
from decision_rnn.utils.messages import pluralize, quiet, warn
from decision_rnn.utils.parsing import PositiveInt, convert
from decision_rnn.utils.plugins import import_plugins
from decision_rnn.utils.workers import available_cores

TIMED_ACTIONS = 200
"""Number of consecutive actions whose median time is reported."""


def evaluate(
    agent: Any,
    target_returns: float | str | Sequence[float | str] | None = None,
    *,
    condition: Mapping[str, Any] | None = None,
    output: Path | str | None = None,
    validation: str | None = None,
    plot: Path | str | None = None,
    processes: PositiveInt | None = None,
    progress: bool = True,
    plugins: Sequence[str] = (),
    **settings: Any,
) -> Result:
    """Play episodes in the agent's environment and score them; `decision-rnn evaluate` does the same.

    With held-out episodes the agent is also scored by how well it predicts their actions, see `HeldOutScore`; if its
    data name no environment, by that alone.

    Every episode has its own environment and seed; the result is the same for any number of processes. The result of a
    run, or of one of its checkpoints, is also written to its folder.

    Args:
        agent: A run, an agent, a name that `load_agent` accepts, or an exported policy from `deploy.load_policy`.
        target_returns: Undiscounted sums of the environment's rewards, or `auto` for the limit of what the agent sees;
            if left out, `auto` and the paper's for the task that are inside the data, or, of an agent without a limit,
            the paper's and the best return in the data. An agent trained by cloning takes none.
        condition: Options of the condition, instead of the run's, that only change how the agent acts, such as
            `{"time_quantile": 0.1}`.
        output: A folder to write the result to, instead of the run's.
        validation: A dataset of held-out episodes; that of the run if left out.
        plot: A file for a figure of predicted and recorded actions over one held-out episode, such as a PNG.
        processes: The number of processes; one per core if left out.
        progress: Whether to show a progress bar.
        plugins: Modules to import first.
        **settings: Options of `EvaluationConfig`, such as `episodes`, `inference`, `seed` or `metrics`, instead of the
            run's.

    Returns:
        The result. `.targets` has an entry for each target return: `.return_mean`, `.return_sd` (over episodes),
        `.score_mean`, `.score_sd` (`print(result)` says what scores 0 and 100), `.length_mean` (steps), `.returns`,
        every episode's, and `.metrics` by name, each with `.mean`, `.sd` and `.values`. `.held_out` is the score on
        held-out episodes, if there are any; without an environment there are no targets.

    Raises:
        InputError: If there is no such agent, its environment cannot be made here, a value is invalid, the result
            cannot be written (checked before playing).
        MachineError: If a process dies.

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
    policy, run = find_policy(agent)
    if isinstance(policy, TrainedAgent):
        policy = policy.with_condition(condition or {})
    if target_returns is not None:
        check_target(policy.config)
    configured, episodes = policy.config.evaluation, convert(settings.get("episodes"), PositiveInt | None, "episodes")
    settings["episodes"] = episodes or configured.episodes or EvaluationConfig().episodes  # 0: none after training
    chosen = evaluation_settings(configured, target_returns=target_returns, **settings)
    name = policy.config.validation if validation is None else validation
    if isinstance(policy, ExportedPolicy):
        name = None
        options = chosen.inference, chosen.actions, condition or None, validation, plot
        if options != ("recurrent", configured.actions, None, None, None):
            raise InputError(
                "an exported policy only plays, carries its state, and keeps the condition and the kind of actions it "
                "was exported with: evaluate its run"
            )
    folder = run if output is None else Path(output)
    if folder is not None:
        check_folder(folder / "results")
    played = (chosen.environment_id or policy.provenance.environment_id) is not None
    if name is None and (plot is not None or not played):
        reason = "the figure shows one" if played else f"{policy.provenance.name} names no environment to play in"
        raise InputError(f"{reason}: name held-out episodes with --validation DATASET (validation= in Python)")
    held_out = None
    with quiet(not progress):
        if isinstance(policy, TrainedAgent) and name is not None:
            try:
                held_out = score_run(replace(policy, config=replace(policy.config, evaluation=chosen)), name, plot)
            except InputError as error:
                if validation is not None or plot is not None or not played:
                    raise
                warn(f"there is no held-out score: {error}")
        if played:
            result = replace(score(policy, chosen, processes), held_out=held_out)
        else:
            data, config, chosen = policy.provenance, policy.config, replace(chosen, episodes=0)
            about: Any = {"config": config, "dataset": data, "protocol": Protocol.from_settings(chosen, data, config)}
            result = Result(**about, **measured_at(policy), held_out=held_out)
    if folder is not None:
        write_result(folder, result)
        if played and run is not None and folder.resolve() == run.resolve():
            write_scores(run, result.step, result.scalars("evaluation"))
    return result


def score(policy: TrainedAgent | ExportedPolicy, settings: EvaluationConfig, processes: int | None = None) -> Result:
    """Play the episodes of an evaluation on the CPU. The result is the same for any number of processes.

    An agent on a GPU is copied to the CPU: a checkpoint's score must not depend on where it was trained, and most of
    the time is spent in the environments, which run on all cores, or in `processes`.

    Raises:
        InputError: If a metric is unknown, or the environment cannot be made here.
        MachineError: If a process dies.
    """
    config, metrics = policy.config, metrics_named(settings.metrics)
    environment_id = evaluation_environment(settings, policy.provenance)
    cost: tuple[float | None, int | None] = None, None
    actor = actor_of(policy, settings)
    if isinstance(policy, TrainedAgent):
        cost = action_microseconds(actor), state_bytes(actor)
    dataset = summarise_data(policy.provenance, replace(config, evaluation=settings))
    protocol = Protocol.from_settings(settings, dataset, config)
    begun = time.perf_counter()
    played = rollout(
        actor,
        environment_id,
        [target or 0.0 for target in protocol.target_returns],  # behaviour cloning has no target and ignores it
        protocol.episodes,
        protocol.seed,
        processes or (1 if multiprocessing.current_process().daemon else available_cores()),  # it may start no others
        step_limits(settings, dataset),
        tuple(metrics.values()),
    )
    seconds = time.perf_counter() - begun
    targets = zip(protocol.target_returns, played, strict=True)
    return Result(
        config=config,
        dataset=dataset,
        protocol=protocol,
        targets=tuple(_target_result(policy, dataset, protocol, target, episodes) for target, episodes in targets),
        remarks=_remarks(played),
        evaluation_seconds=round(seconds, 2),
        action_microseconds=cost[0],
        state_bytes=cost[1],
        **measured_at(policy),
    )


def measured_at(policy: TrainedAgent | ExportedPolicy) -> dict[str, Any]:
    """What `Measurements` have of a policy before it is played, and of this machine."""
    return {
        "step": policy.step,
        "training_seconds": round(policy.seconds, 1),
        "parameters": policy.parameters,
        "backbone_parameters": policy.backbone_parameters,
        "commit": commit(),
        "versions": versions(PACKAGES),
        "hardware": hardware(),
    }


def _remarks(played: np.ndarray) -> tuple[str, ...]:
    """A warning if episodes of a rollout were cut."""
    cut = played["length"][played["cut"]]
    if not cut.size:
        return ()
    return (
        f"{cut.size} of {pluralize(played.size, 'episode')} were cut off after {cut.max():,} steps, so their returns "
        "are incomplete: evaluation.max_episode_steps sets the limit",
    )


def _target_result(
    policy: TrainedAgent | ExportedPolicy,
    dataset: DatasetSpec,
    protocol: Protocol,
    target: float | None,
    episodes: np.ndarray,
) -> TargetResult:
    returns, lengths = episodes["return"], episodes["length"]
    scores = dataset.normalised(returns)
    # Three decimals, or more where rewards are small, so that no episode's score moves by a thousandth of a point.
    decimals = max(3, math.ceil(5 - math.log10(abs(dataset.reference_max - dataset.reference_min))))
    tasks = dataset.tasks if protocol.environment_id is None and len(scores) >= dataset.tasks else 1
    task_of = (protocol.seed + np.arange(len(scores))) % tasks
    return TargetResult(
        target_return=target,
        in_range=dataset.contains(target) if policy.config.takes_return else None,
        return_mean=float(returns.mean()),
        return_sd=float(returns.std()),
        score_mean=float(scores.mean()),
        score_sd=float(scores.std()),
        length_mean=float(lengths.mean()),
        initial_return_to_go=initial_return_to_go(policy, target),
        task_scores=tuple(float(scores[task_of == task].mean()) for task in range(tasks)) if tasks > 1 else (),
        returns=tuple(round(float(value), decimals) for value in returns),
        metrics={
            name: MetricResult(mean=float(values.mean()), sd=float(values.std()), values=tuple(values.tolist()))
            for name, values in ((name, episodes[name]) for name in protocol.metrics)
        },
    )


def initial_return_to_go(policy: TrainedAgent | ExportedPolicy, target: float | None) -> float | None:
    """The return-to-go, with its limit, that an agent sees at an episode's first step; None if it sees none, and for
    exported policies."""
    condition = policy.agent.condition if isinstance(policy, TrainedAgent) else None
    if target is None or not isinstance(condition, ReturnToGo):
        return None
    first = torch.zeros(1, dtype=torch.int64, device=condition.scale.device)
    return float(condition.limit(torch.tensor([[target]]).to(condition.scale), first, None, first))


def action_microseconds(actor: Actor[ActingState]) -> float:
    """Median microseconds of one step in one environment, on one thread."""
    observation = np.zeros((1, actor.observation_layout.size), np.float32)
    inputs = observation, np.zeros(1, np.float32), np.zeros(1, bool), np.ones(1, np.float32)
    state, times = actor.initial_state(1), []
    with one_thread():
        for _ in range(TIMED_ACTIONS):
            begun = time.perf_counter()
            _, state = actor.step(*inputs, state)
            times.append(time.perf_counter() - begun)
    return round(float(np.median(times)) * 1e6, 1)


def state_bytes(actor: Actor[ActingState]) -> int:
    """The size of the state of one environment, which is the same at every step."""
    return sum(part.numel() * part.element_size() for part in actor.initial_state(1).flatten())


def evaluation_environment(settings: EvaluationConfig, data: DatasetSpec) -> str:
    """The id of the environment that agents trained on these data are evaluated in; InputError, with a remedy, if it
    cannot be made here, or has observations or actions of other sizes or parts."""
    own = data.environment_id, data.requirements, data.environment_settings
    environment_id = settings.environment_id or str(data.environment_id)
    played_spaces = check_environment(settings.environment_id) if settings.environment_id else check_environment(*own)
    data_spaces = data.observation_space, data.action_space
    for kind, *pair in zip(("observations", "actions"), data_spaces, played_spaces, strict=True):
        trained, other = (Layout.of_space(space, kind) for space in pair)
        parts = [{part.name: part.size for part in layout.parts} for layout in (trained, other)]
        named = all("" not in each for each in parts)  # an environment may flatten the parts of the data
        if trained.size != other.size or (named and parts[0] != parts[1]):
            sizes = [f"{sum(each.values())}" + f" ({listed([*each])})" * named for each in parts]
            raise InputError(
                f"the agent was trained on {kind} of size {sizes[0]}, and {environment_id} as it is registered here "
                f"has {sizes[1]}: choose an evaluation.environment_id with those of the data"
            )
    return environment_id


def step_limits(settings: EvaluationConfig, data: DatasetSpec) -> tuple[int | None, int | None]:
    """The largest number of steps of an episode, and the number of steps of the longest episode in the data; the latter
    is None if agents play in another environment than the data's."""
    return settings.max_episode_steps, data.longest_episode if settings.environment_id is None else None


def summarise_data(data: DatasetSpec, config: RunConfig) -> DatasetSpec:
    """The dataset as a result reports it: `comparable` says which scores these may be compared with, given mask,
    environment and dropped episodes."""
    comparable, mask = data.comparable, config.observation.mask
    if mask != "none":
        comparable = f"the agent sees no {mask}: compare only with agents that see none either"
    if (played := config.evaluation.environment_id) is not None:
        comparable = f"played in {played}, not in that of the data: compare only with agents that play there"
    if config.partial == "drop":
        comparable += "; partial episodes were dropped"
    return replace(data, comparable=comparable)


def evaluate_once(run: Path, trained: TrainedAgent, settings: EvaluationConfig) -> Result:
    """The stored result of a run's checkpoint, or that of `score`, which is then stored."""
    result = stored_result(run, trained.config, trained.provenance, trained.step, settings)
    if result is None:
        result = score(trained, settings)
        write_result(run, result)
    return result


def checkpoint_settings(config: RunConfig, data: DatasetSpec) -> EvaluationConfig:
    """How every checkpoint of a run is evaluated: with `evaluation.checkpoint_episodes`, at the first target return of
    the run and, unless it is capped to the same, at the best in the data."""
    settings = config.evaluation
    first = evaluated_returns(settings, data, config)[0]
    capped = config.condition.limited and first > data.return_max
    targets = (first,) if capped else tuple(dict.fromkeys((first, data.return_max)))
    return replace(settings, episodes=settings.checkpoint_episodes, target_returns=targets)

"""Results: the record of an evaluation, and its file in the run's folder.

    <run>/results/step-10000-recurrent-100-episodes-1a2b3c4d.json

A result is identified by its key: the run's configuration, the data's fingerprint, the checkpoint's step and the
protocol. Results with different keys have different files, with a hash of the key in the name.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter

from decision_rnn.config import EvaluationConfig, RunConfig, from_dict, to_dict
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.evaluation.actor import describe_acting, window_of
from decision_rnn.evaluation.tables import describe_limit, describe_success, describe_tasks, format_result
from decision_rnn.evaluation.targets import asked_returns
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError, cannot_write
from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import counted, warn
from decision_rnn.utils.parsing import TargetReturn, format_target
from decision_rnn.utils.records import read_file

SCHEMA = 4
"""Version of the file format."""
PACKAGES = ("decision-rnn", "torch", "numpy", "gymnasium", "mujoco")
"""The packages whose versions a result records, because scores depend on them."""
REMEDY = "delete it and evaluate the run again"
SCALE = attrgetter("environment_id", "reference_min", "reference_max")
"""What scores depend on besides the episodes that a fingerprint identifies."""

SavedConfig = Annotated[
    RunConfig,
    BeforeValidator(lambda value: from_dict(value) if isinstance(value, dict) else value),
    PlainSerializer(to_dict),
]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How an agent was evaluated.

    Attributes:
        inference: `recurrent` to carry the state over the episode, or `window` to re-run the last steps.
        window: Number of steps in the window; None where the state is carried.
        actions: As in `EvaluationConfig`.
        episodes: Episodes per target return.
        target_returns: The target returns; (None,) in behaviour cloning.
        seed: Episode i of every target begins with the environment's reset(seed + i).
        max_episode_steps: As in `EvaluationConfig`.
        environment_id: As there.
        metrics: The names of the metrics.
    """

    inference: Literal["recurrent", "window"]
    window: int | None
    episodes: int
    target_returns: tuple[TargetReturn | None, ...]
    seed: int
    actions: Literal["greedy", "sampled"] = "greedy"
    max_episode_steps: int | None = None
    environment_id: str | None = None
    metrics: tuple[str, ...] = ()

    @classmethod
    def from_settings(cls, settings: EvaluationConfig, data: DatasetSpec, config: RunConfig) -> "Protocol":
        """The protocol of an evaluation with these settings, for an agent trained on these data."""
        return cls(
            inference=settings.inference,
            window=window_of(settings),
            actions=settings.actions,
            episodes=settings.episodes,
            target_returns=asked_returns(settings, data, config) if config.takes_target else (None,),
            seed=settings.seed,
            max_episode_steps=settings.max_episode_steps,
            environment_id=settings.environment_id,
            metrics=tuple(dict.fromkeys(settings.metrics)),
        )

    def __str__(self) -> str:
        return describe_acting(self.window, self.actions)


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """The mean of a metric over episodes, its standard deviation, and its value in every episode."""

    mean: float
    sd: float
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TargetResult:
    """Returns and scores of the episodes played for one target return.

    Attributes:
        target_return: The target return; None in behaviour cloning.
        in_range: Whether it is inside the data's range; None without a target return.
        return_mean: Mean undiscounted return.
        return_sd: Its standard deviation over episodes.
        score_mean: Mean normalised score.
        score_sd: Its standard deviation over episodes.
        length_mean: Mean length of the episodes, in steps.
        returns: Return of every episode, rounded to three decimals, more if the reference scores are close together.
        initial_return_to_go: Mean return-to-go that the agent saw at the first step of an episode; None if it sees
            none, and for exported policies.
        limited: Share of the steps in which it was less than the target less the rewards so far, likewise.
        task_scores: Mean normalised score of the episodes of each task, where the environment has several in turn
            (`DatasetSpec.tasks`) and all were played.
        metrics: The evaluation's metrics, by name.
    """

    target_return: TargetReturn | None
    in_range: bool | None
    return_mean: float
    return_sd: float
    score_mean: float
    score_sd: float
    length_mean: float
    returns: tuple[float, ...]
    initial_return_to_go: float | None = None
    limited: float | None = None
    task_scores: tuple[float, ...] = ()
    metrics: dict[str, MetricResult] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What an evaluation of a checkpoint measures, and where.

    Attributes:
        step: Training step of the checkpoint.
        targets: Scores, one entry per target return.
        remarks: Warnings about the scores.
        training_seconds: Wall time of the training up to that step.
        evaluation_seconds: Wall time of the evaluation.
        parameters: Number of parameters of the agent.
        backbone_parameters: Number of parameters of its backbone.
        action_microseconds: Median time of one action in one environment on one thread; None for exported policies.
        state_bytes: Size of the agent's state for one environment; None likewise.
        jobs: Number of runs that `compare` trained at the same time, including this one; None if not known.
        commit: Commit of the source tree that evaluated it; None for an installed package.
        versions: Versions of Python and `PACKAGES`.
        hardware: The machine that evaluated it.
    """

    step: int
    targets: tuple[TargetResult, ...]
    remarks: tuple[str, ...]
    training_seconds: float
    evaluation_seconds: float
    parameters: int
    backbone_parameters: int | None
    action_microseconds: float | None = None
    state_bytes: int | None = None
    jobs: int | None = None
    commit: str | None
    versions: dict[str, str]
    hardware: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Result(Measurements):
    """One evaluation of one checkpoint.

    Attributes:
        config: Configuration of the run.
        dataset: The data it was trained on.
        protocol: How it was evaluated.
        environment_steps: Total steps of all episodes.
    """

    config: SavedConfig
    dataset: DatasetSpec
    protocol: Protocol
    environment_steps: int

    @property
    def key(self) -> dict[str, Any]:
        """What identifies the result, see `result_key`."""
        return result_key(self.config, self.dataset.fingerprint, self.step, self.protocol)

    def rows(self) -> list[dict[str, Any]]:
        """A row for every target return, ready for `pandas.DataFrame`: means, and standard deviations over episodes."""
        return [
            {
                "target_return": target.target_return,
                "in_range": target.in_range,
                "episodes": len(target.returns),
                "return": target.return_mean,
                "return_sd": target.return_sd,
                "score": target.score_mean,
                "score_sd": target.score_sd,
                "length": target.length_mean,
                **{name: metric.mean for name, metric in target.metrics.items()},
                **{f"{name}_sd": metric.sd for name, metric in target.metrics.items()},
            }
            for target in self.targets
        ]

    def scalars(self, kind: str) -> dict[str, float]:
        """The scores and metrics as TensorBoard shows them: by tag, such as `evaluation/score_at_3600`."""
        scalars = {}
        for target in self.targets:
            suffix = "" if target.target_return is None else f"_at_{format_target(target.target_return)}"
            scalars[f"{kind}/score{suffix}"] = target.score_mean
            scalars |= {f"{kind}/{name}{suffix}": metric.mean for name, metric in target.metrics.items()}
        return scalars

    def to_dict(self) -> dict[str, Any]:
        """The content of a result file, as plain JSON values."""
        return {"schema": SCHEMA, **TypeAdapter(Result).dump_python(self, mode="json")}

    def __str__(self) -> str:
        """The table that commands print."""
        data, protocol = self.dataset, self.protocol
        per_target = " of BC" if protocol.target_returns == (None,) else " per target"
        title = (
            f"{self.config.backbone.name} on {data.name}, step {self.step}, "
            f"{counted(protocol.episodes, 'episode')}{per_target}, {protocol}, "
            f"{protocol.environment_id or data.environment_id}"
        )
        notes = (
            *(describe_tasks(target.target_return, target.task_scores) for target in self.targets),
            *(describe_success(target.target_return, target.returns, data) for target in self.targets),
            *(
                describe_limit(target.target_return, target.limited, target.initial_return_to_go)
                for target in self.targets
            ),
            data.comparable,
            *data.notes,
            *self.remarks,
        )
        return format_result(title, self.rows(), data, protocol.metrics, filter(None, notes))


def result_key(config: RunConfig, fingerprint: str, step: int, protocol: Protocol) -> dict[str, Any]:
    """What identifies a result: all that its scores depend on.

    The configuration is without the parts that the weights do not depend on: the evaluation settings, the data's path
    and the order in which plugins were named.
    """
    plugins = tuple(sorted(set(config.plugins)))
    same = replace(config, evaluation=EvaluationConfig(), path=None, validation=None, plugins=plugins)
    return {"config": to_dict(same), "fingerprint": fingerprint, "step": step, "protocol": asdict(protocol)}


def read_result(path: Path) -> Result:
    """Read a result file; InputError if it cannot be read."""
    return read_file(path, Result, REMEDY, SCHEMA)


def result_file(run: Path, result: Result) -> Path:
    """The path of a result's file in the folder of its run: step, protocol and a hash of the key."""
    digest = hashlib.sha256(json.dumps(result.key, sort_keys=True).encode()).hexdigest()[:8]
    inference = "recurrent" if result.protocol.window is None else f"window-{result.protocol.window}"
    return run / "results" / f"step-{result.step}-{inference}-{result.protocol.episodes}-episodes-{digest}.json"


def write_result(run: Path, result: Result) -> Path:
    """Write a result into the folder `results` of its run, atomically; returns the path of the file.

    A result that cannot be written is printed, since it may have taken hours, before the error is raised.
    """
    path = result_file(run, result)
    try:
        with new_file(path) as new:
            new.write_text(json.dumps(result.to_dict(), indent=2) + "\n")
    except OSError as error:
        print(result, flush=True)
        raise cannot_write(path, error) from None
    return path


def stored_result(
    run: Path, config: RunConfig, data: DatasetSpec, step: int, settings: EvaluationConfig
) -> Result | None:
    """The result of one of a run's checkpoints, or None if it has not been evaluated in this way on this scale.

    Args:
        run: The run's folder.
        config: The run's configuration.
        data: The data that it is trained on.
        step: The checkpoint's step.
        settings: How the checkpoint is evaluated.
    """
    protocol = Protocol.from_settings(settings, data, config)
    return next((result for result in _results(run, config, data, step) if result.protocol == protocol), None)


def results_of(run: Path, trained: TrainedAgent) -> list[Result]:
    """All results of this agent in a run's folder; unreadable files are skipped with a line on stderr."""
    return list(_results(run, trained.config, trained.provenance, trained.step))


def _results(run: Path, config: RunConfig, data: DatasetSpec, step: int) -> Iterator[Result]:
    """The results of a checkpoint, in files with our names or the user's.

    Keys are compared, not the hashes in file names: a result written before a configuration option existed matches a
    configuration in which the option has its default.
    """
    for path in sorted((run / "results").glob("*.json")):
        if path.name.startswith("step-") and not path.name.startswith(f"step-{step}-"):
            continue
        try:
            result = read_result(path)
        except InputError as error:
            warn(f"skipped: {error}")
            continue
        same = result.key == result_key(config, data.fingerprint, step, result.protocol)
        if same and SCALE(result.dataset) == SCALE(data):
            yield result

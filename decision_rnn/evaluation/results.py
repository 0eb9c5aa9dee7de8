"""Results: the record of an evaluation, and its file in the run's folder.

    <run>/results/step-10000-recurrent-100-episodes-1a2b3c4d.json

A result is identified by the run's configuration, the data's fingerprint, the checkpoint's step and the protocol.
Results that differ in any of these have different files, with a hash of this key in the name.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.config import EvaluationConfig, RunConfig, to_dict
from decision_rnn.config_parser import from_dict
from decision_rnn.data.summary import DataSummary
from decision_rnn.errors import InputError, cannot_write
from decision_rnn.evaluation.actor import describe_state, window_of
from decision_rnn.files import write_atomically
from decision_rnn.messages import warn
from decision_rnn.records import damaged, read_json, read_record

SCHEMA = 3
"""Version of the file format; 2, of version 0.2, has other names in the configuration and the protocol."""
PACKAGES = ("decision-rnn", "torch", "numpy", "gymnasium", "mujoco")
"""The packages whose versions a result records, because scores depend on them."""
REMEDY = "delete it and evaluate the run again"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How an agent was evaluated.

    Attributes:
        state: `recurrent` to carry the state over the episode, or `window` to re-run the last steps for every action.
        window: Number of steps in the window; None where the state is carried.
        episodes: Episodes per target return.
        target_returns: The target returns; (None,) in behaviour cloning.
        seed: Episode i of every target begins with the environment's reset(seed + i).
        max_episode_steps: As in `EvaluationConfig`.
    """

    state: Literal["recurrent", "window"]
    window: int | None
    episodes: int
    target_returns: tuple[float | None, ...]
    seed: int
    max_episode_steps: int | None = None

    @classmethod
    def from_settings(cls, settings: EvaluationConfig, targets: Sequence[float], takes_target: bool) -> "Protocol":
        """The protocol of these settings, with these target returns if the agent takes them."""
        return cls(
            state=settings.state,
            window=window_of(settings),
            episodes=settings.episodes,
            target_returns=tuple(targets) if takes_target else (None,),
            seed=settings.seed,
            max_episode_steps=settings.max_episode_steps,
        )

    def __str__(self) -> str:
        return describe_state(self.window)


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
    """

    target_return: float | None
    in_range: bool | None
    return_mean: float
    return_sd: float
    score_mean: float
    score_sd: float
    length_mean: float
    returns: tuple[float, ...]


@dataclass(frozen=True)
class Key:
    """What identifies a result; make one with `from_run`."""

    config: RunConfig
    fingerprint: str
    step: int
    protocol: Protocol

    @classmethod
    def from_run(cls, config: RunConfig, fingerprint: str, step: int, protocol: Protocol) -> "Key":
        """The key of a run's result, without the parts of its configuration that its weights do not depend on: the
        evaluation settings, the data's path and the order in which plugins were named."""
        same = replace(config, evaluation=EvaluationConfig(), path=None, plugins=tuple(sorted(set(config.plugins))))
        return cls(same, fingerprint, step, protocol)

    @property
    def file_name(self) -> str:
        """Step and protocol in readable form, followed by a hash of the whole key."""
        whole = json.dumps({**asdict(self), "config": to_dict(self.config)}, sort_keys=True)
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        state = "recurrent" if self.protocol.state == "recurrent" else f"window-{self.protocol.window}"
        return f"step-{self.step}-{state}-{self.protocol.episodes}-episodes-{digest}.json"


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What an evaluation of a checkpoint measures, and where.

    Attributes:
        step: Training step of the checkpoint.
        targets: Scores, one entry per target return.
        remarks: What a reader has to know before trusting the scores, in sentences.
        training_seconds: Wall time of the training up to that step.
        evaluation_seconds: Wall time of the evaluation.
        parameters: Number of parameters of the agent.
        backbone_parameters: Number of parameters of its backbone; None for old files that do not record it.
        action_microseconds: Median time of one action in one environment on one thread; None for old files and
            exported policies.
        state_bytes: Size of the agent's state for one environment, as above.
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

    config: RunConfig
    dataset: DataSummary
    protocol: Protocol
    environment_steps: int

    @property
    def key(self) -> Key:
        return Key.from_run(self.config, self.dataset.fingerprint, self.step, self.protocol)

    def to_dict(self) -> dict[str, Any]:
        """The content of a result file, as plain JSON values."""
        data: dict[str, Any] = json.loads(json.dumps({**asdict(self), "config": to_dict(self.config)}))
        return {"schema": SCHEMA, **data}

    def __str__(self) -> str:
        """The table that commands print."""
        from decision_rnn.evaluation.report import format_result  # imported here to avoid a cycle

        return format_result(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str) -> "Result":
        """Read the output of `to_dict`; InputError, naming `source`, if it is something else."""
        schema = data.get("schema") if isinstance(data, Mapping) else None
        if not isinstance(schema, int) or schema < 2:
            raise damaged(source, ValueError("it is not a result of version 0.2 or later"), REMEDY)
        if schema > SCHEMA:
            raise InputError(
                f"{source} is a result of schema {schema}, of which this version reads {SCHEMA} and older: "
                "use the newer decision-rnn that wrote it"
            )
        try:
            config = from_dict(data["config"], source)
        except InputError as error:
            raise InputError(f"the configuration in {source} cannot be used: {error}") from None
        except (KeyError, TypeError, AttributeError) as error:
            raise damaged(source, error, REMEDY) from None
        try:
            return read_record({**data, "config": config, "protocol": _translated(data.get("protocol"))}, cls)
        except ValueError as error:
            raise damaged(source, error, REMEDY) from None


def _translated(protocol: Any) -> Any:
    """A saved protocol; version 0.2 called the state `carry`."""
    if isinstance(protocol, dict) and protocol.get("state") == "carry":
        return {**protocol, "state": "recurrent"}
    return protocol


def read_result(path: Path) -> Result:
    """Read a result file; InputError if it cannot be read."""
    return Result.from_dict(read_json(path, REMEDY), str(path))


def result_file(run: Path, result: Result) -> Path:
    """The path of a result's file in the folder of its run."""
    return run / "results" / result.key.file_name


def write_result(run: Path, result: Result) -> Path:
    """Write a result into the folder `results` of its run, atomically; returns the path of the file."""
    path = result_file(run, result)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(result.to_dict(), indent=2) + "\n").encode())
    except OSError as error:
        raise cannot_write(path, error) from None
    return path


def find_result(run: Path, key: Key) -> Result | None:
    """The result with this key in a run's folder, or None; unreadable files are skipped with a line on stderr.

    Keys are compared, not the hashes in file names: a result written before a configuration option existed, or by
    another name, matches a key in which the option has the value that `config_parser.from_dict` gives it.
    """
    likely = run / "results" / key.file_name  # tried first, since reading a result's configuration is slow
    return next((result for result in _read_results(run, key.step, likely) if result.key == key), None)


def results_of(run: Path, trained: TrainedAgent) -> list[Result]:
    """All results of this agent in a run's folder; unreadable files are skipped with a line on stderr."""
    config, data = trained.config, trained.provenance
    return [
        result
        for result in _read_results(run, trained.step)
        if result.key == Key.from_run(config, data.fingerprint, trained.step, result.protocol)
    ]


def _read_results(run: Path, step: int, likely: Path | None = None) -> Iterator[Result]:
    """The results of a checkpoint, by its file names or those that the user chose; `likely` is read first."""
    paths = sorted((run / "results").glob("*.json"))
    for path in sorted(paths, key=lambda path: path != likely):
        if path.name.startswith(f"step-{step}-") or not path.name.startswith("step-"):
            try:
                yield read_result(path)
            except InputError as error:
                warn(f"skipped: {error}")

"""Results: the record of an evaluation, and its file in the run's folder.

    <run>/results/step-10000-recurrent-100-episodes-1a2b3c4d.json

A result is identified by the run's configuration, the data's fingerprint, the checkpoint's step and the protocol.
Results that differ in any of these have different files, with a hash of this key in the name.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.config import EvaluationConfig, RunConfig, to_dict
from decision_rnn.config_parser import from_dict
from decision_rnn.data.spec import normalised_scores
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import describe_state, window_of
from decision_rnn.evaluation.version_01 import of_version_01
from decision_rnn.files import write_atomically
from decision_rnn.messages import warn

SCHEMA = 2
"""Version of the file format. Version 0.1 wrote <run>/result.json and <run>/result-window-K.json without a schema."""
PACKAGES = ("decision-rnn", "torch", "numpy", "gymnasium", "mujoco")
"""The packages whose versions a result records, because scores depend on them."""
FILE_NAME = re.compile(r"step-\d+-(carry|recurrent|window-\d+)-\d+-episodes-[0-9a-f]{8}\.json")
"""Matches the file names made by `Key.file_name`."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How an agent was evaluated.

    Attributes:
        state: `recurrent` to carry the state over the episode, or `window` to re-run the last steps for every action.
        window: Number of steps in the window; None where the state is carried.
        episodes: Episodes per target return.
        target_returns: The target returns; (None,) in behaviour cloning.
        seed: Episode i of every target begins with the environment's reset(seed + i).
    """

    state: Literal["recurrent", "window"]
    window: int | None
    episodes: int
    target_returns: tuple[float | None, ...]
    seed: int

    @classmethod
    def of(cls, settings: EvaluationConfig, asked: Sequence[float], takes_target: bool) -> "Protocol":
        """The protocol of these settings, with the target returns `asked` if the agent takes them."""
        return cls(
            state=settings.state,
            window=window_of(settings),
            episodes=settings.episodes,
            target_returns=tuple(asked) if takes_target else (None,),
            seed=settings.seed,
        )

    def __str__(self) -> str:
        return describe_state(self.window)


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """What scores need to know about an agent's training data; returns are in the environment's units.

    `return_min` and `return_max` are None for old checkpoints that do not record them.
    """

    name: str
    fingerprint: str
    environment_id: str
    return_mean: float
    return_sd: float
    return_min: float | None
    return_max: float | None
    score_mean: float
    reference_min: float
    reference_max: float
    comparable: str
    notes: tuple[str, ...] = ()

    def normalised(self, returns: np.ndarray | float) -> np.ndarray:
        """Normalised scores of returns, by `normalised_scores`."""
        return normalised_scores(returns, self.reference_min, self.reference_max)

    def holds(self, target_return: float | None) -> bool | None:
        """Whether a return is inside the data's range; None without a return or if the range is not known."""
        if target_return is None or self.return_min is None or self.return_max is None:
            return None
        return self.return_min <= target_return <= self.return_max


@dataclass(frozen=True, kw_only=True)
class TargetResult:
    """Returns and scores of the episodes played for one target return.

    Attributes:
        target_return: The target return; None in behaviour cloning.
        in_range: Whether it is inside the data's range; None if the range is not known.
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
    """What identifies a result. Made by `of`, which leaves evaluation settings and path out of the configuration."""

    config: RunConfig
    fingerprint: str
    step: int
    protocol: Protocol

    @classmethod
    def of(cls, config: RunConfig, fingerprint: str, step: int, protocol: Protocol) -> "Key":
        return cls(replace(config, evaluation=EvaluationConfig(), path=None), fingerprint, step, protocol)

    @property
    def file_name(self) -> str:
        """Step and protocol in readable form, followed by a hash of the whole key."""
        whole = json.dumps({**asdict(self), "config": to_dict(self.config)}, sort_keys=True)
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        state = "recurrent" if self.protocol.state == "recurrent" else f"window-{self.protocol.window}"
        return f"step-{self.step}-{state}-{self.protocol.episodes}-episodes-{digest}.json"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One evaluation of one checkpoint.

    Attributes:
        config: Configuration of the run.
        dataset: The data it was trained on.
        step: Training step of the checkpoint.
        protocol: How it was evaluated.
        targets: Scores, one entry per target return.
        remarks: What a reader has to know before trusting the scores, in sentences.
        training_seconds: Wall time of the training up to that step.
        parameters: Number of parameters of the agent.
        backbone_parameters: Number of parameters of its backbone; None for old files that do not record it.
        environment_steps: Total steps of all episodes.
        evaluation_seconds: Wall time of the evaluation.
        commit: Commit of the source tree that evaluated it; None for an installed package.
        versions: Versions of Python and `PACKAGES`.
        hardware: The machine that evaluated it.
    """

    config: RunConfig
    dataset: DataSummary
    step: int
    protocol: Protocol
    targets: tuple[TargetResult, ...]
    remarks: tuple[str, ...]
    training_seconds: float
    parameters: int
    backbone_parameters: int | None
    environment_steps: int
    evaluation_seconds: float
    commit: str | None
    versions: dict[str, str]
    hardware: dict[str, Any]

    @property
    def key(self) -> Key:
        return Key.of(self.config, self.dataset.fingerprint, self.step, self.protocol)

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
        """Read the output of `to_dict` or the content of a file of version 0.1.

        Raises:
            InputError: If the data are neither; the message names `source`.
        """
        try:
            schema = data.get("schema", 1)
            if not isinstance(schema, int) or schema > SCHEMA:
                raise InputError(
                    f"{source} is a result of schema {schema}, of which this version knows {SCHEMA} and older: "
                    "use the newer decision-rnn that wrote it"
                )
            try:
                config = from_dict(data["config"], source)
            except InputError as error:
                raise InputError(f"the configuration in {source} cannot be used: {error}") from None
            current = {**(of_version_01(data, config) if schema == 1 else data), "config": config}
            current.pop("schema", None)
            current["dataset"] = DataSummary(**{**current["dataset"], "notes": tuple(current["dataset"]["notes"])})
            asked = current["protocol"]["target_returns"]
            current["protocol"] = Protocol(**{**current["protocol"], "target_returns": tuple(asked)})
            current["targets"] = tuple(
                TargetResult(**{**t, "returns": tuple(t["returns"])}) for t in current["targets"]
            )
            return cls(**{**current, "remarks": tuple(current["remarks"])})
        except (KeyError, TypeError, AttributeError) as error:
            raise _damaged(source, error) from None


def read_result(path: Path) -> Result:
    """Read a result file; InputError if it cannot be read."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(str(path), error) from None
    return Result.from_dict(data, str(path))


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
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    return path


def find_result(run: Path, key: Key) -> Result | None:
    """The result with this key in a run's folder, or None; unreadable files are skipped with a line on stderr.

    Keys are compared, not the hashes in file names: a result written before a configuration option existed matches a
    key in which the option has the value of that time, its default or the one in config.BEFORE_OPTIONS.
    """
    likely = run / "results" / key.file_name
    # Parsing the configuration of a result is slow: try the likely file first, and skip names of other keys.
    prefix = likely.name.rpartition("-")[0]
    paths = sorted(_result_files(run), key=lambda path: path != likely)
    near = [path for path in paths if not FILE_NAME.fullmatch(path.name) or path.name.startswith(f"{prefix}-")]
    return next((result for result in _readable(near) if result.key == key), None)


def results_of(run: Path, trained: TrainedAgent) -> list[Result]:
    """All results of this agent in a run's folder; unreadable files are skipped with a line on stderr."""
    return [
        result
        for result in _readable(_result_files(run))
        if result.key == Key.of(trained.config, trained.provenance.fingerprint, trained.step, result.protocol)
    ]


def _result_files(run: Path) -> list[Path]:
    return [*sorted((run / "results").glob("*.json")), *sorted(run.glob("result*.json"))]


def _readable(paths: Iterable[Path]) -> Iterator[Result]:
    for path in paths:
        try:
            result = read_result(path)
        except InputError as error:
            warn(f"passed over: {error}")
            continue
        yield result


def _damaged(source: str, error: Exception) -> InputError:
    reason = f"{type(error).__name__}: {error}".rstrip(": ")
    return InputError(f"{source} is not a result, or damaged ({reason}): delete it and evaluate the run again")

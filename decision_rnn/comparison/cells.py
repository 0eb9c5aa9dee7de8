"""The cells of a comparison, one run each: trains and evaluates what has not been done yet, wherever the cell runs.

<run>/cell.json    record of a finished cell, so that it is neither run nor measured again
"""

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path

from decision_rnn.checkpoint import TrainedAgent, has_checkpoint
from decision_rnn.comparison.latency import action_cost
from decision_rnn.comparison.record import CheckpointScores, Trial
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.summary import DataSummary
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import actor_of
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.results import Key, Protocol, Result, find_result, write_result
from decision_rnn.files import write_atomically
from decision_rnn.messages import warn
from decision_rnn.records import read_record as decoded
from decision_rnn.training.loop import train
from decision_rnn.training.run_folder import read_metrics


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of a comparison.

    Attributes:
        variant: The variant's label.
        dataset: The dataset's name.
        config: Configuration of the run, with its dataset and seed.
        output: Folder of the comparison.
        run: Folder of the run, relative to `output`.
        data: The data that the run is trained on.
        targets: Target returns of the last checkpoint, repeated as in `ComparedDataset.targets`.
        protocol: How the last checkpoint is evaluated.
        checkpoint_protocol: How every checkpoint, including the last, is evaluated; None for no such evaluation.
        jobs: Number of cells that run at a time; None if not known.
    """

    variant: str
    dataset: str
    config: RunConfig
    output: Path
    run: str
    data: DataSummary
    targets: tuple[float | None, ...]
    protocol: Protocol
    checkpoint_protocol: Protocol | None
    jobs: int | None = None

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.output / self.run

    def key(self, step: int, protocol: Protocol) -> Key:
        """The key of the result of one of the run's checkpoints."""
        return Key.from_run(self.config, self.data.fingerprint, step, protocol)

    @property
    def digest(self) -> str:
        """Hash of everything that determines the cell's record."""
        steps, checkpoints = self.config.training.steps, self.checkpoint_protocol
        keys = [self.key(steps, protocol).file_name for protocol in (self.protocol, checkpoints) if protocol]
        whole = json.dumps([self.variant, self.run, asdict(self.data), self.targets, keys])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class CellOutcome:
    """The record of a finished cell, and the seconds that this process spent on training and evaluation."""

    record: Trial
    busy_seconds: float


def run_cell(cell: Cell, on_steps: Callable[[int], None]) -> CellOutcome:
    """Train and evaluate what has not been done of a cell, and write its record to cell.json.

    Args:
        cell: What to run.
        on_steps: Called from time to time with the number of training steps done so far.
    """
    busy, trained_before = 0.0, None
    checkpoints: dict[int, Result] = {}
    resume, resumed = (cell.folder / "config.yaml").is_file(), has_checkpoint(cell.folder)

    def evaluated(trained: TrainedAgent, protocol: Protocol) -> Result:
        nonlocal busy
        result = _found(cell, trained.step, protocol)
        if result is None:
            result = evaluate(trained, settings_of(protocol), processes=1)
            write_result(cell.folder, result)
            busy += result.evaluation_seconds
        return result

    def at_checkpoint(trained: TrainedAgent) -> None:
        nonlocal trained_before
        if trained_before is None:
            trained_before = trained.seconds if resumed else 0.0
        if trained.provenance.fingerprint != cell.data.fingerprint:
            raise InputError(
                f"{cell.dataset} has other contents where {cell.run} was trained (fingerprint "
                f"{trained.provenance.fingerprint[:12]}) than where the comparison was started "
                f"({cell.data.fingerprint[:12]}): give every machine the same data"
            )
        if cell.checkpoint_protocol is not None:
            checkpoints[trained.step] = evaluated(trained, cell.checkpoint_protocol)

    trained = train(cell.config, cell.folder, resume, at_checkpoint, on_steps)
    busy += trained.seconds - (trained_before or 0.0)
    jobs = None if resumed else cell.jobs  # earlier training may have run with another number of jobs
    record = _record(cell, trained, evaluated(trained, cell.protocol), checkpoints, jobs)
    write_record(cell, record)
    return CellOutcome(record, busy)


def settings_of(protocol: Protocol) -> EvaluationConfig:
    """The settings with which `evaluate` follows a protocol."""
    asked = tuple(target for target in protocol.target_returns if target is not None)
    return EvaluationConfig(
        episodes=protocol.episodes,
        target_returns=asked or None,
        state=protocol.state,
        window=protocol.window or EvaluationConfig().window,
        seed=protocol.seed,
        max_episode_steps=protocol.max_episode_steps,
    )


def read_record(cell: Cell) -> Trial | None:
    """Read the record of a cell; None if the cell is not finished or was run with other settings."""
    path = cell.folder / "cell.json"
    try:
        data = json.loads(path.read_bytes())
        return decoded(data["record"], Trial) if data["digest"] == cell.digest else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        warn(f"passed over: {path} is damaged ({reason}); it is made again from the run's results")
        return None


def write_record(cell: Cell, record: Trial) -> None:
    """Write the record of a finished cell; InputError if it cannot be written."""
    text = json.dumps({"digest": cell.digest, "record": asdict(record)}, separators=(",", ":"))
    try:
        cell.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(cell.folder / "cell.json", (text + "\n").encode())
    except OSError as error:
        raise InputError(f"cannot write {cell.folder / 'cell.json'}: {error.strerror}") from None


def _record(
    cell: Cell, trained: TrainedAgent, result: Result, checkpoints: Mapping[int, Result], jobs: int | None
) -> Trial:
    agent = copy.deepcopy(trained.agent).cpu()  # where it plays, wherever it was trained
    microseconds, state_bytes = action_cost(agent, actor_of(agent, cell.protocol.window))
    achieved = {target.target_return: target for target in result.targets}
    remarks = list(result.remarks)
    if result.dataset.comparable != cell.data.comparable:
        remarks.insert(0, result.dataset.comparable)
    return Trial(
        variant=cell.variant,
        dataset=cell.dataset,
        seed=cell.config.seed,
        run=cell.run,
        steps=trained.step,
        targets=tuple(achieved[target] for target in cell.targets),
        checkpoints=tuple(_checkpoints(cell, checkpoints)),
        loss=tuple((int(line["step"]), line["loss"]) for line in read_metrics(cell.folder)),
        parameters=result.parameters,
        backbone_parameters=result.backbone_parameters,
        state_bytes=state_bytes,
        action_microseconds=round(microseconds, 1),
        training_seconds=round(trained.seconds, 1),
        evaluation_seconds=result.evaluation_seconds,
        remarks=tuple(remarks),
        commit=result.commit,
        versions=result.versions,
        hardware=result.hardware,
        jobs=jobs,
    )


def _checkpoints(cell: Cell, known: Mapping[int, Result]) -> Iterator[CheckpointScores]:
    """Scores of all evaluated checkpoints, from this process (`known`) or earlier result files."""
    if cell.checkpoint_protocol is not None:
        training = cell.config.training
        steps = {*range(training.checkpoint_every, training.steps, training.checkpoint_every), training.steps}
        for step in sorted(steps):
            result = known.get(step) or _found(cell, step, cell.checkpoint_protocol)
            if result is not None:
                yield CheckpointScores(step=step, targets=result.targets)


def _found(cell: Cell, step: int, protocol: Protocol) -> Result | None:
    """The result of a checkpoint from an earlier process; None if there is none, or if the dataset had another
    environment or other reference scores then, which a fingerprint of the episodes does not show."""
    result = find_result(cell.folder, cell.key(step, protocol))
    same = attrgetter("environment_id", "reference_min", "reference_max")
    return result if result is not None and same(result.dataset) == same(cell.data) else None

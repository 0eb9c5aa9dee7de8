"""The cells of a comparison, one run each: trained and evaluated as far as that is not done, wherever they run.

<run>/cell.json    what a finished cell came to, so that it is neither run nor measured again
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from decision_rnn.checkpoint import TrainedAgent, has_checkpoint
from decision_rnn.comparison.latency import action_cost
from decision_rnn.comparison.record import CellRecord, CheckpointScores
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import actor_of
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.results import DataSummary, Key, Protocol, Result, find_result, write_result
from decision_rnn.files import write_atomically
from decision_rnn.messages import warn
from decision_rnn.training.loop import train
from decision_rnn.training.run_folder import read_metrics


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of a comparison.

    Attributes:
        variant: The variant's label.
        dataset: The dataset's name.
        config: Of the run, with its dataset and its seed.
        output: The comparison's folder.
        run: The run's, relative to it.
        data: What the run is trained on.
        targets: What the last checkpoint is asked for, as often as `ComparedDataset.targets` names it.
        protocol: How the last checkpoint is evaluated.
        checkpoint_protocol: How every checkpoint is, the last one included; None for not at all.
        jobs: How many cells are run at a time; None where that is not known.
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
        """Of the run."""
        return self.output / self.run

    def key(self, step: int, protocol: Protocol) -> Key:
        """Of the result of a checkpoint of this run."""
        return Key.of(self.config, self.data.fingerprint, step, protocol)

    @property
    def digest(self) -> str:
        """Of all that decides what the cell comes to."""
        steps, checkpoints = self.config.training.steps, self.checkpoint_protocol
        keys = [self.key(steps, protocol).file_name for protocol in (self.protocol, checkpoints) if protocol]
        whole = json.dumps([self.variant, self.run, asdict(self.data), self.targets, keys])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class CellOutcome:
    """What a cell came to, and the seconds of this process that went into training and playing."""

    record: CellRecord
    busy_seconds: float


def run_cell(cell: Cell, on_steps: Callable[[int], None]) -> CellOutcome:
    """Train and evaluate the cell as far as that is not done, and keep what it came to in cell.json.

    Args:
        cell: What to run.
        on_steps: Called with the steps of training done so far, now and then.
    """
    busy, trained_before = 0.0, None
    checkpoints: dict[int, Result] = {}
    resume, resumed = (cell.folder / "config.yaml").is_file(), has_checkpoint(cell.folder)

    def evaluated(trained: TrainedAgent, protocol: Protocol) -> Result:
        nonlocal busy
        result = find_result(cell.folder, cell.key(trained.step, protocol))
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
    jobs = None if resumed else cell.jobs  # what was trained before may have had other company
    record = _record(cell, trained, evaluated(trained, cell.protocol), checkpoints, jobs)
    write_record(cell, record)
    return CellOutcome(record, busy)


def settings_of(protocol: Protocol) -> EvaluationConfig:
    """What makes `evaluate` follow a protocol."""
    asked = tuple(target for target in protocol.target_returns if target is not None)
    return EvaluationConfig(
        episodes=protocol.episodes,
        target_returns=asked or None,
        state=protocol.state,
        window=protocol.window or EvaluationConfig().window,
        seed=protocol.seed,
    )


def read_record(cell: Cell) -> CellRecord | None:
    """What the cell came to; None where it is not finished, or was asked for something else."""
    path = cell.folder / "cell.json"
    try:
        data = json.loads(path.read_bytes())
        return CellRecord.from_dict(data["record"]) if data["digest"] == cell.digest else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        warn(f"passed over: {path} is damaged ({reason}); it is made again from the run's results")
        return None


def write_record(cell: Cell, record: CellRecord) -> None:
    """Keep what a finished cell came to; InputError where it cannot be written."""
    text = json.dumps({"digest": cell.digest, "record": asdict(record)}, separators=(",", ":"))
    try:
        cell.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(cell.folder / "cell.json", (text + "\n").encode())
    except OSError as error:
        raise InputError(f"cannot write {cell.folder / 'cell.json'}: {error.strerror}") from None


def _record(
    cell: Cell, trained: TrainedAgent, result: Result, checkpoints: Mapping[int, Result], jobs: int | None
) -> CellRecord:
    microseconds, state_bytes = action_cost(trained.agent, actor_of(trained.agent, cell.protocol.window))
    achieved = {target.target_return: target for target in result.targets}
    remarks = list(result.remarks)
    if result.dataset.comparable != cell.data.comparable:
        remarks.insert(0, result.dataset.comparable)
    return CellRecord(
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
    """Of every checkpoint that was evaluated, now (`known`) or before; older ones than the newest may be gone."""
    if cell.checkpoint_protocol is not None:
        training = cell.config.training
        steps = {*range(training.checkpoint_every, training.steps, training.checkpoint_every), training.steps}
        for step in sorted(steps):
            result = known.get(step) or find_result(cell.folder, cell.key(step, cell.checkpoint_protocol))
            if result is not None:
                yield CheckpointScores(step=step, targets=result.targets)

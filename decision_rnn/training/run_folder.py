"""A run folder: its configuration and metrics. Checkpoints are in checkpoint.py."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from decision_rnn.config import RunConfig, flatten, from_dict, to_dict
from decision_rnn.data.dataset import full_name
from decision_rnn.training.run_files import config_file
from decision_rnn.utils.errors import EnvironmentFailure, InputError, cannot_write
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.messages import typed
from decision_rnn.utils.parsing import read_yaml

MAY_CHANGE = (
    "path",
    "plugins",
    "validation",
    *(f"training.{key}" for key in ("device", "processes", "log_every", "checkpoint_every")),
)
"""Keys that a resumed run may change besides its evaluation's. The fingerprint of the data is checked."""


def read_config(run: Path) -> RunConfig:
    """The configuration of the run in a folder; InputError if there is none."""
    path = config_file(run)
    return from_dict(read_yaml(path), str(path))


def write_config(config: RunConfig, run: Path) -> None:
    """Write a run's configuration into its folder, which marks it as taken."""
    try:
        write_atomically(run / "config.yaml", yaml.safe_dump(to_dict(config), sort_keys=False).encode())
    except OSError as error:
        raise cannot_write(run, error) from None


def check_new_run(config: RunConfig, run: Path) -> None:
    """InputError if the folder holds a run already; if it is another one, the message names a key that differs."""
    if not (run / "config.yaml").exists():
        return
    begun = read_config(run)
    before, now = (flatten(to_dict(replace(of, dataset=full_name(of.dataset)))) for of in (begun, config))
    for key, value in now.items():
        if value != before.get(key) and key not in MAY_CHANGE and not key.startswith("evaluation."):
            raise InputError(
                f"{run} already holds a run with {key} {before.get(key)!r}, not {value!r}: choose another --output, "
                f"such as {typed(f'{run}-2')}"
            )
    raise InputError(
        f"{run} already holds a run: resume it with --resume (resume=True in Python), or choose another --output"
    )


def check_resumed_run(config: RunConfig, run: Path, remedy: str = "") -> RunConfig:
    """The configuration with which a run is resumed: as asked for, with the dataset's name as the run has it.

    How the run is evaluated, where and how often it logs and saves may differ from the configuration it was started
    with, and its steps may be more if its learning rate stays constant: the result is that of a run started with them.
    A cosine schedule ends at the last step, so that its first steps would have had other learning rates.

    Args:
        config: The configuration asked for.
        run: The run's folder.
        remedy: What to do if anything else differs, for messages; if left out, what `train` offers.

    Raises:
        InputError: If anything else differs.
    """
    begun = read_config(run)
    if full_name(config.dataset) == full_name(begun.dataset):
        config = replace(config, dataset=begun.dataset)
    # A default that depends on the steps stays as it was when the run began.
    same_warmup = config.training.warmup_steps is None or config.training.warmup == begun.training.warmup
    may_change = MAY_CHANGE + ("training.warmup_steps",) * same_warmup
    before, now = flatten(to_dict(begun)), flatten(to_dict(config))
    for key, value in now.items():
        if key in may_change or key.startswith("evaluation.") or value == before.get(key):
            continue
        offer = f"resume it with {typed('--config', run / 'config.yaml')}, or use another --output"
        if key == "training.steps" and value > before[key]:
            if begun.training.schedule == "constant":
                continue
            offer = (
                f"its learning rate falls to zero there; start from its weights in another run, "
                f"{typed('--init_from', run)}, or train with training.schedule constant, with which a run takes more "
                "steps"
            )
        raise InputError(f"{run} was started with {key} {before.get(key)!r}, not {value!r}: {remedy or offer}")
    if config.training.warmup == begun.training.warmup:
        return replace(config, training=replace(config.training, warmup_steps=begun.training.warmup_steps))
    return replace(config, training=replace(config.training, warmup_steps=begun.training.warmup))


class MetricsLog:
    """The run's metrics, as lines of JSON and as TensorBoard events.

    Raises EnvironmentFailure if they cannot be written, for example on a full disk.
    """

    def __init__(self, run: Path, step: int, seconds: float) -> None:
        self.path = run / "metrics.jsonl"
        self.events = _events_file(run)
        with self._writing():
            # A killed run may have logged steps after its last checkpoint, or an incomplete line.
            resumed = self.path.exists()
            kept = [line for line in read_metrics(run) if line["step"] <= step] if resumed else []
            write_atomically(self.path, "".join(json.dumps(line) + "\n" for line in kept).encode())
            _write_event(self.events, file_version="brain.Event:2")
            if resumed:  # TensorBoard then forgets what a killed process logged after its last checkpoint
                _write_event(self.events, step=step + 1, session_log=SessionLog(status=SessionLog.START))
        self.begun = time.perf_counter() - seconds
        self.last_step, self.last_seconds = step, seconds

    def elapsed(self) -> float:
        """Seconds of training, including those before a resumption."""
        return time.perf_counter() - self.begun

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time spent inside the block from the training time."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.begun += time.perf_counter() - begun

    def write(self, step: int, **metrics: float) -> dict[str, float]:
        """Write the metrics of a step, adding the steps per second since the last line; returns the line's values."""
        seconds = self.elapsed()
        metrics["steps_per_second"] = (step - self.last_step) / (seconds - self.last_seconds)
        self.last_step, self.last_seconds = step, seconds
        line = {"step": step, "seconds": round(seconds, 3), **metrics}
        with self._writing():
            with self.path.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            summary = _summary({f"training/{name}": value for name, value in metrics.items()})
            _write_event(self.events, step=step, summary=summary)
        return line

    def write_scores(self, step: int, scores: Mapping[str, float] | None) -> None:
        """Write scores of a checkpoint, by tag, if there are any, as TensorBoard events: the results have them too."""
        if scores:
            with self._writing():
                _write_event(self.events, step=step, summary=_summary(scores))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot write the metrics into {self.path.parent}: {error.strerror}; its checkpoints are intact, so "
                "make room and resume the run (`train` with --resume; `compare` does so itself)"
            ) from None


def write_scores(run: Path, step: int, scores: Mapping[str, float]) -> None:
    """Write scores of a trained run, by tag, as TensorBoard events, after those of its training."""
    files = sorted(run.glob("events.out.tfevents.*"))
    events = files[-1] if files else _events_file(run)
    try:
        if not files:
            _write_event(events, file_version="brain.Event:2")
        _write_event(events, step=step, summary=_summary(scores))
    except OSError as error:
        raise cannot_write(run, error) from None


def _events_file(run: Path) -> Path:
    return run / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"


def _summary(scalars: Mapping[str, float]) -> Summary:
    return Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()])


def _write_event(path: Path, **content: Any) -> None:
    # Not torch's SummaryWriter, whose thread prints a traceback of its own when the disk is full.
    with path.open("ab") as events:
        RecordWriter(events).write(Event(wall_time=time.time(), **content).SerializeToString())


def read_metrics(run: Path) -> list[dict[str, float]]:
    """What `MetricsLog.write` returned, line by line; InputError if there is no such file.

    Unreadable lines are skipped: a run that is killed or runs out of disk space may leave an incomplete one.
    """
    path = run / "metrics.jsonl"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}: is it a run?") from None
    metrics = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "step" in found:
                metrics.append(found)
    return metrics

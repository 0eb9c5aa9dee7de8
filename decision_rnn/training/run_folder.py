"""A run folder: its lock, configuration and metrics. Checkpoints are in checkpoint.py."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from decision_rnn.config import RunConfig, TrainingConfig, to_dict
from decision_rnn.config_parser import flatten, from_dict
from decision_rnn.data.catalog import open_dataset
from decision_rnn.errors import InputError, SystemFault
from decision_rnn.files import check_folder, working_alone, write_atomically
from decision_rnn.parsing import read_yaml

MAY_CHANGE = ("path", "plugins", "training.device", "training.log_every", "training.checkpoint_every")
"""Keys that a resumed run may change besides its evaluation's. The fingerprint of the data is checked."""


def alone_in(run: Path) -> contextlib.AbstractContextManager[None]:
    """Be the only process that trains in a run folder; if no run is started, a folder made here is removed on exit.

    Raises:
        InputError: Immediately, if another process is training there or the folder cannot be made.
    """
    return working_alone(run, "training", "training", "the run folder")


def check_new_run(run: Path) -> None:
    """InputError if the folder already holds a run or cannot be written; nothing is created."""
    try:
        if (run / "config.yaml").exists():
            raise InputError(
                f"{run} already holds a run: resume it with --resume (resume=True in Python), or choose another "
                "--output"
            )
        check_folder(run)
    except OSError as error:
        raise InputError(f"cannot write the run folder {run}: {error.strerror}") from None


def read_config(run: Path) -> RunConfig:
    """The configuration of the run in a folder; InputError if there is none."""
    path = run / "config.yaml"
    if not path.is_file():
        raise InputError(
            f"{run} is not a run folder (it has no config.yaml): name one that `decision-rnn train` made, or leave out "
            "--resume to start one there"
        )
    return from_dict(read_yaml(path), str(path))


def check_resumed_run(config: RunConfig, run: Path) -> RunConfig:
    """The configuration with which a run is resumed: as asked for, with the dataset's name as the run has it.

    How the run is evaluated, where and how often it logs and saves may differ from the configuration it was started
    with, and its steps may be more if its learning rate stays constant: the result is that of a run started with them.
    A cosine schedule ends at the last step, so that its first steps would have had other learning rates.

    Raises:
        InputError: If anything else differs.
    """
    begun = read_config(run)
    if open_dataset(config.dataset).name == open_dataset(begun.dataset).name:
        config = replace(config, dataset=begun.dataset)
    asked, constant = config.training, begun.training.schedule == "constant"
    if asked.warmup_steps == TrainingConfig(steps=asked.steps).warmup_steps:  # the default, which depends on the steps
        config = replace(config, training=replace(asked, warmup_steps=begun.training.warmup_steps))
    before, now = flatten(to_dict(begun), str(run)), flatten(to_dict(config), str(run))
    for key, value in now.items():
        if key in MAY_CHANGE or key.startswith("evaluation.") or value == before.get(key):
            continue
        remedy = f"resume it with --config {run / 'config.yaml'}, or use another --output"
        if key == "training.steps" and value > before[key]:
            if constant:
                continue
            remedy = "its learning rate ends there, and only one with training.schedule constant can go on"
        raise InputError(f"{run} was started with {key} {before.get(key)!r}, not {value!r}: {remedy}")
    return config


def begin_run_folder(config: RunConfig, run: Path) -> None:
    """Create the run folder and write the run's configuration, which marks it as taken."""
    try:
        run.mkdir(parents=True, exist_ok=True)
        write_atomically(run / "config.yaml", yaml.safe_dump(to_dict(config), sort_keys=False).encode())
    except OSError as error:
        raise InputError(f"cannot write the run folder {run}: {error.strerror}") from None


class MetricsLog:
    """The run's metrics, as lines of JSON and as TensorBoard events.

    Raises SystemFault if they cannot be written, for example on a full disk.
    """

    def __init__(self, run: Path, step: int, seconds: float) -> None:
        self.path = run / "metrics.jsonl"
        with self._writing():
            # A killed run may have logged steps after its last checkpoint, or an incomplete line.
            resumed = self.path.exists()
            lines = self.path.read_bytes().splitlines() if resumed else []
            kept = [line for line in lines if (metrics := _parsed(line)) is not None and metrics["step"] <= step]
            write_atomically(self.path, b"".join(line + b"\n" for line in kept))
            self.lines = self.path.open("a")
            name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
            # Not torch's SummaryWriter, whose thread prints a traceback of its own when the disk is full.
            self.events = RecordWriter((run / name).open("xb"))
            self._write_event(file_version="brain.Event:2")
            if resumed:  # TensorBoard then forgets what a killed process logged after its last checkpoint
                self._write_event(step=step + 1, session_log=SessionLog(status=SessionLog.START))
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
        values = [Summary.Value(tag=f"training/{name}", simple_value=value) for name, value in metrics.items()]
        with self._writing():
            self.lines.write(json.dumps(line) + "\n")
            self.lines.flush()
            self._write_event(step=step, summary=Summary(value=values))
        return line

    def _write_event(self, **content: Any) -> None:
        self.events.write(Event(wall_time=time.time(), **content).SerializeToString())
        self.events.flush()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SystemFault(
                f"cannot write the metrics into {self.path.parent}: {error.strerror}; its checkpoints are intact, so "
                "make room and run the same command with --resume"
            ) from None

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        for file in (self.lines, self.events):
            # Closing retries failed writes; an exception in flight already says why the run ends.
            with self._writing() if kind is None else contextlib.suppress(OSError):
                file.close()


def read_metrics(run: Path) -> list[dict[str, float]]:
    """What `MetricsLog.write` returned, line by line; InputError if there is no such file.

    Unreadable lines are skipped: a run that is killed or runs out of disk space may leave an incomplete one.
    """
    path = run / "metrics.jsonl"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}: is it a run?") from None
    return [metrics for line in lines if (metrics := _parsed(line)) is not None]


def _parsed(line: bytes) -> dict[str, float] | None:
    try:
        metrics = json.loads(line)
    except ValueError:
        return None
    return metrics if isinstance(metrics, dict) and "step" in metrics else None

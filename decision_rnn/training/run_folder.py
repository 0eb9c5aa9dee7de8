"""A run folder: its lock, configuration and metrics. Checkpoints are in checkpoint.py."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import yaml
from torch.utils.tensorboard import SummaryWriter

from decision_rnn.config import RunConfig, to_dict
from decision_rnn.config_parser import from_dict
from decision_rnn.data.catalog import open_dataset
from decision_rnn.errors import InputError
from decision_rnn.files import check_folder, working_alone, write_atomically
from decision_rnn.parsing import read_yaml


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


def check_resumed_run(config: RunConfig, run: Path) -> RunConfig:
    """The configuration with the dataset's name as that run has it; InputError if it was started with another one."""
    path = run / "config.yaml"
    if not path.is_file():
        raise InputError(f"{run} is not a run folder (it has no config.yaml): leave out --resume to start one there")
    begun = from_dict(read_yaml(path), str(path))
    if open_dataset(config.dataset).name == open_dataset(begun.dataset).name:
        config = replace(config, dataset=begun.dataset)
    before, now = to_dict(begun), to_dict(config)
    for section, value in now.items():
        # Evaluation, the data's path (their fingerprint is checked) and plugins may change; what is trained may not.
        if section in ("evaluation", "path", "plugins") or value == before[section]:
            continue
        pairs = [(section, before[section], value)]
        if isinstance(value, dict):
            pairs = [
                (f"{section}.{key}", before[section].get(key), new)
                for key, new in value.items()
                if before[section].get(key) != new
            ]
        key, old, new = pairs[0]
        raise InputError(
            f"{run} was started with {key} {old!r}, not {new!r}: resume it with --config {path}, or use another "
            "--output"
        )
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

    Raises InputError if they cannot be written, for example on a full disk.
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
            self.events = SummaryWriter(str(run), purge_step=step + 1 if resumed else None)
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
            self.lines.write(json.dumps(line) + "\n")
            self.lines.flush()
            for name, value in metrics.items():
                self.events.add_scalar(f"training/{name}", value, step)
        return line

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"cannot write the metrics into {self.path.parent}: {error.strerror}; its checkpoints are intact, so "
                "make room and run the same command with --resume"
            ) from None

    def _report(self, failed: threading.ExceptHookArgs) -> None:
        """Suppress the traceback of TensorBoard's writer thread: `add_scalar` raises the same error."""
        if not type(failed.thread).__module__.startswith("tensorboard."):
            self.report(failed)

    def __enter__(self) -> "MetricsLog":
        self.report, threading.excepthook = threading.excepthook, self._report
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        try:
            for file in (self.lines, self.events):
                # Closing retries failed writes; an exception in flight already says why the run ends.
                with self._writing() if kind is None else contextlib.suppress(OSError):
                    file.close()
        finally:
            threading.excepthook = self.report


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

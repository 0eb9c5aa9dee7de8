"""A run's folder: who may write it, its configuration, and its metrics. Its checkpoints are checkpoint.py's."""

import json
import math
import time
from pathlib import Path

import yaml
from torch.utils.tensorboard import SummaryWriter

from decision_rnn.config import RunConfig, from_dict, to_dict
from decision_rnn.errors import InputError
from decision_rnn.files import check_folder, write_atomically
from decision_rnn.parsing import read_yaml


def check_new_run(run: Path) -> None:
    """InputError unless a run can be written there, and none is there yet; nothing is made."""
    try:
        if (run / "config.yaml").exists():
            raise InputError(f"{run} already holds a run: go on with it by --resume, or choose another --output")
        check_folder(run)
    except OSError as error:
        raise InputError(f"cannot write the run folder {run}: {error.strerror}") from None


def check_resumed_run(config: RunConfig, run: Path) -> None:
    """InputError unless the run there was begun with this very configuration."""
    path = run / "config.yaml"
    if not path.is_file():
        raise InputError(f"{run} is not a run folder (it has no config.yaml): leave out --resume to start one there")
    before, now = to_dict(from_dict(read_yaml(path), str(path))), to_dict(config)
    for section, value in now.items():
        # How it is evaluated, where the data lie (their fingerprint may not change) and what else is imported may
        # change; what is trained may not.
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
            f"{run} was begun with {key} {old!r}, not {new!r}: resume it as it was, or use another --output"
        )


def begin_run_folder(config: RunConfig, run: Path) -> None:
    """Make the run's folder, and mark it as this run's."""
    try:
        run.mkdir(parents=True, exist_ok=True)
        write_atomically(run / "config.yaml", yaml.safe_dump(to_dict(config), sort_keys=False).encode())
    except OSError as error:
        raise InputError(f"cannot write the run folder {run}: {error.strerror}") from None


class MetricsLog:
    """The run's metrics, as lines of JSON and as TensorBoard events."""

    def __init__(self, run: Path, step: int, seconds: float) -> None:
        path = run / "metrics.jsonl"
        # A killed run may have written past its last checkpoint, and half a line.
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        write_atomically(path, "".join(line for line in lines if _step_of(line) <= step).encode())
        self.lines = path.open("a")
        self.events = SummaryWriter(str(run), purge_step=step + 1 if step else None)
        self.begun = time.perf_counter() - seconds
        self.last_step, self.last_seconds = step, seconds

    def elapsed(self) -> float:
        """Seconds of training, those before a resumption included."""
        return time.perf_counter() - self.begun

    def write(self, step: int, **metrics: float) -> None:
        """A line of the metrics at a step, with the steps per second since the last one."""
        seconds = self.elapsed()
        metrics["steps_per_second"] = (step - self.last_step) / (seconds - self.last_seconds)
        self.last_step, self.last_seconds = step, seconds
        self.lines.write(json.dumps({"step": step, "seconds": round(seconds, 3), **metrics}) + "\n")
        self.lines.flush()
        for name, value in metrics.items():
            self.events.add_scalar(f"training/{name}", value, step)

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *exception: object) -> None:
        self.lines.close()
        self.events.close()


def _step_of(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except ValueError:
        return math.inf

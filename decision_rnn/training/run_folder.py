"""A run folder: its configuration and its metrics. Checkpoints are in checkpoint.py."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import yaml
from torch.utils.tensorboard import SummaryWriter

from decision_rnn.config import RunConfig, flatten, from_dict, to_dict
from decision_rnn.data.dataset import full_name
from decision_rnn.training.run_files import config_file
from decision_rnn.utils.distributed import rank
from decision_rnn.utils.errors import EnvironmentFailure, InputError, cannot_write
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.messages import typed
from decision_rnn.utils.parsing import read_yaml

MAY_CHANGE = (
    "path",
    "plugins",
    "validation",
    *(f"training.{key}" for key in ("device", "log_every", "checkpoint_every")),
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


def check_new_run(run: Path) -> None:
    """InputError if the folder holds a run already."""
    if (run / "config.yaml").exists():
        raise InputError(
            f"{run} already holds a run. Resume it with --resume (resume=True in Python), or choose another --output, "
            f"such as {typed(f'{run}-2')}."
        )


def check_resumed_run(config: RunConfig, run: Path, remedy: str = "") -> RunConfig:
    """The configuration with which a run is resumed: that asked for, with the dataset's name as the run has it.

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
    started = read_config(run)
    if full_name(config.dataset) == full_name(started.dataset):
        config = replace(config, dataset=started.dataset)
    if config.training.warmup_steps is None:
        # The default depends on the number of steps, which may grow.
        same_steps = config.training.steps == started.training.steps
        warmup = started.training.warmup_steps if same_steps else started.training.warmup
        config = replace(config, training=replace(config.training, warmup_steps=warmup))
    before, now = flatten(to_dict(started)), flatten(to_dict(config))
    before["training.warmup_steps"], now["training.warmup_steps"] = started.training.warmup, config.training.warmup
    for key, value in now.items():
        if key in MAY_CHANGE or key.startswith("evaluation.") or value == before.get(key):
            continue
        offer = f"resume it with {typed('--config', run / 'config.yaml')}, or use another --output"
        if key == "training.steps" and value > before[key]:
            if started.training.schedule == "constant":
                continue
            offer = (
                "its learning rate falls to zero there. Start another run from its weights, "
                f"{typed('--init_from', run)}, or train with training.schedule constant"
            )
        raise InputError(f"{run} was started with {key} {before.get(key)!r}, not {value!r}: {remedy or offer}")
    return config


class MetricsLog:
    """The run's metrics, as lines of JSON and as TensorBoard events; only the first process writes them.

    Raises EnvironmentFailure if they cannot be written, for example on a full disk.
    """

    def __init__(self, run: Path, step: int, seconds: float) -> None:
        self.path = run / "metrics.jsonl"
        self.events: SummaryWriter | None = None
        if rank() == 0:
            with self._writing():
                # A killed run may have logged steps after its last checkpoint, or an incomplete line.
                resumed = self.path.exists()
                lines = [line for line in read_metrics(run) if line["step"] <= step] if resumed else []
                write_atomically(self.path, "".join(json.dumps(line) + "\n" for line in lines).encode())
                self.events = SummaryWriter(str(run), purge_step=step + 1 if resumed else None)
        self.start = time.perf_counter() - seconds
        self.last_step, self.last_seconds = step, seconds

    def elapsed(self) -> float:
        """Seconds of training, including those before a resumption."""
        return time.perf_counter() - self.start

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time spent inside the block from the training time."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.start += time.perf_counter() - start

    def write(self, step: int, **metrics: float) -> dict[str, float]:
        """Write the metrics of a step, adding the steps per second since the last line; returns the line's values."""
        seconds = self.elapsed()
        metrics["steps_per_second"] = (step - self.last_step) / (seconds - self.last_seconds)
        self.last_step, self.last_seconds = step, seconds
        line = {"step": step, "seconds": round(seconds, 3), **metrics}
        if rank() == 0:
            with self._writing(), self.path.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            self.write_scores(step, {f"training/{name}": value for name, value in metrics.items()})
        return line

    def write_scores(self, step: int, scores: Mapping[str, float] | None) -> None:
        """Write scalars by tag, if there are any, as TensorBoard events."""
        if self.events is not None:
            with self._writing():
                for tag, value in (scores or {}).items():
                    self.events.add_scalar(tag, value, step)
                self.events.flush()

    def close(self) -> None:
        """Close the file of events."""
        if self.events is not None:
            with self._writing():
                self.events.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot write the metrics into {self.path.parent}: {error.strerror}. Its checkpoints are intact: make "
                "room and resume the run."
            ) from None


def write_scores(run: Path, step: int, scores: Mapping[str, float]) -> None:
    """Write scores of a trained run, by tag, as TensorBoard events, after those of its training."""
    try:
        with SummaryWriter(str(run)) as events:
            for tag, value in scores.items():
                events.add_scalar(tag, value, step)
    except OSError as error:
        raise cannot_write(run, error) from None


def read_metrics(run: Path) -> list[dict[str, float]]:
    """What `MetricsLog.write` returned, line by line; InputError if there is no such file.

    Unreadable lines are skipped: a run that is killed or runs out of disk space may leave an incomplete one.
    """
    path = run / "metrics.jsonl"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}. Is it a run?") from None
    metrics = []
    for line in lines:
        with contextlib.suppress(ValueError):
            values = json.loads(line)
            if isinstance(values, dict) and "step" in values:
                metrics.append(values)
    return metrics

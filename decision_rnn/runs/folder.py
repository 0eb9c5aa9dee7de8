"""A run's folder: its configuration, its metrics and where its checkpoints are.

<run>/config.yaml                 the configuration, which marks the folder as a run's
      metrics.jsonl               a line of metrics every `training.log_every` steps
      events.out.tfevents.*       the same for TensorBoard, and scores; other loggers: see loggers.py
      checkpoints/<step>/         see checkpoint.py
      checkpoints/best            with `validation`: a link to that of the lowest held-out loss
      results/                    scores
"""

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import yaml

from decision_rnn.config import SECTIONS, RunConfig, flatten, from_dict, to_dict
from decision_rnn.runs.loggers import Loggers
from decision_rnn.utils.distributed import rank
from decision_rnn.utils.errors import InputError, writing
from decision_rnn.utils.files import remove_directory, write_atomically
from decision_rnn.utils.messages import shell_join
from decision_rnn.utils.parsing import read_yaml

BEST = "best"
"""The name of the link to the checkpoint with the lowest held-out loss."""
WEIGHTS, DESCRIPTION = "weights.safetensors", "config.json"
"""The files that make up an agent."""
WRITTEN = (
    *("results", "checkpoints", "events.out.tfevents.*", "loggers.json", "policy.onnx"),
    *("metrics.jsonl", "config.yaml"),
)
"""What a run writes into its folder, the configuration last."""
MAY_CHANGE = {
    *("path", "plugins", "validation", "training.device", "training.cuda_graph", "training.loggers"),
    *("training.log_every", "training.checkpoint_every", "training.checkpoint_minutes"),
    "training.early_stopping_patience",
}
"""Keys that a resumed run may change besides its evaluation's. The fingerprint of the data is checked. Keys of results
lack them, but for the plugins."""


def config_file(run: Path) -> Path:
    """The file with a run's configuration; InputError if the folder is not a run's."""
    if not (run / "config.yaml").is_file():
        raise InputError(f"{run} is not a run folder: it has no config.yaml.")
    return run / "config.yaml"


def checkpoints_of(run: Path) -> list[Path]:
    """The folders of a run's checkpoints, oldest first."""
    folders = (folder for folder in run.glob("checkpoints/*") if folder.name.isdigit())
    return sorted(folders, key=lambda folder: int(folder.name))


def last_checkpoint(run: Path) -> Path:
    """The newest checkpoint of a run; InputError if `run` is not a run or has no checkpoint yet."""
    file = config_file(run)
    if checkpoints := checkpoints_of(run):
        return checkpoints[-1]
    if "datasets" in read_yaml(file):
        example = "".join(f", such as {path.parent}" for path in sorted(run.glob("*/*-seed*/config.yaml"))[:1])
        raise InputError(f"{run} is a comparison's folder. Name one of its runs{example}.")
    raise InputError(f"{run} has no checkpoint yet. Continue its training with --resume.")


def mark_best(run: Path, step: int | None) -> None:
    """Make the link `checkpoints/best` name the checkpoint of a step, if that is there."""
    link = run / "checkpoints" / BEST
    if (link.parent / str(step)).is_dir():
        remove_directory(link)
        link.symlink_to(str(step))


def run_of(checkpoint: Path) -> Path | None:
    """The run that a checkpoint's folder belongs to; None for an agent's folder outside any run."""
    folder = checkpoint.absolute().parent
    return folder.parent if folder.name == "checkpoints" and (folder.parent / "config.yaml").is_file() else None


def read_config(run: Path) -> RunConfig:
    """The configuration of the run in a folder; InputError if there is none."""
    path = config_file(run)
    return from_dict(read_yaml(path), str(path))


def write_config(config: RunConfig, folder: Path, name: str = "config.yaml") -> None:
    """Write a run's configuration into a folder; into its own, it marks that as taken."""
    with writing(folder):
        write_atomically(folder / name, yaml.safe_dump(to_dict(config), sort_keys=False).encode())


def check_new_run(run: Path, overwrite: bool = False) -> None:
    """InputError if the folder holds a run already, which is not to be overwritten."""
    path = run / "config.yaml"
    if overwrite and path.exists() and not {"dataset", *SECTIONS} <= read_yaml(path).keys():
        raise InputError(f"{path} is not a run's, which has all keys: choose another --output.")
    if path.exists() and not overwrite:
        raise InputError(
            f"{run} already holds a run. Resume it with --resume (resume=True in Python), replace it with --overwrite "
            f"(overwrite=True), or choose another --output, such as {shell_join(f'{run}-2')}."
        )


def remove_run(run: Path) -> None:
    """Remove what a run has written into its folder, its configuration last; nothing if the folder holds no run."""
    patterns = WRITTEN if (run / "config.yaml").exists() else ()
    with writing(run):
        for path in chain.from_iterable(map(run.glob, patterns)):
            path.unlink() if path.is_symlink() or path.is_file() else remove_directory(path)


def check_resumed_run(config: RunConfig, run: Path, remedy: str = "") -> RunConfig:
    """The configuration with which a run is resumed: the run's own, with the keys of `config` that may change.

    How the run is evaluated, where and, without early stopping, how often it logs and saves may differ from the
    configuration it was started with. Early stopping may get more patience or end, and the steps may be more if the
    learning rate stays constant: the result is that of a run started with them. A cosine schedule ends at the last
    step, so that its first steps would have had other learning rates.

    Raises:
        InputError: If anything else differs, defaults included that either configuration leaves open; its message ends
            with `remedy` or, if that is left out, with what `train` offers.
    """
    started, training = read_config(run), config.training
    saved, new = flatten(to_dict(started)), flatten(to_dict(config))
    patience, more = started.training.early_stopping_patience, training.early_stopping_patience
    may_change = MAY_CHANGE - ({"validation", "training.log_every"} if patience else set())
    if 0 < more < patience or more > patience == 0:  # the run may have gone on from where this would end it
        may_change -= {"training.early_stopping_patience"}
    lines = read_metrics(run)
    goes_on = not lines or lines[-1]["step"] < training.steps
    if goes_on and None not in (started.validation, config.validation):  # `checkpoints/best` compares its losses
        may_change -= {"validation"}
    changes = {key: value for key, value in new.items() if key in may_change or key.startswith("evaluation.")}
    if training.steps > started.training.steps and training.schedule == "constant":
        changes |= {"training.steps": training.steps, "training.warmup_steps": started.training.warmup}
        if training.warmup_steps is None:  # its default depends on the steps
            config = replace(config, training=replace(training, warmup_steps=started.training.warmup))
    resumed = from_dict(saved | changes, str(run))
    before, now = flatten(to_dict(resumed.resolved)), flatten(to_dict(config.resolved))
    keys = sorted(before | now, key=lambda key: (not key.endswith(".name"), key))
    if differing := [key for key in keys if before.get(key) != now.get(key)]:
        # Of defaults that follow from other keys, the latter say enough.
        configured = [key for key in differing if (saved.get(key), new.get(key)) != (None, None)] or differing
        stated = "; ".join(f"{key} {before.get(key)!r}, not {now.get(key)!r}" for key in configured)
        offer = f"Resume it with {shell_join('--config', run / 'config.yaml')}, start from its weights with --init_from"
        offer += ", or use another --output."
        raise InputError(f"{run} was started with {stated}. {remedy or offer}")
    return resumed


def lowest_loss(lines: Sequence[Mapping[str, float]]) -> tuple[int | None, int]:
    """The step of the lowest held-out loss in lines of metrics, None if no line has one, and the number of lines with
    one after it."""
    losses = {int(line["step"]): line["validation_loss"] for line in lines if "validation_loss" in line}
    lowest = min(losses, key=lambda step: (math.isnan(losses[step]), losses[step]), default=None)
    return lowest, 0 if lowest is None else len(losses) - 1 - [*losses].index(lowest)


def final_step(run: Path, config: RunConfig) -> int:
    """The step at which the training of a run ends: the one at which it has stopped early, or `training.steps`."""
    lines = read_metrics(run)
    stopped = 0 < config.training.early_stopping_patience <= lowest_loss(lines)[1]
    return int(lines[-1]["step"]) if stopped else config.training.steps


class MetricsLog:
    """The run's metrics, as lines of JSON and in its loggers; only the first process writes them.

    Raises as `writing` does if the lines cannot be written, for example on a full disk.
    """

    def __init__(self, run: Path, config: RunConfig, step: int, seconds: float) -> None:
        self.path = run / "metrics.jsonl"
        self.start = time.perf_counter() - seconds
        self.last_step, self.last_seconds = step, seconds
        # A killed run may have logged steps after its last checkpoint, or an incomplete line.
        logged = [line for line in read_metrics(run) if line["step"] <= step]
        self.held_out = [line for line in logged if "validation_loss" in line]
        with writing(self.path):
            purge_step = step + 1 if self.path.exists() else None
            if rank() == 0:  # before loggers, whose imports take seconds: what is interrupted there is a run, too
                write_atomically(self.path, "".join(json.dumps(line) + "\n" for line in logged).encode())
            self.loggers = Loggers(run, config, purge_step)

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
        self.held_out += [line] * ("validation_loss" in line)
        if rank() == 0:
            with writing(self.path), self.path.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
        self.loggers.log(step, {f"training/{name}": value for name, value in metrics.items()})
        return line


def write_scores(run: Path, step: int, scores: Mapping[str, float]) -> None:
    """Send scores of a trained run, by tag, to its loggers, after those of its training."""
    with writing(run), contextlib.closing(Loggers(run, read_config(run))) as loggers:
        loggers.log(step, scores)


def read_metrics(run: Path) -> list[dict[str, float]]:
    """What `MetricsLog.write` returned, line by line; empty before the first line.

    Unreadable lines are skipped: a run that is killed or runs out of disk space may leave an incomplete one.
    """
    path, metrics = run / "metrics.jsonl", []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            values = json.loads(line)
            if isinstance(values, dict) and "step" in values:
                metrics.append(values)
    return metrics

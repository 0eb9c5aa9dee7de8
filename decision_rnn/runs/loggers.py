"""Loggers, which send a run's configuration, metrics and scores to an experiment tracker (`training.loggers`).

Another package adds a logger as an entry point of the group `decision_rnn.loggers`: a function from a `LoggedRun` to a
`Logger`. `metrics.jsonl` and `results/` are written without them.
"""

import contextlib
import importlib.util
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from decision_rnn.config import RunConfig, flatten, to_dict
from decision_rnn.utils.distributed import rank
from decision_rnn.utils.errors import InputError, did_you_mean, one_line
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.messages import warn

GROUP, PROJECT = "decision_rnn.loggers", "decision_rnn"
"""The group of entry points, and the project or experiment of trackers whose environment variables name none."""


class LoggedRun(NamedTuple):
    """A run that is logged: its folder; its configuration by dotted key; the `identity` of the logger of an earlier
    process, from the folder's loggers.json, or None; and the step from which a killed process may have logged already,
    or None."""

    folder: Path
    config: dict[str, Any]
    identity: str | None
    purge_step: int | None


class Logger(NamedTuple):
    """A run in a tracker: `log(step, scalars)` sends scalars by tag, such as `training/loss`, and `close()` sends
    what is pending. `identity` is the tracker's name for the run. Their exceptions do not stop training."""

    log: Callable[[int, dict[str, float]], object]
    close: Callable[[], object]
    identity: str = ""


def tensorboard(run: LoggedRun) -> Logger:
    """Events of TensorBoard in the run's folder."""
    from torch.utils.tensorboard import SummaryWriter  # heavy

    writer: Any = SummaryWriter(str(run.folder), purge_step=run.purge_step)

    def log(step: int, scalars: dict[str, float]) -> None:
        for tag, value in scalars.items():
            writer.add_scalar(tag, value, step)
        writer.flush()

    return Logger(log, writer.close)


def trackio(run: LoggedRun) -> Logger:
    """A run of trackio, which resumes a run by its name; a random suffix makes the name unique."""
    import trackio

    name = run.identity or f"{run.folder.name}-{uuid.uuid4().hex[:6]}"
    tracked = trackio.init(PROJECT, name, config=run.config, resume="allow", embed=False)
    return Logger(lambda step, scalars: tracked.log(scalars, step=step), tracked.finish, name)


def wandb(run: LoggedRun) -> Logger:
    """A run of Weights & Biases; `step` is a metric, since the counter of wandb refuses scores of earlier steps."""
    import wandb

    options: dict[str, Any] = {"id": run.identity, "resume": "allow", "config": run.config, "dir": run.folder}
    tracked = wandb.init(project=os.environ.get("WANDB_PROJECT", PROJECT), name=run.folder.name, **options)
    tracked.define_metric("*", step_metric="step")
    return Logger(lambda step, scalars: tracked.log({"step": step, **scalars}), tracked.finish, tracked.id)


def mlflow(run: LoggedRun) -> Logger:
    """A run of MLflow at its tracking URI."""
    from mlflow import MlflowClient, entities

    client, identity = MlflowClient(), run.identity
    if identity is None:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else client.create_experiment(name)
        identity = client.create_run(number, run_name=run.folder.name).info.run_id
        params = [entities.Param(key, str(value)[:500]) for key, value in run.config.items()]
        client.log_batch(identity, params=params[:100])  # its limits

    def log(step: int, scalars: dict[str, float]) -> None:
        tags, now = {tag: re.sub(r"[^\w\-. /]", "_", tag) for tag in scalars}, int(1000 * time.time())
        client.log_batch(identity, [entities.Metric(tags[tag], value, now, step) for tag, value in scalars.items()])

    return Logger(log, lambda: client.set_terminated(identity), identity)


BUILT_IN = {"tensorboard": tensorboard, "trackio": trackio, "wandb": wandb, "mlflow": mlflow}
"""Loggers by the name of the package that each needs."""


def find_logger(name: str) -> Callable[[LoggedRun], Logger]:
    """The logger of that name, whose package is imported when it is called; InputError if there is none, or its package
    is not installed."""
    plugins = entry_points(group=GROUP)
    if name in plugins.names:
        return lambda run: plugins[name].load()(run)
    if name not in BUILT_IN:
        options = f"{did_you_mean(name, BUILT_IN)}Known are {', '.join([*BUILT_IN, *plugins.names])}"
        raise InputError(f"training.loggers: unknown logger {name!r:.100}. {options}, and entry points of {GROUP}.")
    if importlib.util.find_spec(name) is None:
        raise InputError(f"training.loggers {name} needs the package {name}: pip install {name}")
    return BUILT_IN[name]


class Loggers(dict[str, Logger]):
    """The loggers of a run in its folder, by name, of the first process alone. One that fails is removed, with a
    warning."""

    def __init__(self, folder: Path, config: RunConfig, purge_step: int | None = None) -> None:
        file, keys, identities = folder / "loggers.json", flatten(to_dict(config)), dict[str, str]()
        with contextlib.suppress(OSError, ValueError):  # there is no such file yet, or it is damaged
            identities = dict(json.loads(file.read_text()))
        for name in dict.fromkeys(config.training.loggers if rank() == 0 else ()):
            with self._unless_failing(name):
                self[name] = find_logger(name)(LoggedRun(folder, keys, identities.get(name), purge_step))
        if started := {name: logger.identity for name, logger in self.items() if logger.identity}:
            write_atomically(file, json.dumps(identities | started).encode())

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Send the scalars of a step, by tag."""
        for name, logger in [*self.items()]:
            with self._unless_failing(name):
                logger.log(step, dict(scalars))

    def close(self) -> None:
        """Close all loggers."""
        for name, logger in [*self.items()]:
            with self._unless_failing(name):
                logger.close()

    @contextlib.contextmanager
    def _unless_failing(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of another package, or of the network
            self.pop(name, None)
            fault = f"{type(error).__name__}: {one_line(error)}"
            warn(f"warning: training.loggers {name} failed and shows no more of this run; metrics.jsonl does ({fault})")

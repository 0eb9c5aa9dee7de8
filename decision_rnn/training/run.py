"""A run: the folder in which an agent was trained, with what it logged, its agent and its scores."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.config import RunConfig
from decision_rnn.evaluation.actor import EnvironmentActor
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.results import Result
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.runs.folder import BEST, config_file, last_checkpoint, read_config, read_metrics
from decision_rnn.utils.errors import InputError


class Run:
    """A run's folder and its agent.

    `train` returns one; `Run(folder)` opens an existing folder. The folder holds `config.yaml`, `metrics.jsonl`,
    TensorBoard events, `checkpoints/` and `results/`.

    Args:
        folder: The run's folder.
        agent: The agent of its last checkpoint, if it is already in memory.

    Raises:
        InputError: If the folder is not a run's, when the agent or the metrics are first accessed.

    Example:
        >>> again = decision_rnn.Run(run.folder)
        >>> again
        Run('swing-up', mingru on local/swing, step 20)
        >>> again.config.training.context
        20
        >>> again.metrics["step"]
        array([10, 20])
    """

    def __init__(self, folder: Path | str, agent: TrainedAgent | None = None) -> None:
        self.folder = Path(folder).absolute()  # a notebook may change its working folder
        if agent is not None:
            self.agent = agent

    @cached_property
    def agent(self) -> TrainedAgent:
        """The agent of the last checkpoint: `.agent` is the network; `.config`, `.provenance` and `.step` describe
        it."""
        return load_agent(self.folder)

    @property
    def best(self) -> TrainedAgent:
        """The agent with the lowest held-out loss, of `checkpoints/best`; InputError for a run without `validation`."""
        return load_agent(self.folder / "checkpoints" / BEST)

    @property
    def config(self) -> RunConfig:
        """The full configuration of the run."""
        return self.agent.config if "agent" in self.__dict__ else read_config(self.folder)

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """The metrics logged every `training.log_every` steps: arrays of equal length by name, `step` (int64),
        `seconds` of training so far, `loss` (the mean since the previous entry), `gradient_norm` (before clipping),
        `learning_rate`, `steps_per_second`, `skipped` (the share of steps that changed nothing, since their loss or
        gradient was not finite). NaN where a line lacks one."""
        lines = read_metrics(config_file(self.folder).parent)
        names = dict.fromkeys(name for line in lines for name in line)
        return {name: np.array([line.get(name, np.nan) for line in lines]) for name in names}

    def evaluate(self, target_returns: float | str | Sequence[float | str] | None = None, **options: Any) -> Result:
        """The scores of the agent, also written to the run's folder: `evaluate(run, target_returns, ...)`."""
        return evaluate(self, target_returns, **options)

    def actor(self, target_return: float | str | np.ndarray | None = None, **options: Any) -> EnvironmentActor:
        """The agent for your own loop: `EnvironmentActor(agent, target_return, ...)`."""
        return EnvironmentActor(self.agent, target_return, **options)

    def __repr__(self) -> str:
        inside = self.folder.is_relative_to(Path.cwd())
        folder = str(self.folder.relative_to(Path.cwd()) if inside else self.folder)
        try:
            config, step = self.config, last_checkpoint(self.folder).name
        except InputError:  # not a run yet, or a plugin is missing
            return f"Run({folder!r})"
        return f"Run({folder!r}, {config.backbone.name} on {config.dataset}, step {step})"

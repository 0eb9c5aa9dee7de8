"""A run: the folder in which an agent was trained, with what it logged, its agent and its scores."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from decision_rnn.config import RunConfig
from decision_rnn.evaluation.environment_actor import EnvironmentActor
from decision_rnn.evaluation.evaluate import EvaluatedPolicy
from decision_rnn.evaluation.evaluate import evaluate as play_and_score
from decision_rnn.evaluation.results import Result, write_result
from decision_rnn.evaluation.subjects import load_subject
from decision_rnn.evaluation.targets import check_conditioned
from decision_rnn.training.checkpoint import TrainedAgent, load_agent
from decision_rnn.training.configuration import evaluation_settings, output_folder
from decision_rnn.training.run_files import last_checkpoint
from decision_rnn.training.run_folder import read_config, read_metrics, write_scores
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import check_folder
from decision_rnn.utils.messages import quiet
from decision_rnn.utils.parsing import PositiveInt, convert
from decision_rnn.utils.plugins import import_plugins


class Run:
    """A run's folder and its agent.

    `train` returns one; `Run(folder)` opens an existing folder. The folder holds `config.yaml`, `metrics.jsonl`,
    TensorBoard events, `checkpoints/` and `results/`.

    Args:
        folder: The run's folder.
        agent: The agent of its last checkpoint, if it is already in memory.
        plugins: Modules to import before the agent is loaded.

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

    def __init__(self, folder: Path | str, agent: TrainedAgent | None = None, plugins: Sequence[str] = ()) -> None:
        self.folder = Path(folder)
        self._plugins = plugins
        if agent is not None:
            self.agent = agent

    @cached_property
    def agent(self) -> TrainedAgent:
        """The agent of the last checkpoint: `.agent` is the network; `.config`, `.provenance` and `.step` describe
        it."""
        return load_agent(self.folder, self._plugins)

    @property
    def config(self) -> RunConfig:
        """The full configuration of the run."""
        if "agent" in self.__dict__:
            return self.agent.config
        import_plugins(self._plugins)
        return read_config(self.folder)

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """The metrics logged every `training.log_every` steps: arrays of equal length by name, `step` (int64),
        `seconds` of training so far, `loss` (the mean since the previous entry), `gradient_norm` (before clipping),
        `learning_rate`, `steps_per_second`, `skipped` (the share of steps that changed nothing, since their loss or
        gradient was not finite)."""
        lines = read_metrics(self.folder)
        return {name: np.array([line[name] for line in lines]) for name in (lines[0] if lines else ())}

    def evaluate(self, target_returns: float | str | Sequence[float | str] | None = None, **options: Any) -> Result:
        """The scores of the agent, also written to the run's folder: `evaluate(run, target_returns, ...)`."""
        return evaluate(self, target_returns, **options)

    def actor(self, target_return: float | str | np.ndarray | None = None, **options: Any) -> EnvironmentActor:
        """The agent for your own loop: `EnvironmentActor(agent, target_return, ...)`."""
        return EnvironmentActor(self.agent, target_return, **options)

    def __repr__(self) -> str:
        try:
            config, step = self.config, last_checkpoint(self.folder).name
        except InputError:  # not a run yet, or a plugin is missing
            return f"Run({str(self.folder)!r})"
        return f"Run({str(self.folder)!r}, {config.backbone.name} on {config.dataset}, step {step})"


def evaluate(
    agent: Run | TrainedAgent | EvaluatedPolicy | str | Path,
    target_returns: float | str | Sequence[float | str] | None = None,
    *,
    episodes: int | None = None,
    inference: Literal["recurrent", "window"] | None = None,
    window: int | None = None,
    actions: Literal["greedy", "sampled"] | None = None,
    seed: int | None = None,
    max_episode_steps: int | None = None,
    environment_id: str | None = None,
    metrics: Sequence[str] | None = None,
    output: Path | str | None = None,
    processes: int | None = None,
    progress: bool = True,
    plugins: Sequence[str] = (),
) -> Result:
    """Play episodes in the agent's environment and score them; `decision-rnn evaluate` does the same.

    Every episode has its own environment and seed; the result is the same for any number of processes. Arguments that
    are left out take the run's settings. The result of a run, or of one of its checkpoints, is also written to its
    folder.

    Args:
        agent: A run, an agent, a name that `load_agent` accepts, or the file of an exported policy.
        target_returns: Undiscounted sums of the environment's rewards, or `auto` for the limit of what the agent sees;
            if left out, `auto` and the paper's for the task that are inside the data, or, of an agent without a limit,
            the paper's and the best return in the data. An agent trained by cloning takes none.
        episodes: The number of episodes to play for each target.
        inference: `recurrent` to carry the state over the whole episode, or `window` to re-run the last steps for every
            action, the Decision Transformer's protocol.
        window: Steps in that window, if `inference` is `window`.
        actions: `greedy` for the most probable discrete action or mode of `gmm`, and the flow from zero of
            `flow_matching`, or `sampled` to draw it with its probability.
        seed: Episode i of every target starts with the environment's reset(seed + i).
        max_episode_steps: Largest number of steps of an episode.
        environment_id: The environment to play in, if not the data's: one with the same observations and actions.
        metrics: What is measured in every episode besides its return: names such as `success`, or of metrics
            registered by `register_metric`.
        output: A folder to write the result to, instead of the run's.
        processes: The number of processes; one per core if left out.
        progress: Whether to show a progress bar.
        plugins: Modules to import first.

    Returns:
        The result. `.targets` has an entry for each target return: `.return_mean`, `.return_sd` (over episodes),
        `.score_mean`, `.score_sd` (`print(result)` says what scores 0 and 100), `.length_mean` (steps), `.returns`,
        every episode's, and `.metrics` by name, each with `.mean`, `.sd` and `.values`.

    Raises:
        InputError: If there is no such agent, its environment cannot be made here, a value is invalid, the result
            cannot be written (checked before playing).
        EnvironmentFailure: If a process dies.

    Example:
        >>> result = decision_rnn.evaluate(run, [90.0], episodes=2, progress=False)
        >>> len(result.targets[0].returns)
        2
        >>> print(result)  # doctest: +ELLIPSIS
        mingru on local/swing, step 20, 2 episodes per target, carried state, MountainCarContinuous-v0
        ...
    """
    import_plugins(plugins)
    processes = convert(processes, PositiveInt | None, "processes")
    subject, folder = (agent.agent, agent.folder) if isinstance(agent, Run) else (agent, None)
    if isinstance(subject, str | Path):
        subject, folder = load_subject(subject)
    if not isinstance(subject, TrainedAgent | EvaluatedPolicy):
        raise InputError(f"evaluate was given {type(agent).__name__}: give it a run, an agent, or the name of one")
    if isinstance(subject, EvaluatedPolicy) and (inference == "window" or actions == "sampled"):
        raise InputError("an exported policy carries its state and acts greedily: evaluate its run for anything else")
    if target_returns is not None:
        check_conditioned(subject.config)
    settings = evaluation_settings(
        subject.config.evaluation,
        target_returns=target_returns,
        episodes=episodes,
        inference=inference,
        window=window,
        actions=actions,
        seed=seed,
        max_episode_steps=max_episode_steps,
        environment_id=environment_id,
        metrics=metrics,
    )
    written = output_folder(output) or folder
    try:
        if written is not None:
            check_folder(written / "results")  # before minutes are spent on the evaluation
    except OSError as error:
        raise InputError(f"cannot write into {written}: {error.strerror}: name another folder as output") from None
    with quiet(not progress):
        result = play_and_score(subject, settings, processes)
    if written is not None:
        write_result(written, result)
        if (written / "config.yaml").is_file():  # a run's
            write_scores(written, result.step, result.scalars("evaluation"))
    return result

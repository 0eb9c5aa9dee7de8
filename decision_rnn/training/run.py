"""A run, the folder in which an agent was trained, with the functions `train` and `evaluate`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from decision_rnn.config import RunConfig
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import EpisodeStore
from decision_rnn.evaluation.environment_actor import EnvironmentActor
from decision_rnn.evaluation.evaluate import (
    EvaluatedPolicy,
    checkpoint_settings,
    evaluate_once,
    evaluation_environment,
)
from decision_rnn.evaluation.evaluate import evaluate as play_and_score
from decision_rnn.evaluation.metrics import metrics_named
from decision_rnn.evaluation.report import remark_on_limits
from decision_rnn.evaluation.results import Result, write_result
from decision_rnn.evaluation.targets import asked_returns, check_conditioned, describe_few, describe_reach
from decision_rnn.training.agents import load_agent, load_subject
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.training.configuration import configuration, evaluation_settings, output_folder
from decision_rnn.training.follower import follow
from decision_rnn.training.loop import Callback
from decision_rnn.training.loop import train as train_in_folder
from decision_rnn.training.run_files import checkpoints_of, last_checkpoint
from decision_rnn.training.run_folder import check_resumed_run, read_config, read_metrics, write_scores
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import check_folder
from decision_rnn.utils.messages import quiet, tell, warn
from decision_rnn.utils.parsing import PositiveInt, convert
from decision_rnn.utils.plugins import import_plugins
from decision_rnn.utils.workers import follows


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


def train(
    data: Any = None,
    backbone: Any = None,
    *,
    steps: int | None = None,
    seed: int | None = None,
    output: Path | str | None = None,
    callback: Callback | None = None,
    progress: bool = True,
    resume: bool = False,
    init_from: Run | str | Path | None = None,
    environment_id: str | None = None,
    plugins: Sequence[str] = (),
    **config: Any,
) -> Run:
    """Train an agent on a dataset; `decision-rnn train` does the same.

    Args:
        data: A dataset's name, such as `hopper-medium`, `minari/mujoco/hopper/medium-v0` or `local/mine`; a result of
            `open_dataset`, `write_store` or `record`; a Minari dataset; or episodes in memory (`Episode`, or Minari's
            `EpisodeData`), which are stored as a dataset `local/episodes-...` named by their contents. May be left out
            if the run in `output` is resumed.
        backbone: Its name, a dictionary of its options including `name`, or its configuration; mingru if left out, or
            that of `init_from`.
        steps: Optimiser steps; 2,000 if left out.
        seed: The seed of the initial weights, the sampled segments and dropout; 0 if left out.
        output: The run's folder; `runs/DATASET-BACKBONE-seedN` if left out.
        callback: `callback(step, metrics, agent)`, called every `training.log_every` steps with the step (int), the
            metrics at that step (a dictionary of numbers: `loss`, `learning_rate`, ...) and a copy of the agent at that
            step (a `TrainedAgent` in evaluation mode). If it returns False, training stops there, with a checkpoint.
            The callback does not affect the training, and its time does not count as training time.
        progress: Whether to show a progress bar, the agent's size and how many episodes reach the target returns. With
            False, nothing is printed.
        resume: Resume the run in `output` from its last checkpoint, bit for bit as if it had not stopped. Whatever is
            left out, the data included, is as the run has it: `train(resume=True, output=folder)` suffices.
        init_from: An agent whose weights training starts from: a run, or a name that `load_agent` accepts. Its
            architecture, its normalisation of observations and returns and its action box are kept, so that the agent
            first acts as it did before; references, target returns and the cap of the return-to-go are of the new data.
        environment_id: For episodes in memory: the Gymnasium id of their environment.
        plugins: Modules to import first, which register backbones, objectives, sources or environments.
        config: Any other key of a run, with sections as dictionaries, as in its YAML file:
            `training={"batch_size": 32}`, `condition="none"`, `evaluation={"episodes": 20}`,
            `top_fraction=0.1`.

    Returns:
        The run; its `.agent` is the one of the last step. In a script that `torchrun` runs, all processes train it, and
        all return it.

    Raises:
        InputError: If the data or a key is invalid, the evaluation environment cannot be made here (unless
            `evaluation={"episodes": 0}`), or the folder cannot be written or holds another run.
        KeyboardInterrupt: After Ctrl-C, SIGTERM or a notebook's stop button, once the current step is done and a
            checkpoint is written, from which `resume=True` continues. A second one stops at once.

    Example:
        >>> losses = []
        >>> def watch(step, metrics, agent):
        ...     losses.append(metrics["loss"])
        ...     return step < 20  # False: that is enough
        >>> run = decision_rnn.train(
        ...     "local/swing",
        ...     backbone={"name": "mingru", "width": 16, "layers": 1},
        ...     steps=1_000,
        ...     output="swing-up",
        ...     callback=watch,
        ...     progress=False,
        ...     training={"log_every": 10},
        ... )
        >>> run.agent.step, len(losses)
        (20, 2)
    """
    if follows():
        return Run(follow())
    if init_from is not None:
        config = {**config, "init_from": init_from.folder if isinstance(init_from, Run) else init_from}
    resumed = output_folder(output) if resume else None
    with quiet(not progress):
        described = configuration(data, backbone, steps, seed, environment_id, plugins, config, resumed)
        return train_run(described, output, resume, callback)


def train_run(
    config: RunConfig,
    output: Path | str | None = None,
    resume: bool = False,
    callback: Callback | None = None,
    processes: int | None = None,
) -> Run:
    """Train the run of a configuration in a folder; arguments and errors as for `train`. `processes` is the number of
    processes that evaluate its checkpoints, if `evaluation.checkpoint_episodes` says so."""
    dataset = open_dataset(config.dataset, config.path, config.partial)
    name = dataset.name.replace("/", "-")
    folder = output_folder(output) or Path("runs") / f"{name}-{config.backbone.name}-seed{config.seed}"
    evaluated = config.evaluation.episodes or config.evaluation.checkpoint_episodes
    unplayed = evaluated and dataset.spec.environment_id is None and config.evaluation.environment_id is None
    if unplayed:
        config = replace(config, evaluation=replace(config.evaluation, episodes=0, checkpoint_episodes=0))
    metrics_named(config.evaluation.metrics)  # raises now if one is unknown
    if resume:
        config = check_resumed_run(config, folder)
    if config.evaluation.episodes or config.evaluation.checkpoint_episodes:
        try:
            evaluation_environment(config.evaluation, dataset.spec)
        except InputError as error:
            raise type(error)(f"{error}, or leave evaluation out, --evaluation.episodes 0") from None

    def evaluate_checkpoint(trained: TrainedAgent) -> dict[str, float]:
        with quiet():
            settings = checkpoint_settings(config, trained.provenance)
            return evaluate_once(folder, trained, settings, processes).scalars("checkpoints")

    def tell_of_data(provenance: DatasetSpec, seen: EpisodeStore) -> None:
        if unplayed:
            tell(f"{dataset.name} names no environment: the agent is trained and not evaluated (evaluation.episodes 0)")
        _tell_reach(config, provenance, seen)

    initial = None
    if config.init_from is not None and not (resume and checkpoints_of(folder)):
        initial = load_agent(config.init_from, config.plugins)
    trained = train_in_folder(
        config,
        folder,
        resume,
        evaluate_checkpoint if config.evaluation.checkpoint_episodes else None,
        on_data=tell_of_data,
        callback=callback,
        initial=initial,
    )
    return Run(folder, trained)


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


def _tell_reach(config: RunConfig, provenance: DatasetSpec, seen: EpisodeStore) -> None:
    """Report how many of the training episodes reach the target returns, and warn if few do, or if episodes are
    evaluated under another time limit."""
    if limits := remark_on_limits(provenance, config.evaluation):
        warn(f"warning: {limits}")
    if not config.takes_return:
        return
    settings, best = config.evaluation, provenance.return_max
    asked = asked_returns(settings, provenance, config)
    if reach := describe_reach(asked, seen.episode_returns):
        tell(reach)
    # By default the data's best return is a target too, for reference: that few episodes reach it needs no warning.
    wanted = asked if settings.target_returns is not None else [target for target in asked if target != best]
    if (few := describe_few(wanted, seen.episode_returns)) is not None:
        warn(f"warning: {few}")

"""Training: from a run's configuration to its last checkpoint, with resumption of interrupted runs."""

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from decision_rnn.agent import DecisionAgent, check_objective
from decision_rnn.config import RunConfig, flatten, from_dict, overlay, to_dict
from decision_rnn.data.dataset import Dataset, as_dataset, check_name
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.stream import StepStream
from decision_rnn.environments.spaces import described_spaces
from decision_rnn.evaluation.evaluate import checkpoint_settings, evaluate_once, evaluation_environment
from decision_rnn.evaluation.metrics import metrics_named
from decision_rnn.evaluation.targets import describe_reach, evaluated_returns
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent, load_training_state, save_checkpoint
from decision_rnn.runs.folder import (
    MetricsLog,
    check_new_run,
    check_resumed_run,
    checkpoints_of,
    config_file,
    last_checkpoint,
    read_config,
    write_config,
)
from decision_rnn.training.configuration import run_keys, with_architecture
from decision_rnn.training.prepare import prepare, select_episodes
from decision_rnn.training.run import Run
from decision_rnn.training.trainer import StepOutput, Trainer
from decision_rnn.training.validation import Validation
from decision_rnn.training.warnings import describe_run, describe_start, run_warnings
from decision_rnn.utils.distributed import any_process, first_process_first, process_group, rank, world_size
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import working_alone
from decision_rnn.utils.interruption import Interruption
from decision_rnn.utils.messages import bar, counted, quiet, tell, typed, warn
from decision_rnn.utils.parsing import plain
from decision_rnn.utils.plugins import import_plugins

Returned = TypeVar("Returned")
Callback = Callable[[int, dict[str, float], TrainedAgent], object]
"""`callback(step, metrics, agent)`; training stops after the step for which it returns False."""
MOST_SKIPPED = 10
"""A run ends after this many skipped steps in a row."""


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
            `EpisodeData`), which are stored as a dataset `episodes/HASH` named by their contents. May be left out
            if the run in `output` is resumed. Or the `RunConfig` of a run, whose keys the other arguments
            replace.
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
            first acts as it did before; references, target returns and the limit of the return-to-go are of the
            new data.
        environment_id: For episodes in memory: the Gymnasium id of their environment.
        plugins: Modules to import first, which register backbones, objectives, sources or environments.
        config: Any other key of a run, with sections as dictionaries, as in its YAML file:
            `training={"batch_size": 32}`, `condition="none"`, `evaluation={"episodes": 20}`,
            `top_fraction=0.1`.

    Returns:
        The run; its `.agent` is the one of the last step. In a script that `torchrun` runs, every process takes the
        same steps on its own part of every batch, the first one writes the folder, and all return the run.

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
    folder = None if output is None else Path(output)
    with process_group(), quiet(not progress or rank() > 0), ExitStack() as stack:
        import_plugins(plugins)
        source = init_from.folder if isinstance(init_from, Run) else init_from
        options = {"backbone": backbone, "seed": seed, "plugins": list(plugins) or None, "init_from": source}
        options = {name: value for name, value in options.items() if value is not None}
        keys = flatten(run_keys(config | options, steps))
        if isinstance(data, RunConfig):
            keys, data = overlay(flatten(to_dict(data)), keys), None
        elif resume and folder is not None:
            saved = flatten(to_dict(read_config(folder)))
            if isinstance(data, Dataset):
                del saved["path"]  # which the dataset states
            keys = overlay(saved, keys)
        if folder is None or not resume:
            keys = with_architecture(keys if data is None else {"dataset": "", **keys})
        run_config = from_dict(keys, "options of train")
        if folder is not None and rank() == 0:
            config_file(folder) if resume else check_new_run(folder)
        # The data are opened, and made if they are missing, only now that all keys have been checked.
        data = run_config.dataset if data is None else data
        with first_process_first():
            dataset = as_dataset(data, environment_id, run_config.path, run_config.partial)
        run_config = replace(run_config, dataset=dataset.name, path=plain(dataset.path), partial=dataset.partial)
        folder = folder or Path("runs") / run_config.run_name
        if rank() == 0:
            stack.enter_context(working_alone(folder, "training", "training"))
        return Run(folder, _train(run_config, dataset, folder, resume, callback))


def _train(config: RunConfig, dataset: Dataset, folder: Path, resume: bool, callback: Callback | None) -> TrainedAgent:
    """Train the agent of a run in its folder; returns it as it is after the last step."""
    config = _checked(config, dataset, folder, resume)
    store = dataset.store
    episodes = select_episodes(config, store)
    saved = load_agent(folder) if resume and checkpoints_of(folder) else None
    initial = None if saved is not None or config.init_from is None else load_agent(config.init_from, config.plugins)
    # An agent that is trained further keeps its action box.
    trained = saved or initial
    spaces = store.observation_space, store.action_space if trained is None else trained.agent.action_space
    spec = replace(dataset.spec, spaces=described_spaces(*spaces))

    agent, trainer, stream = prepare(config, episodes, spec.return_scale, spaces, initial)
    validation = Validation(config, store, spaces[0], trainer.device) if config.validation else None
    means: dict[str, list[Tensor]] = defaultdict(list)
    if saved is not None:
        further = f"train another run from its weights, {typed('--init_from', folder)}, with another --output"
        saved.provenance.check_contents(store, folder, further)
        state = load_training_state(last_checkpoint(folder))
        trainer.result.load_state_dict(saved.agent.state_dict())
        trainer.load_state_dict(state)
        stream.load_state_dict(state["stream"])
        means.update({name: list(values.to(trainer.device)) for name, values in state["means"].items()})
    else:
        position = stream.state_dict()
        check_objective(agent, stream.sample(), config.objective_options.name)
        agent.check_acting(config.evaluation.actions, config.evaluation.inference)
        stream.load_state_dict(position)
    if rank() == 0:
        write_config(config, folder)  # after all checks: a folder that holds a run accepts no other run

    if resume:
        done = trainer.steps == config.training.steps
        tell(f"resuming {folder} at step {trainer.steps:,}{', its last: nothing is left to train' * done}")
    lines = [*describe_run(config, agent, store, episodes)]
    if validation is not None:
        held_out = validation.store
        sizes = f"{counted(held_out.num_episodes, 'episode')}, {counted(held_out.steps, 'step')}"
        lines.append(f"validated on {sizes} of {config.validation}")
    for line in (*lines, *(describe_start(config, store, initial) if saved is None else ())):
        tell(line)
    for warning in filter(None, run_warnings(config, spec, episodes)):
        warn(f"warning: {warning}")
    targets = evaluated_returns(config.evaluation, spec, config) if config.takes_return else ()
    if reach := describe_reach(targets, episodes.episode_returns):
        tell(reach)

    log = MetricsLog(folder, trainer.steps, 0.0 if saved is None else saved.seconds)
    try:
        return _Loop(config, folder, spec, trainer, stream, validation, log, means).run(callback)
    finally:
        log.close()


def _checked(config: RunConfig, dataset: Dataset, folder: Path, resume: bool) -> RunConfig:
    """The configuration of a run that can be trained in a folder and evaluated here; InputError if it cannot be."""
    evaluation, batch_size = config.evaluation, config.training.batch_size
    if batch_size % world_size():
        raise InputError(f"training.batch_size {batch_size} is no multiple of {world_size()} processes.")
    metrics_named(evaluation.metrics)
    if config.validation is not None:
        check_name(config.validation)
    if evaluation.episodes or evaluation.checkpoint_episodes:
        if dataset.spec.environment_id is None and evaluation.environment_id is None:
            tell(f"{dataset.name} names no environment: the agent is trained and not evaluated (evaluation.episodes 0)")
            config = replace(config, evaluation=replace(evaluation, episodes=0, checkpoint_episodes=0))
        else:
            evaluation_environment(evaluation, dataset.spec)
    if resume:
        return check_resumed_run(config, folder)
    if rank() == 0:
        check_new_run(folder)
    return config


@dataclass
class _Loop:
    """A run while it is trained: its steps, and what is logged and saved between them.

    Attributes:
        means: The scalars of each step since the last line of metrics, by name.
    """

    config: RunConfig
    folder: Path
    spec: DatasetSpec
    trainer: Trainer[DecisionAgent]
    stream: StepStream
    validation: Validation | None
    log: MetricsLog
    means: dict[str, list[Tensor]]
    interruption: Interruption = field(default_factory=Interruption)

    def run(self, callback: Callback | None) -> TrainedAgent:
        """Train until the last step, or until a signal or the callback stops it."""
        settings, trainer = self.config.training, self.trainer
        name = f"training {self.config.backbone.name}"
        with bar(total=settings.steps, initial=trainer.steps, desc=name, unit="step") as progress, self.interruption:
            if trainer.steps > 0:
                self.evaluate()  # the process may have been killed before it
            stopped = False
            while trainer.steps < settings.steps and not stopped:
                output = trainer.step(self.stream.sample())
                skipped = torch.tensor(float(output.skipped), device=trainer.device)
                for name, value in {"loss": output.loss, **output.metrics, "skipped": skipped}.items():
                    self.means[name].append(value)
                progress.update()
                last = trainer.steps == settings.steps
                stopped = any_process(self.interruption.requested)
                logs = last or trainer.steps % settings.log_every == 0
                saves = last or stopped or trainer.steps % settings.checkpoint_every == 0
                if logs or saves:
                    self.check_finite()
                if logs:
                    metrics = self.write_metrics(output)
                    losses = {name: f"{metrics[name]:.4f}" for name in ("loss", "validation_loss") if name in metrics}
                    progress.set_postfix(losses, refresh=False)
                    answer = self.show(partial(callback, trainer.steps, metrics)) if callback and rank() == 0 else None
                    declined = isinstance(answer, bool | np.bool_) and not answer  # the latter from an array
                    stopped = any_process(declined or self.interruption.requested)
                if saves or stopped:
                    self.save()
                    self.evaluate()
                    stopped = any_process(stopped or self.interruption.requested)
        if self.interruption.requested:
            # In a notebook, this message is all that the user sees.
            resume = typed("decision-rnn", "train", "--output", self.folder, "--resume")
            raise KeyboardInterrupt(
                f"interrupted at step {trainer.steps}; `{resume}`, in Python resume=True, goes on from there"
            )
        return self.trained(trainer.result.eval())

    def check_finite(self) -> None:
        """InputError if steps are skipped one after the other, or if weights are not finite, so that no good checkpoint
        is replaced."""
        trainer = self.trainer
        finite = torch.stack([parameter.isfinite().all() for parameter in trainer.model.parameters()]).all()
        if finite and trainer.skipped_in_a_row < MOST_SKIPPED:
            return
        fault = (
            f"the last {MOST_SKIPPED} updates had a non-finite loss or gradient" if finite else "weights are not finite"
        )
        saved = checkpoints_of(self.folder)
        intact = f" The checkpoint of step {saved[-1].name} is intact." if saved else ""
        raise InputError(
            f"{fault} at step {trainer.steps} of {self.folder}. Lower training.learning_rate, or train with "
            f"training.precision fp32.{intact}"
        )

    def write_metrics(self, output: StepOutput) -> dict[str, float]:
        """Write a line of metrics: the means since the last line, the loss on the validation data, and the last step's
        gradient norm and learning rate."""
        averages = {name: torch.stack(values).nanmean().item() for name, values in self.means.items()}
        if averages["skipped"]:
            count = len(self.means["skipped"])
            skipped = round(averages["skipped"] * count)
            warn(f"warning: skipped {skipped} of the last {count:,} updates: loss or gradient was not finite")
        self.means.clear()
        validation = self.validation
        held_out = {} if validation is None else self.show(lambda trained: validation(trained.agent)) or {}
        last = {"gradient_norm": output.gradient_norm.item(), "learning_rate": output.learning_rate}
        return self.log.write(self.trainer.steps, **averages, **last, **held_out)

    def save(self) -> None:
        """Write a checkpoint."""
        state = {**self.trainer.state_dict(), "stream": self.stream.state_dict()}
        state["means"] = {name: torch.stack(values) for name, values in self.means.items()}
        if rank() == 0:
            save_checkpoint(self.folder, self.trained(self.trainer.result), state)

    def evaluate(self) -> None:
        """Play with the last checkpoint and log its scores, if `evaluation.checkpoint_episodes` says so."""
        if rank() > 0 or self.interruption.requested or not self.config.evaluation.checkpoint_episodes:
            return
        settings = checkpoint_settings(self.config, self.spec)
        with quiet():
            result = self.show(lambda trained: evaluate_once(self.folder, trained, settings))
        if result is not None:
            self.log.write_scores(self.trainer.steps, result.scalars("checkpoints"))

    def show(self, function: Callable[[TrainedAgent], Returned]) -> Returned | None:
        """The result of a function of a copy of the agent, which does not affect training, nor count as its time; None
        if it was interrupted."""
        with self.log.paused(), torch.random.fork_rng():
            agent = self.trained(copy.deepcopy(self.trainer.result).eval())
            return self.interruption.call(partial(function, agent))

    def trained(self, agent: DecisionAgent) -> TrainedAgent:
        """An agent with the run's configuration, data and steps."""
        return TrainedAgent(agent, self.config, self.spec, self.trainer.steps, self.log.elapsed())

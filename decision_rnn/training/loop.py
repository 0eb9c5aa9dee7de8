"""The training loop: from a run's configuration to its last checkpoint, with resumption of interrupted runs."""

import copy
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from decision_rnn.agent import DecisionAgent, check_objective
from decision_rnn.backbones import count_parameters
from decision_rnn.config import RunConfig
from decision_rnn.data.dataset import check_name, open_dataset
from decision_rnn.data.spaces import described_spaces, share_outside
from decision_rnn.data.spec import DatasetSpec, observation_index
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.data.warnings import warn_of_actions, warn_of_observations, warn_of_returns
from decision_rnn.training.checkpoint import (
    TrainedAgent,
    checkpoints_of,
    last_checkpoint,
    load_agent,
    load_training_state,
    save_checkpoint,
)
from decision_rnn.training.follower import Setup
from decision_rnn.training.prepare import prepare, restore
from decision_rnn.training.ranks import leading
from decision_rnn.training.run_folder import MetricsLog, check_new_run, check_resumed_run, write_config
from decision_rnn.training.slices import describe_slices, odd_slices, select_episodes
from decision_rnn.training.trainer import Trainer, pick_device
from decision_rnn.training.validation import Validation
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import working_alone
from decision_rnn.utils.interruption import Interruption
from decision_rnn.utils.messages import bar, counted, tell, typed, warn

Shown = TypeVar("Shown")
Callback = Callable[[int, dict[str, float], TrainedAgent], object]
"""`callback(step, metrics, agent)`; training stops after the step for which it returns False."""
OnCheckpoint = Callable[[TrainedAgent], Mapping[str, float] | None]
MOST_SKIPPED = 10
"""A run ends after this many steps in a row that change nothing, since their loss or gradient is not finite."""


def train(
    config: RunConfig,
    run: Path,
    resume: bool = False,
    on_checkpoint: OnCheckpoint | None = None,
    on_data: Callable[[DatasetSpec, EpisodeStore], None] | None = None,
    callback: Callback | None = None,
    initial: TrainedAgent | None = None,
) -> TrainedAgent:
    """Train an agent from scratch or from the last checkpoint; prints the agent's size first.

    Args:
        config: The run's configuration.
        run: The run folder: config.yaml, metrics.jsonl, TensorBoard events, checkpoints.
        resume: Resume the run in that folder; the result is bit for bit that of an uninterrupted run.
        on_checkpoint: Called with a copy of the agent, in evaluation mode, after each checkpoint is written, and for
            the one that a resumed run starts from, since the process may have been killed before the call. Its time
            does not count as training time, and it does not affect training. Scores that it returns, by tag, are
            logged.
        on_data: Called before the first step with the provenance of the data and the episodes that are trained on.
        callback: Called whenever metrics are logged, with the step, the metrics and a copy of the agent. If it returns
            False, training stops after that step with a checkpoint, from which the run can be resumed.
        initial: The agent that `init_from` names, if the run has no checkpoint yet.

    Returns:
        The agent after the last step.

    Raises:
        InputError: If the dataset or the run folder cannot be used, or another process is training in that folder.
        EnvironmentFailure: If a checkpoint cannot be written.
        KeyboardInterrupt: After Ctrl-C or SIGTERM, once the current step is done and its checkpoint is written.
    """
    with ExitStack() as stack:
        stack.enter_context(working_alone(run, "training", "training"))
        check_name(config.dataset)
        if config.validation is not None:
            check_name(config.validation)
        # Checked before the data are opened, since making them may take minutes.
        processes, gpus = config.training.processes, torch.cuda.device_count()
        if pick_device(config.training.device).type == "cuda" and processes > gpus:
            raise InputError(
                f"training.processes is {processes}, but torch sees {counted(gpus, 'GPU')}, and each process needs its "
                "own: lower it, or set training.device cpu"
            )
        if resume:
            config = check_resumed_run(config, run)
        else:
            check_new_run(config, run)
        dataset = open_dataset(config.dataset, config.path, config.partial)
        store, provenance = dataset.store, dataset.spec
        seen = select_episodes(config, store)
        saved = load_agent(last_checkpoint(run)) if resume and checkpoints_of(run) else None
        spaces, remark = _spaces(config, store, saved, initial)
        provenance = replace(provenance, spaces=described_spaces(*spaces))
        ranks = stack.enter_context(leading(processes))
        config = replace(config, training=replace(config.training, processes=ranks.number))
        agent, trainer, stream = prepare(config, seen, provenance.return_scale, spaces, initial, ranks)
        validation = None if config.validation is None else Validation(config, store, spaces[0], trainer.device)
        if not resume:
            position = stream.state_dict()
            check_objective(agent, stream.sample(), config.objective_options.name)
            agent.check_acting(config.evaluation.actions, config.evaluation.inference)
            stream.load_state_dict(position)
        state = {} if saved is None else _restore(trainer, stream, saved, run, store)
        Setup(run, config, spaces, initial, None if saved is None else (saved.agent.state_dict(), state)).share(ranks)
        means = state.get("means") or {"loss": state.get("losses", torch.empty(0))}  # the latter from version 0.2
        seconds = 0.0 if saved is None else saved.seconds
        write_config(config, run)  # after all checks: a folder that holds a run accepts no other run
        log = MetricsLog(run, trainer.steps, seconds)
        if resume:
            done = trainer.steps == config.training.steps
            tell(f"resuming {run} at step {trainer.steps:,}{', its last: nothing is left to train' * done}")
        tell(_describe(agent, config, store, seen))
        if validation is not None:
            size = f"{counted(validation.store.num_episodes, 'episode')}, {counted(validation.store.steps, 'step')}"
            tell(f"validated on {size} of {config.validation}")
        if remark:
            tell(remark)
        index = observation_index(config.observation.mask, store.environment_id)
        returns = warn_of_returns(seen) if config.takes_return else ()
        for oddity in (*warn_of_observations(seen, index), *returns, *odd_slices(config, seen)):
            warn(f"warning: {oddity}")
        if on_data is not None:
            on_data(provenance, seen)
        logged = {name: list(of_steps.to(trainer.device)) for name, of_steps in means.items()}
        return _Loop(config, run, provenance, agent, trainer, stream, validation, log, logged).finish(
            on_checkpoint, callback
        )


@dataclass
class _Loop:
    """A run while it is trained: its steps, and what is logged, shown and saved between them.

    Attributes:
        means: The scalars of each step since the last line of metrics, by name.
    """

    config: RunConfig
    run: Path
    provenance: DatasetSpec
    agent: DecisionAgent
    trainer: Trainer[DecisionAgent]
    stream: StepStream
    validation: Validation | None
    log: MetricsLog
    means: dict[str, list[Tensor]]
    interruption: Interruption = field(default_factory=Interruption)

    def finish(self, on_checkpoint: OnCheckpoint | None, callback: Callback | None) -> TrainedAgent:
        """Train until the last step, or until a signal or the callback stops it; see `train`."""
        settings, trainer = self.config.training, self.trainer
        name = f"training {self.config.backbone.name}"
        with bar(total=settings.steps, initial=trainer.steps, desc=name, unit="step") as shown, self.interruption:
            if on_checkpoint is not None and trainer.steps > 0:
                self.score(on_checkpoint)
            stopped = False
            while trainer.steps < settings.steps and not stopped:
                rate = float(trainer.schedules[0].get_last_lr()[0])
                output = trainer.step(self.stream.sample())
                for name, value in {"loss": output.loss, **output.metrics, "skipped": output.skipped}.items():
                    self.means.setdefault(name, []).append(value)
                shown.update()
                last = trainer.steps == settings.steps
                stopped = self.interruption.requested
                logs = last or trainer.steps % settings.log_every == 0
                saves = last or stopped or trainer.steps % settings.checkpoint_every == 0
                if logs or saves:
                    _check_finite(trainer, self.run)
                if logs:
                    metrics = self.write_metrics(gradient_norm=output.gradient_norm.item(), learning_rate=rate)
                    losses = {name: f"{metrics[name]:.4f}" for name in ("loss", "validation_loss") if name in metrics}
                    shown.set_postfix(losses, refresh=False)
                    if callback is not None:
                        answer = self.show(partial(callback, trainer.steps, metrics))
                        declined = isinstance(answer, bool | np.bool_) and not answer  # the latter from an array
                        stopped = declined or self.interruption.requested
                if saves or stopped:
                    self.save()
                    if on_checkpoint is not None and not self.interruption.requested:
                        self.score(on_checkpoint)
        if self.interruption.requested:
            # In a notebook, this message is all that the user sees.
            resume = typed("decision-rnn", "train", "--output", self.run, "--resume")
            raise KeyboardInterrupt(
                f"interrupted at step {trainer.steps}; `{resume}`, in Python resume=True, goes on from step "
                f"{last_checkpoint(self.run).name}"
            )
        return self.described(trainer.result.eval())

    def write_metrics(self, **scalars: float) -> dict[str, float]:
        """Write a line of metrics: the means since the last line, the loss on the validation data, and `scalars`."""
        averages = {name: torch.stack(values).nanmean().item() for name, values in self.means.items()}
        if averages["skipped"]:
            warn(_describe_skipped(self.means["skipped"], self.trainer.steps))
        self.means = {}
        validation = self.validation
        held_out = {} if validation is None else self.show(lambda trained: validation(trained.agent)) or {}
        return self.log.write(self.trainer.steps, **averages, **scalars, **held_out)

    def save(self) -> None:
        """Write a checkpoint."""
        state = {**self.trainer.state_dict(), "stream": self.stream.state_dict()}
        state["means"] = {name: torch.stack(values) for name, values in self.means.items()}
        save_checkpoint(self.run, self.described(self.trainer.result), state)

    def score(self, on_checkpoint: OnCheckpoint) -> None:
        """Log the scores of the last checkpoint."""
        self.log.write_scores(self.trainer.steps, self.show(on_checkpoint))

    def show(self, look: Callable[[TrainedAgent], Shown]) -> Shown | None:
        """Call `look` with a copy of the agent and return its result; None if it was interrupted."""
        with self.log.paused(), torch.random.fork_rng():
            unchanged = self.described(copy.deepcopy(self.trainer.result).eval())
            return self.interruption.call(partial(look, unchanged))

    def described(self, agent: DecisionAgent) -> TrainedAgent:
        """An agent with the run's configuration, data and steps."""
        return TrainedAgent(agent, self.config, self.provenance, self.trainer.steps, self.log.elapsed())


def _spaces(
    config: RunConfig,
    store: EpisodeStore,
    saved: TrainedAgent | None,
    initial: TrainedAgent | None,
) -> tuple[tuple[gymnasium.Space, gymnasium.Space], str | None]:
    """The spaces of observations and actions, the latter of the run's last checkpoint or of the agent that it starts
    from, if there is one; and what a user should know about them."""
    observations, actions = store.observation_space, store.action_space
    if saved is not None:
        return (observations, saved.agent.action_space), None
    if initial is None:
        return (observations, actions), next(warn_of_actions(store), None)
    actions = initial.agent.action_space
    outside = share_outside(store.actions, actions) if isinstance(actions, Box) else 0.0
    clipped = f"; in {outside:.1%} of the steps an action is outside it and is clipped" if outside else ""
    return (observations, actions), (
        f"starts from {config.init_from}, step {initial.step:,}: its weights, its normalisation of observations and "
        f"returns, and its action box{clipped}"
    )


def _describe_skipped(skipped: list[Tensor], step: int) -> str:
    number = counted(int(sum(skipped)), "step")
    return f"warning: {number} of {len(skipped):,} up to step {step:,} changed nothing: loss or gradient was not finite"


def _check_finite(trainer: Trainer[DecisionAgent], run: Path) -> None:
    """InputError if steps are skipped one after the other, or if weights are not finite, so that no good checkpoint is
    replaced."""
    skipped = int(trainer.skipped_in_a_row)
    weights = torch.stack([parameter.isfinite().all() for parameter in trainer.result.parameters()]).all()
    if weights and skipped < MOST_SKIPPED:
        return
    found = f"of the last {skipped:,} steps no loss or gradient is finite" if weights else "the weights are not finite"
    kept = f"; the checkpoint of step {last_checkpoint(run).name} is intact" if checkpoints_of(run) else ""
    raise InputError(
        f"{found} at step {trainer.steps} of {run}: lower training.learning_rate or train with training.precision "
        f"fp32{kept}"
    )


def _describe(agent: DecisionAgent, config: RunConfig, store: EpisodeStore, seen: EpisodeStore) -> str:
    """Lines with the agent's size, its steps, warm-up and segments, and its episodes if not all are trained on."""
    backbone, training = config.backbone, config.training_options
    best = (
        f"\nof {counted(store.num_episodes, 'episode')} the best {len(seen):,} are trained on, {seen.steps:,} of "
        f"{counted(store.steps, 'step')}; their returns are {seen.episode_returns.min():g} and above"
    )
    return (
        f"{backbone.name}, {counted(backbone.layers, 'layer')} of width {backbone.width}: "
        f"{count_parameters(agent):,} parameters, {count_parameters(agent.backbone):,} of them in the backbone\n"
        f"{counted(training.steps, 'training step')} of {training.optimizer}, objective "
        f"{config.objective_options.name}; the learning rate warms up over the first {training.warmup:,}\n"
        f"{describe_slices(config, seen, bool(agent.backbone.initial_state(1)))}"
        f"{best if seen is not store else ''}"
    )


def _restore(
    trainer: Trainer[DecisionAgent], stream: StepStream, saved: TrainedAgent, run: Path, store: EpisodeStore
) -> dict[str, Any]:
    """Restore trainer and stream from a run's last checkpoint, whose agent is `saved`; returns its training state."""
    saved.provenance.check_contents(
        store,
        run,
        "it can be evaluated, but not resumed on other data, such as after an append; train another run from its "
        f"weights, {typed('--init_from', run)} (init_from= in Python) with another --output",
    )
    state = load_training_state(last_checkpoint(run))
    restore(trainer, stream, saved.agent.state_dict(), state)
    return state

"""The loop of a run: training steps, and what is logged, saved and evaluated between them."""

import copy
import os
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from decision_rnn.agent import DecisionAgent
from decision_rnn.config import RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.stream import StepStream
from decision_rnn.evaluation.evaluate import checkpoint_settings, evaluate_once
from decision_rnn.runs.checkpoint import TrainedAgent, save_checkpoint
from decision_rnn.runs.folder import MetricsLog, checkpoints_of, lowest_loss, mark_best
from decision_rnn.training.trainer import StepOutput, Trainer
from decision_rnn.training.validation import Validation
from decision_rnn.utils.distributed import TORCHRUN, any_process, rank
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.interruption import Interruption
from decision_rnn.utils.messages import progress_bar, quiet, shell_join, warn

Returned = TypeVar("Returned")
Callback = Callable[[int, dict[str, float], TrainedAgent], object]
"""`callback(step, metrics, agent)`; training stops after the step for which it returns False."""
MOST_SKIPPED = 10
"""A run ends after this many skipped steps in a row."""


@dataclass
class TrainingLoop:
    """The training loop of a run that `prepare_run` has prepared, from the trainer's current step on.

    Attributes:
        means: The scalars of each step since the last line of metrics, by name.
        stopped_early: Whether the held-out loss has ended training.
        best_step: The step of the lowest held-out loss.
    """

    folder: Path
    config: RunConfig
    spec: DatasetSpec
    trainer: Trainer
    stream: StepStream
    validation: Validation | None
    log: MetricsLog
    means: defaultdict[str, list[Tensor]]
    stopped_early: bool = False
    best_step: int | None = None
    # A terminal sends Ctrl-C to all processes, and torchrun then sends it to its processes again.
    interruption: Interruption = field(default_factory=lambda: Interruption(patient=TORCHRUN in os.environ))

    def run(self, callback: Callback | None) -> TrainedAgent:
        """Train until the last step, or until a signal or the callback stops it."""
        settings, trainer = self.config.training, self.trainer
        name = f"training {self.config.backbone.name}"
        progress = progress_bar(total=settings.steps, initial=trainer.steps, desc=name, unit="step")
        with closing(self.log.loggers), progress, self.interruption:
            self.best_step, checks = lowest_loss(self.log.held_out)
            self.stopped_early = 0 < settings.early_stopping_patience <= checks
            if trainer.steps > 0 and self.is_scheduled():  # the process may have been killed before these
                if rank() == 0:
                    mark_best(self.folder, self.best_step)
                self.evaluate()
            stopped, saved = False, time.monotonic()
            while not self.has_ended and not stopped:
                output = trainer.step(self.stream.sample())
                for name, value in {"loss": output.loss, **output.metrics, "skipped": output.skipped}.items():
                    self.means[name].append(value)
                progress.update()
                stopped = any_process(self.interruption.requested)
                logs = self.has_ended or trainer.steps % settings.log_every == 0
                overdue = 0 < 60 * settings.checkpoint_minutes < time.monotonic() - saved
                saves = self.is_scheduled() or stopped
                saves |= settings.checkpoint_minutes > 0 and any_process(overdue)
                if logs or saves:
                    self.check_finite()
                if logs:
                    metrics = self.write_metrics(output)
                    losses = {name: f"{metrics[name]:.4f}" for name in ("loss", "validation_loss") if name in metrics}
                    progress.set_postfix(losses, refresh=False)
                    call = partial(callback, trainer.steps, metrics) if callback and rank() == 0 else None
                    answer = None if call is None else self.interruption.call(partial(self.show, call))
                    declined = isinstance(answer, bool | np.bool_) and not answer  # the latter from an array
                    stopped = any_process(declined or self.interruption.requested)
                    self.best_step, checks = lowest_loss(self.log.held_out)
                    self.stopped_early = any_process(0 < settings.early_stopping_patience <= checks)
                    saves |= any_process(self.best_step == trainer.steps)
                if saves or stopped or self.stopped_early:
                    self.save()
                    saved = time.monotonic()
                if self.is_scheduled() or stopped:  # at the same steps on every machine
                    self.evaluate()
                    stopped = any_process(stopped or self.interruption.requested)
        if any_process(self.interruption.requested):
            # In a notebook, this message is all that the user sees.
            resume = shell_join("decision-rnn", "train", "--output", self.folder, "--resume")
            raise KeyboardInterrupt(
                f"interrupted at step {trainer.steps}; `{resume}`, in Python resume=True, goes on from there"
            )
        return self.trained(trainer.result.eval())

    @property
    def has_ended(self) -> bool:
        """Whether the last step has been taken, or training has stopped early."""
        return self.stopped_early or self.trainer.steps == self.config.training.steps

    def is_scheduled(self) -> bool:
        """Whether training has ended or a multiple of `training.checkpoint_every` has been taken."""
        return self.has_ended or self.trainer.steps % self.config.training.checkpoint_every == 0

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
        # Not interrupted: a resumed run would lack the value, and stop at another step.
        held_out = {} if validation is None else self.show(lambda trained: validation(trained.agent))
        last = {"gradient_norm": output.gradient_norm.item(), "learning_rate": output.learning_rate}
        return self.log.write(self.trainer.steps, **averages, **last, **held_out)

    def save(self) -> None:
        """Write a checkpoint."""
        state = {**self.trainer.state_dict(), "stream": self.stream.state_dict()}
        state["means"] = {name: torch.stack(values) for name, values in self.means.items()}
        if rank() == 0:
            save_checkpoint(self.folder, self.trained(self.trainer.result), state, self.best_step)

    def evaluate(self) -> None:
        """Play with the last checkpoint and log its scores, if `evaluation.checkpoint_episodes` says so."""
        if rank() > 0 or self.interruption.requested or not self.config.evaluation.checkpoint_episodes:
            return
        settings = checkpoint_settings(self.config, self.spec)
        with quiet():
            call = partial(evaluate_once, self.folder, settings=settings)
            result = self.interruption.call(partial(self.show, call))
        if result is not None:
            self.log.loggers.log(self.trainer.steps, result.scalars("checkpoints"))

    def show(self, function: Callable[[TrainedAgent], Returned]) -> Returned:
        """The result of a function of a copy of the agent, which does not affect training, nor count as its time."""
        device = self.trainer.device
        with self.log.paused(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            return function(self.trained(copy.deepcopy(self.trainer.result).eval()))

    def trained(self, agent: DecisionAgent) -> TrainedAgent:
        """An agent with the run's configuration, data and steps."""
        return TrainedAgent(agent, self.config, self.spec, self.trainer.steps, self.log.elapsed())

"""One training step: forward, backward, clipping, optimiser, schedule and moving average of the weights."""

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from decision_rnn.backbones import State, reset_rows
from decision_rnn.config import TrainingConfig
from decision_rnn.training.device import autocast, pick_device
from decision_rnn.training.graph import CapturedStep
from decision_rnn.training.optimizer import make_optimizers
from decision_rnn.utils.distributed import average_gradients, gather, own_rows, rank, world_size
from decision_rnn.utils.errors import InputError


class StepOutput(NamedTuple):
    """What a training step reports. Its tensors are scalars on the device, which the step does not wait for.

    Attributes:
        loss: The batch's loss; NaN if the step was skipped.
        gradient_norm: The gradient's norm before clipping.
        learning_rate: The rate of this step.
        metrics: The model's other scalars, by name; NaN if the step was skipped.
        skipped: 1 if the loss or the gradient was not finite, so that the step changed no weight, otherwise 0.
    """

    loss: Tensor
    gradient_norm: Tensor
    learning_rate: float
    metrics: Mapping[str, Tensor]
    skipped: Tensor


class Trainer:
    """A module with everything that a training step changes: optimisers, moving average and carried state.

    On CUDA, the step is captured as a graph if `settings.cuda_graph` says so.

    Args:
        model: `model(batch, state)` returns a `TrainingOutput`: the batch's loss, metrics, and the state after it. It
            is moved to the device.
        settings: Optimiser, schedule, device and precision. The caller decides on the number of steps and the batches.
        initial_state: If given, `state` is what the model returned for the previous batch, without its gradient
            (truncated backpropagation through time), and after a skipped step what this function returns for a
            number of rows. Without it, `state` is always None.

    Raises:
        InputError: If the device is not available, or `settings.cuda_graph` is true and the step cannot be captured.
    """

    def __init__(
        self, model: Any, settings: TrainingConfig, initial_state: Callable[[int], State] | None = None
    ) -> None:
        self.device = pick_device(settings.device)
        self.model = model.to(self.device)
        self.settings, self.warmup, self.peak = settings, settings.warmup, settings.peak_learning_rate
        self.optimizers = make_optimizers(self.model, settings)
        self.parameters = [parameter for group in self.groups for parameter in group["params"]]
        self.autocast = autocast(settings, self.device)
        self.average = copy.deepcopy(self.model) if settings.ema_decay else None
        # Without clipping, the norm is still computed for the log.
        self.max_norm = settings.gradient_clip if settings.gradient_clip > 0 else math.inf
        self.initial_state = initial_state
        self.state: State | None = None
        self.steps = 0
        self.skipped_in_a_row = torch.zeros((), device=self.device)
        self.metric_names: tuple[str, ...] = ()
        # What changes from step to step: the rate of each group, and how far the average moves to the weights.
        self.rates = torch.zeros(len(self.groups), device=self.device).unbind()
        self.average_rate = torch.zeros((), device=self.device)
        self.captured = self._make_captured()

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The parameter groups of all optimisers."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def step(self, batch: Any) -> StepOutput:
        """One optimiser step on this process's rows of a batch, on `device`."""
        factor = self.schedule()
        self.steps += 1
        for group, rate in zip(self.groups, self.rates, strict=True):
            number, captured = group["initial_lr"] * factor, self.captured is not None
            group.update(lr=rate.fill_(number) if captured else number, capturable=captured)
        # At first the average spans a tenth of the steps taken, so that it soon forgets the initial weights.
        self.average_rate.fill_(1 - min(self.settings.ema_decay, (1 + self.steps) / (10 + self.steps)))
        loss, *metrics, norm, skipped = (self.captured or self._advance)(batch).unbind()
        return StepOutput(loss, norm, self.peak * factor, dict(zip(self.metric_names, metrics, strict=True)), skipped)

    def _advance(self, batch: Any) -> Tensor:
        """One step: the loss, the metrics, the gradient's norm and whether the step was skipped, in one tensor."""
        values, state = self._update(batch)
        # The stream has moved on: a state from before a skipped batch would belong to other episodes.
        if self.initial_state is not None and self.device.type == "cpu":
            self.state = None if values[-1] else state
        elif self.initial_state is not None:
            rows = len(batch[0])
            state = reset_rows(state, self.initial_state(rows), values[-1].bool().expand(rows))
            self.state = self.state or state
            for part, new in zip(self.state, state, strict=True):
                part.copy_(new)
        return values

    def _update(self, batch: Any) -> tuple[Tensor, State]:
        """Forward, backward and update: the values that `_advance` returns, and the state after the batch. Nothing is
        read from the device, except for Muon."""
        with self.autocast:
            output = self.model(batch, self.state)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        output.loss.backward()
        scalars = [scalar.detach() for scalar in (output.loss, *output.metrics.values())]
        scalars = average_gradients(self.parameters, scalars)
        norm = clip_grad_norm_(self.parameters, self.max_norm)

        skipped = (scalars[0] + norm).isfinite().logical_not().float()
        self.skipped_in_a_row.add_(1).mul_(skipped)
        for optimizer in self.optimizers:
            if getattr(optimizer, "_step_supports_amp_scaling", False):
                # Set as by torch.amp.GradScaler: if it is 1, neither weights nor the optimiser's state change.
                optimizer.found_inf = skipped  # type: ignore[attr-defined]
            elif skipped:
                continue
            optimizer.step()
        if self.average is not None:
            averages, weights = (list[Tensor](module.parameters()) for module in (self.average, self.model))
            with torch.no_grad():
                torch._foreach_lerp_(averages, weights, [self.average_rate * (1 - skipped)] * len(weights))
        self.metric_names = tuple(output.metrics)
        reported = torch.stack(scalars).masked_fill(skipped.bool(), math.nan)
        return torch.cat([reported, torch.stack([norm, skipped])]), tuple(map(Tensor.detach, output.state))

    def _make_captured(self) -> CapturedStep | None:
        """The step as a CUDA graph; None if it is to run eagerly."""
        fused = all(isinstance(optimizer, torch.optim.AdamW) for optimizer in self.optimizers)
        if self.device.type == "cuda" and world_size() == 1 and fused:
            required = self.settings.cuda_graph is True
            return CapturedStep(self._advance, required) if self.settings.cuda_graph else None
        if self.settings.cuda_graph is True:
            raise InputError("training.cuda_graph true needs CUDA, one process and training.optimizer adamw. Use auto.")
        return None

    def schedule(self) -> float:
        """The next step's factor of the rates: linear over the warm-up, then cosine decay to zero or constant."""
        if self.steps < self.warmup:
            return (self.steps + 1) / self.warmup
        if self.settings.schedule == "constant":
            return 1.0
        progress = (self.steps - self.warmup) / max(1, self.settings.steps - self.warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    @property
    def result(self) -> Any:
        """The trained module: with averaged weights if `ema_decay` is above 0, and with the model's current buffers."""
        if self.average is None:
            return self.model
        buffers = dict(self.model.named_buffers())
        for name, buffer in self.average.named_buffers():
            buffer.data = buffers[name].clone()  # statistics and counts are not averaged; caches may change size
        return self.average

    def state_dict(self) -> dict[str, Any]:
        """All that resumption needs besides the weights of `result` and the batches, of all processes."""
        cuda = torch.cuda.get_rng_state() if self.device.type == "cuda" else None
        everyone = gather(({"cpu": torch.get_rng_state(), "cuda": cuda}, [part.cpu() for part in self.state or ()]))
        return {
            "step": self.steps,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "model": self.model.state_dict() if self.average is not None else None,
            "state": [torch.cat(parts) for parts in zip(*(state for _, state in everyone), strict=True)],
            "random": [random for random, _ in everyone],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, before the first step; the weights of `result` come from the checkpoint's
        weights file. Another number of processes than that saved draws other random numbers."""
        if self.average is not None:
            self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.state = tuple(part[own_rows(len(part))].to(self.device) for part in state["state"]) or None
        for random in state["random"][rank() :][:1]:
            torch.set_rng_state(random["cpu"])
            if self.device.type == "cuda" and random["cuda"] is not None:
                torch.cuda.set_rng_state(random["cuda"])
        self.steps = state["step"]

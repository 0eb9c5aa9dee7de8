"""One training step: forward, backward, clipping, optimiser, schedule and moving average of the weights."""

import copy
import math
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.swa_utils import get_ema_multi_avg_fn

from decision_rnn.backbones import State
from decision_rnn.config import TrainingConfig
from decision_rnn.training.device import autocast, pick_device
from decision_rnn.training.optimizer import make_optimizers
from decision_rnn.utils.distributed import average_gradients, gather, own_rows, rank, world_size

Model = TypeVar("Model", bound=nn.Module)


class StepOutput(NamedTuple):
    """What a training step reports.

    Attributes:
        loss: The batch's loss, a scalar; NaN if the step was skipped.
        gradient_norm: The gradient's norm before clipping, a scalar.
        learning_rate: The rate of this step.
        metrics: The model's other scalars, by name; NaN if the step was skipped.
        skipped: Whether the loss or the gradient was not finite, so that the step changed no weight.
    """

    loss: Tensor
    gradient_norm: Tensor
    learning_rate: float
    metrics: Mapping[str, Tensor]
    skipped: bool


class Trainer(Generic[Model]):
    """A module with everything that a training step changes: optimisers, moving average and carried state.

    Args:
        model: `model(batch, state)` returns a `TrainingOutput`: the batch's loss, metrics, and the state after it. It
            is moved to the device.
        settings: Optimiser, schedule, device and precision. The caller decides on the number of steps and the batches.
        carry_state: Whether `state` is what the model returned for the previous batch, without its gradient (truncated
            backpropagation through time), and not always None.
    """

    def __init__(self, model: Model, settings: TrainingConfig, carry_state: bool = False) -> None:
        self.device = pick_device(settings.device)
        self.model = model.to(self.device)
        self.settings, self.warmup, self.peak = settings, settings.warmup, settings.peak_learning_rate
        self.optimizers = make_optimizers(self.model, settings)
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        self.parameters = [parameter for group in groups for parameter in group["params"]]
        self.autocast = autocast(settings, self.device)
        self.average = copy.deepcopy(self.model) if settings.ema_decay else None
        # Without clipping, the norm is still computed for the log.
        self.max_norm = settings.gradient_clip if settings.gradient_clip > 0 else math.inf
        self.carry_state, self.distributed = carry_state, world_size() > 1
        self.state: State | None = None
        self.steps = 0
        self.skipped_in_a_row = 0

    def step(self, batch: Any) -> StepOutput:
        """One optimiser step on this process's rows of a batch, on `device`."""
        factor = self.schedule()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] * factor

        with self.autocast:
            output = self.model(batch, self.state)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        output.loss.backward()
        scalars = [scalar.detach() for scalar in (output.loss, *output.metrics.values())]
        if self.distributed:
            scalars = average_gradients(self.parameters, scalars)
        norm = clip_grad_norm_(self.parameters, self.max_norm)

        self.steps += 1
        skipped = not math.isfinite(scalars[0] + norm)
        if skipped:
            # The stream has moved on: a state from before this batch would belong to other episodes.
            self.state = None
            self.skipped_in_a_row += 1
            scalars = [torch.full_like(scalar, math.nan) for scalar in scalars]
        else:
            self.state = tuple(map(Tensor.detach, output.state)) if self.carry_state else None
            self.skipped_in_a_row = 0
            for optimizer in self.optimizers:
                optimizer.step()
            if self.average is not None:
                # At first the average spans a tenth of the steps taken, so that it soon forgets the initial weights.
                decay = min(self.settings.ema_decay, (1 + self.steps) / (10 + self.steps))
                get_ema_multi_avg_fn(decay)(list(self.average.parameters()), list(self.model.parameters()), self.steps)
        loss, *metrics = scalars
        return StepOutput(loss, norm, self.peak * factor, dict(zip(output.metrics, metrics, strict=True)), skipped)

    def schedule(self) -> float:
        """The next step's factor of the rates: linear over the warm-up, then cosine decay to zero or constant."""
        if self.steps < self.warmup:
            return (self.steps + 1) / self.warmup
        if self.settings.schedule == "constant":
            return 1.0
        progress = (self.steps - self.warmup) / max(1, self.settings.steps - self.warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    @property
    def result(self) -> Model:
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
        """Restore what `state_dict` returned; the weights of `result` come from the checkpoint's weights file. Another
        number of processes than that saved draws other random numbers."""
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

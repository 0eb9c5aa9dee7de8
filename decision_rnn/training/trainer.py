"""One training step for any module that returns its loss: gradient, clipping, optimiser, schedule and precision."""

import copy
import math
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from decision_rnn.agent import TrainingOutput
from decision_rnn.backbones import State
from decision_rnn.config import TrainingConfig
from decision_rnn.training.optimizer import learning_rate_factor, optimizers
from decision_rnn.training.ranks import ALONE, Order, Ranks
from decision_rnn.utils.errors import InputError

Model = TypeVar("Model", bound=nn.Module)


class StepOutput(NamedTuple):
    """What a training step reports, without synchronising with the device.

    Attributes:
        loss: The batch's loss, a scalar; NaN if the step was skipped.
        gradient_norm: The gradient's norm before clipping, a scalar.
        metrics: The model's other scalars, by name; NaN if the step was skipped.
        skipped: Whether the loss or the gradient was not finite, so that the step changed nothing: 0 or 1, a scalar.
    """

    loss: Tensor
    gradient_norm: Tensor
    metrics: Mapping[str, Tensor]
    skipped: Tensor


class Trainer(Generic[Model]):
    """A module with its optimiser and schedule: everything that a training step changes.

    Args:
        model: `model(batch, state)` returns a `TrainingOutput`: the batch's loss, metrics, and the state after it.
            `state` is None or, if `settings.tbptt_segments` is above 1, what it returned for the previous batch. The
            model is moved to the device.
        settings: Settings of the optimiser, schedule, device and precision. The caller decides on the number of steps
            and the batches.
        ranks: This process's place among those that train the model, each on its own rows.
    """

    def __init__(self, model: Model, settings: TrainingConfig, ranks: Ranks = ALONE) -> None:
        self.ranks = ranks
        self.device = pick_device(settings.device)
        self.model = model.to(self.device)
        self.bf16 = settings.precision == "bf16" or (settings.precision == "auto" and multiplies_bf16(self.device))
        self.optimizers = optimizers(self.model, settings, self.bf16)
        factor = learning_rate_factor(settings)
        self.schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, factor) for optimizer in self.optimizers]
        self.parameters = [p for of in self.optimizers for group in of.param_groups for p in group["params"]]
        self.ema_decay = settings.ema_decay
        self.average = copy.deepcopy(self.model) if settings.ema_decay else None
        self.carries_state = (settings.tbptt_segments or 1) > 1
        self.carried: State | None = None
        self.skipped_in_a_row = torch.zeros((), device=self.device)
        # Without clipping, the norm is still computed for the log.
        self.max_norm = settings.gradient_clip if settings.gradient_clip > 0 else math.inf
        self.steps = 0

    def step(self, batch: Any) -> StepOutput:
        """One optimiser step on this process's rows of a batch, on `device`; skipped if the loss or the gradient is not
        finite."""
        self.ranks.order(Order.STEP)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            output: TrainingOutput = self.model(batch, self.carried)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        output.loss.backward()
        scalars = [scalar.detach() for scalar in (output.loss, *output.metrics.values())]
        loss, *metrics = self.ranks.average(self.model.parameters(), scalars)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.max_norm)
        finite = (loss + norm).isfinite()
        skipped = (~finite).float()
        self.skipped_in_a_row = (self.skipped_in_a_row + 1) * skipped
        if self.carries_state:
            parts = zip(output.state, self.carried or output.state, strict=True)
            self.carried = tuple(torch.where(finite, after, before).detach() for after, before in parts)
        for optimizer, schedule in zip(self.optimizers, self.schedules, strict=True):
            # It is read on the device, and nothing changes if it is 1, as under `torch.amp.GradScaler`.
            optimizer.found_inf = skipped  # type: ignore[attr-defined]
            optimizer.step()
            schedule.step()
        self.steps += 1
        if self.average is not None:
            # At first the average spans a tenth of the steps taken, so that it soon forgets the initial weights.
            decay = min(self.ema_decay, (1 + self.steps) / (10 + self.steps))
            get_ema_multi_avg_fn(decay)(list(self.average.parameters()), list(self.model.parameters()), self.steps)
        loss, *metrics = (scalar.where(finite, math.nan) for scalar in (loss, *metrics))
        return StepOutput(loss, norm, dict(zip(output.metrics, metrics, strict=True)), skipped)

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
        """All that resumption needs besides the weights of `result` and the batches, in tensors and plain types, of
        all processes; empty on those that follow."""
        self.ranks.order(Order.SAVE)
        random = {"random": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["random_cuda"] = torch.cuda.get_rng_state()
        everyone = self.ranks.gather((random, tuple(part.cpu() for part in self.carried or ())))
        if not everyone:
            return {}
        (random, carried), *others = everyone
        state = {
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedules": [schedule.state_dict() for schedule in self.schedules],
            "random_of_others": [random for random, _ in others],
            "step": self.steps,
            **random,
        }
        if self.average is not None:
            state["model"] = self.model.state_dict()
        if self.carried is not None:
            state["carried"] = tuple(map(torch.cat, zip(carried, *(rows for _, rows in others), strict=True)))
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` saved, of this process's rows; the weights of `result` come from the checkpoint's
        weights file. Another number of processes than that saved draws other random numbers."""
        if self.average is not None:
            self.model.load_state_dict(state["model"])
        # Version 0.2 had one of both.
        for optimizer, saved in zip(self.optimizers, state.get("optimizers") or [state["optimizer"]], strict=True):
            optimizer.load_state_dict(saved)
        for schedule, saved in zip(self.schedules, state.get("schedules") or [state["schedule"]], strict=True):
            schedule.load_state_dict(saved)
        if "carried" in state:
            self.carried = tuple(part[self.ranks.rows(len(part))].to(self.device) for part in state["carried"])
        for random in [state, *state.get("random_of_others", ())][self.ranks.rank :][:1]:
            torch.set_rng_state(random["random"])
            # The checkpoint may have been written on a machine without a GPU.
            if self.device.type == "cuda" and "random_cuda" in random:
                torch.cuda.set_rng_state(random["random_cuda"])
        self.steps = state["step"]


def pick_device(name: str) -> torch.device:
    """The device that `training.device` names; InputError if it is not available."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("training.device is cuda, but torch sees no CUDA device: use cpu or auto")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the processor multiplies bf16 natively; if not, bf16 is emulated and slower than fp32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    # With AMX or AVX512-BF16, a step in bf16 takes 0.6 of the time of one in fp32 (minGRU, width 128).
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()

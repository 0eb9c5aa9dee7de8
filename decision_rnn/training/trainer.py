"""One training step: gradient, clipping, optimiser, schedule and precision, of any module that returns its loss."""

import copy
import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from decision_rnn.backbones import State
from decision_rnn.config import TrainingConfig
from decision_rnn.errors import InputError
from decision_rnn.machine import keep_freed_memory, warn_of_spinning
from decision_rnn.training.optimizer import learning_rate_factor, optimizer_groups

Model = TypeVar("Model", bound=nn.Module)


class Trainer(Generic[Model]):
    """A module with its optimiser and its schedule: everything that a step changes.

    Args:
        model: `model(batch, state)` returns a batch's loss, a scalar, and the state after it; `state` is None, or what
            it returned for the batch before where `settings.carry` is above 1. It is moved to the device.
        settings: The optimiser's, and which device and precision. How many steps to take and on which batches is the
            caller's to decide.
    """

    def __init__(self, model: Model, settings: TrainingConfig) -> None:
        self.device = pick_device(settings.device)
        if self.device.type == "cpu":
            keep_freed_memory()
            warn_of_spinning()
        self.model = model.to(self.device)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        groups = optimizer_groups(model, settings.learning_rate, settings.weight_decay, settings.recurrent_rate)
        self.optimizer = torch.optim.AdamW(groups, fused=True)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, learning_rate_factor(settings))
        self.averaging = settings.averaging
        self.average = copy.deepcopy(self.model) if settings.averaging else None
        self.carry = (settings.carry or 1) > 1
        self.carried: State | None = None
        # Without a bound the norm is measured all the same, for the log.
        self.largest_norm = settings.gradient_clip if settings.gradient_clip > 0 else math.inf
        self.bf16 = settings.precision == "bf16" or (settings.precision == "auto" and multiplies_bf16(self.device))
        self.steps = 0

    def step(self, batch: Any) -> tuple[Tensor, Tensor]:
        """One optimiser step on a batch that lies on `device`; returns its loss and the gradient's norm before
        clipping, both without waiting for them."""
        with self._precision():
            loss, state = self.model(batch, self.carried)
        if self.carry:
            self.carried = tuple(part.detach() for part in state)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.largest_norm)
        self.optimizer.step()
        self.schedule.step()
        self.steps += 1
        if self.average is not None:
            # At first over the last tenth of the steps, lest the initial weights stay in a short run's average.
            decay = min(self.averaging, (1 + self.steps) / (10 + self.steps))
            get_ema_multi_avg_fn(decay)(list(self.average.parameters()), list(self.model.parameters()), self.steps)
        return loss.detach(), norm

    @property
    def result(self) -> Model:
        """What training has come to: the module with its averaged weights, where those are asked for, and its
        buffers as they are."""
        if self.average is None:
            return self.model
        buffers = dict(self.model.named_buffers())
        for name, buffer in self.average.named_buffers():
            buffer.data = buffers[name].clone()  # statistics and counts are kept, not averaged; caches may grow
        return self.average

    def state_dict(self) -> dict[str, Any]:
        """All that resumed training needs beside `result`'s weights and the batches, in tensors and plain types."""
        state = {
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random": torch.get_rng_state(),
            "step": self.steps,
        }
        if self.average is not None:
            state["model"] = self.model.state_dict()
        if self.carried is not None:
            state["carried"] = self.carried
        if self.device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken; the weights of `result` come from the checkpoint's own file."""
        if self.average is not None:
            self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        if "carried" in state:
            self.carried = tuple(part.to(self.device) for part in state["carried"])
        torch.set_rng_state(state["random"])
        if self.device.type == "cuda" and "random_cuda" in state:  # it may have begun where there was no GPU
            torch.cuda.set_rng_state(state["random_cuda"])
        self.steps = state["step"]

    def _precision(self) -> AbstractContextManager[None]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()


def pick_device(name: str) -> torch.device:
    """The device that `training.device` asks for; InputError if there is none."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("training.device is cuda, but torch sees no CUDA device: use cpu or auto")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the processor multiplies bf16 itself: elsewhere bf16 is emulated and slower than fp32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    # A training step in bf16 takes 0.6 of one in fp32 by AMX as by AVX512-BF16 (minGRU, width 128).
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()

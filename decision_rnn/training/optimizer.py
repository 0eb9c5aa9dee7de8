"""What the optimiser does with each parameter, and at which rate."""

import math
from collections.abc import Callable
from typing import Any

from torch import nn

from decision_rnn.backbones import SequenceMixer
from decision_rnn.config import TrainingConfig


def optimizer_groups(
    model: nn.Module, learning_rate: float, weight_decay: float, recurrent_rate: float
) -> list[dict[str, Any]]:
    """AdamW's parameter groups: matrices decay; biases, norms and the recurrence's own parameters do not, and
    the latter learn at `recurrent_rate` times the rate (Orvieto et al. 2023, appendix B)."""
    mixers = (module for module in model.modules() if isinstance(module, SequenceMixer))
    # A stack lists its mixers' parameters too: each is taken once, at its first place.
    recurrent = list(dict.fromkeys(p for mixer in mixers for p in mixer.recurrent_parameters()))
    known = {id(p) for p in recurrent}
    others = [p for p in model.parameters() if id(p) not in known]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in others if p.dim() >= 2], "lr": learning_rate, "weight_decay": weight_decay},
        {"params": [p for p in others if p.dim() < 2], "lr": learning_rate, "weight_decay": 0.0},
        {"params": recurrent, "lr": learning_rate * recurrent_rate, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def learning_rate_factor(settings: TrainingConfig) -> Callable[[int], float]:
    """The schedule: a linear rise over the warm-up, then cosine to zero or constant, as a factor of the rate."""
    warmup, steps = settings.warmup_steps, settings.steps
    assert warmup is not None  # TrainingConfig puts a number there

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        if settings.schedule == "constant":
            return 1.0
        progress = (step - warmup) / max(1, steps - warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    return factor

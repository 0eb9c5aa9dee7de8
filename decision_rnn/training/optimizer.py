"""The optimisers, their parameter groups and the learning rate schedule."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from decision_rnn.backbones import SequenceMixer
from decision_rnn.config import TrainingConfig
from decision_rnn.training.muon import Muon


def optimizers(model: nn.Module, settings: TrainingConfig, bf16: bool) -> list[torch.optim.Optimizer]:
    """AdamW or, with `settings.optimizer` `muon`, that and Muon for the matrices of sequence mixers.

    Args:
        model: A module with any number of sequence mixers.
        settings: The optimiser, its rates and weight decay.
        bf16: Whether Muon's products are in bf16.
    """
    groups = optimizer_groups(model, settings.peak_learning_rate, settings.weight_decay, settings.recurrent_rate)
    chosen: list[torch.optim.Optimizer] = []
    if settings.optimizer == "muon":
        mixers = (module for module in model.modules() if isinstance(module, SequenceMixer))
        inner = {p for mixer in mixers for p in mixer.parameters() if p.dim() == 2}
        hidden = [p for p in groups[0]["params"] if p in inner]
        if hidden:
            dtype = torch.bfloat16 if bf16 else torch.float32
            chosen.append(Muon([{**groups[0], "params": hidden}], settings.peak_learning_rate, dtype=dtype))
            groups[0]["params"] = [p for p in groups[0]["params"] if p not in inner]
    return [torch.optim.AdamW([group for group in groups if group["params"]], fused=True), *chosen]


def optimizer_groups(
    model: nn.Module, learning_rate: float, weight_decay: float, recurrent_rate: float | None = None
) -> list[dict[str, Any]]:
    """AdamW's parameter groups: matrices get weight decay; biases, norms and recurrences' own parameters do not.

    Parameters that need no gradient are left out.

    Args:
        model: A module with any number of sequence mixers.
        learning_rate: Learning rate of all parameters but the recurrences' own.
        weight_decay: Weight decay of matrices.
        recurrent_rate: Learning rate of the recurrences' own parameters, as a multiple of `learning_rate`; if left out,
            each mixer's `recurrent_learning_rate`.
    """
    rates: dict[nn.Parameter, float] = {}
    for mixer in model.modules():
        if isinstance(mixer, SequenceMixer):
            own = mixer.recurrent_learning_rate(learning_rate)
            rate = own if recurrent_rate is None else learning_rate * recurrent_rate
            # A stack comes before its mixers and yields their parameters too: the mixer's own rate overrides.
            rates.update(dict.fromkeys(mixer.recurrent_parameters(), rate))
    others = [p for p in model.parameters() if p.requires_grad and p not in rates]
    # The order matters: saved optimiser states refer to parameters by their position in the groups.
    groups: list[dict[str, Any]] = [
        {"params": [p for p in others if p.dim() >= 2], "lr": learning_rate, "weight_decay": weight_decay},
        {"params": [p for p in others if p.dim() < 2], "lr": learning_rate, "weight_decay": 0.0},
    ]
    for rate in dict.fromkeys(rates.values()):
        recurrent = [p for p, own in rates.items() if own == rate and p.requires_grad]
        groups.append({"params": recurrent, "lr": rate, "weight_decay": 0.0})
    return [group for group in groups if group["params"]]


def learning_rate_factor(settings: TrainingConfig) -> Callable[[int], float]:
    """The schedule as a factor of the rate: linear over the warm-up, then cosine decay to zero or constant."""
    warmup, steps = settings.warmup, settings.steps
    assert warmup is not None  # TrainingConfig fills it in

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        if settings.schedule == "constant":
            return 1.0
        progress = (step - warmup) / max(1, steps - warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    return factor

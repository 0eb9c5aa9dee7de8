"""The optimisers and their parameter groups."""

from typing import Any

import torch
from torch import nn

from decision_rnn.backbones import SequenceMixer
from decision_rnn.config import TrainingConfig


def make_optimizers(model: nn.Module, settings: TrainingConfig) -> list[torch.optim.Optimizer]:
    """AdamW or, if `settings.optimizer` is `muon`, AdamW and Muon for the matrices of the sequence mixers.

    Muon (Jordan et al. 2024) has updates whose singular values are near 1. They are scaled to the size of AdamW's (Liu
    et al., "Muon is Scalable for LLM Training", 2025, equation 4), so that both have the same unit of learning rate.
    """
    rate = settings.peak_learning_rate
    groups = optimizer_groups(model, rate, settings.weight_decay)
    matrices = mixer_matrices(model) if settings.optimizer == "muon" else set()
    hidden = [parameter for parameter in groups[0]["params"] if parameter in matrices]
    groups[0]["params"] = [parameter for parameter in groups[0]["params"] if parameter not in matrices]
    adamw = torch.optim.AdamW([group for group in groups if group["params"]], fused=True)
    optimizers: list[torch.optim.Optimizer] = [adamw]
    if hidden:
        options: dict[str, Any] = {"momentum": 0.95, "nesterov": True, "adjust_lr_fn": "match_rms_adamw"}
        optimizers.append(torch.optim.Muon(hidden, rate, settings.weight_decay, **options))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]  # `Trainer.step` multiplies it by the schedule
    return optimizers


def mixer_matrices(model: nn.Module) -> set[nn.Parameter]:
    """The matrices of linear maps in sequence mixers; other tables, such as the taps of a convolution, have no singular
    values of their own."""
    return {
        parameter
        for mixer in model.modules()
        if isinstance(mixer, SequenceMixer)
        for module in mixer.modules()
        if isinstance(module, nn.Linear | nn.RNNBase)
        for parameter in module.parameters(recurse=False)
        if parameter.dim() == 2
    }


def optimizer_groups(model: nn.Module, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
    """AdamW's parameter groups: matrices get weight decay; biases, norms and recurrences' own parameters do not.

    The learning rate is that of all parameters but the recurrences' own, whose rate is each mixer's
    `recurrent_learning_rate`.
    """
    rates = {
        parameter: mixer.recurrent_learning_rate(learning_rate)
        for mixer in model.modules()
        if isinstance(mixer, SequenceMixer)
        for parameter in mixer.recurrent_parameters()
    }
    others = [parameter for parameter in model.parameters() if parameter.requires_grad and parameter not in rates]
    # The order matters: saved optimiser states refer to parameters by their position in the groups.
    groups: list[dict[str, Any]] = [
        {"params": [p for p in others if p.dim() >= 2], "lr": learning_rate, "weight_decay": weight_decay},
        {"params": [p for p in others if p.dim() < 2], "lr": learning_rate, "weight_decay": 0.0},
    ]
    for rate in dict.fromkeys(rates.values()):
        recurrent = [p for p, own in rates.items() if own == rate and p.requires_grad]
        groups.append({"params": recurrent, "lr": rate, "weight_decay": 0.0})
    return [group for group in groups if group["params"]]

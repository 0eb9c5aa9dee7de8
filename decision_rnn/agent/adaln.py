"""Adaptive layer norm, by which a condition enters after the backbone."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones import Backbone
from decision_rnn.backbones.contract import without_autocast
from decision_rnn.backbones.mlp import MLPConfig


class AdaptiveLayerNorm(nn.Module):
    """Modulates hidden states by the condition: h + mlp(norm(h) * (1 + scale) + shift), with scale and shift from the
    condition (Peebles & Xie, "Scalable Diffusion Models with Transformers" (2023)).

    If it is `optional`, a learned vector takes the place of its embedding where it is None or `dropped`, which
    broadcasts to (..., 1).

    With `layers`, hidden states go through a stack of so many blocks of MLPs first, together with the embedding.
    """

    none: Tensor

    def __init__(self, size: int, width: int, optional: bool = False, layers: int = 0) -> None:
        super().__init__()
        self.stack = Backbone(MLPConfig(width=width, layers=layers)) if layers else None
        self.register_parameter("none", nn.Parameter(torch.ones(width)) if optional else None)
        self.embed = nn.Linear(size, width)
        self.modulate = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, value: Tensor | None, hidden: Tensor, dropped: Tensor | None = None) -> Tensor:
        with without_autocast(hidden):  # bfloat16 would round the condition
            embedded = self.none if value is None else self.embed(value)
            if dropped is not None:
                embedded = torch.where(dropped, self.none, embedded)
            scale, shift = self.modulate(F.relu(embedded)).chunk(2, dim=-1)
        if self.stack is not None:
            hidden, _ = self.stack(hidden + embedded)
        return hidden + self.mlp(self.norm(hidden) * (1 + scale) + shift)

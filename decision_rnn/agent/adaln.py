"""Adaptive layer norm, by which a condition enters after the backbone."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import without_autocast


class AdaptiveLayerNorm(nn.Module):
    """Modulates hidden states by the condition: h + mlp(norm(h) * (1 + scale) + shift), with scale and shift from the
    condition (Peebles & Xie, "Scalable Diffusion Models with Transformers" (2023)).

    If it is `optional`, a learned vector takes the place of its embedding where it is None or `dropped`, which
    broadcasts to (..., 1).
    """

    none: Tensor

    def __init__(self, size: int, width: int, optional: bool = False) -> None:
        super().__init__()
        self.register_parameter("none", nn.Parameter(torch.zeros(width)) if optional else None)
        self.embed = nn.Linear(size, width)
        self.modulate = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, value: Tensor | None, hidden: Tensor, dropped: Tensor | None = None) -> Tensor:
        with without_autocast(hidden):  # bfloat16 would round the condition
            embedded = self.none if value is None else F.relu(self.embed(value))
            if dropped is not None:
                embedded = torch.where(dropped, self.none, embedded)
            scale, shift = self.modulate(embedded).chunk(2, dim=-1)
        return hidden + self.mlp(self.norm(hidden) * (1 + scale) + shift)

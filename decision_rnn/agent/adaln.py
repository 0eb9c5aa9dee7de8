"""Adaptive layer norm, by which a condition enters after the backbone."""

import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import without_autocast


class AdaptiveLayerNorm(nn.Module):
    """Modulates hidden states by the condition: h + mlp(norm(h) * (1 + scale) + shift), with scale and shift from the
    condition (Peebles & Xie, "Scalable Diffusion Models with Transformers" (2023))."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(size, width)
        self.modulate = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, value: Tensor, hidden: Tensor) -> Tensor:
        with without_autocast(hidden):  # bfloat16 would round the condition
            scale, shift = self.modulate(F.relu(self.embed(value))).chunk(2, dim=-1)
        return hidden + self.mlp(self.norm(hidden) * (1 + scale) + shift)

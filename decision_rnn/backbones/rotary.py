"""Rotary positions: pairs of coordinates turned by an angle that grows with the place (RoFormer, equation 34)."""

import torch
from torch import Tensor


def rotary_table(length: int, width: int) -> tuple[Tensor, Tensor]:
    """cos and sin of place * 10000^(-2i / width), each (length, width / 2)."""
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn (..., width) by the angles whose cos and sin, (..., width / 2), are given; the width's first half holds
    the first coordinate of every pair, its second half the other."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)

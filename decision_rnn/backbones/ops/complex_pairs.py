"""Complex numbers as pairs of real ones, and the rotations by which attention encodes positions."""

import torch
from torch import Tensor

ComplexPair = tuple[Tensor, ...]
"""The real and the imaginary part of complex numbers."""


def product(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """The product of complex numbers."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def rotary_table(length: int, width: int) -> Tensor:
    """cos and sin of position * 10000^(-2i / width), (2, length, width / 2) float64, as in RoFormer, equation 34."""
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return torch.stack([angle.cos(), angle.sin()])


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Rotate every pair of neighbours in x, (..., width), by angles with these cos and sin, (2, ..., width / 2).

    Computed as a product of complex numbers: one pass forward and one backward, which on a CPU takes less than half
    the time of real arithmetic. Half precision is widened for the product; the result has the dtype of x.
    """
    wide = _widened(x)
    turn = torch.complex(*table.to(wide.dtype))
    turned = torch.view_as_complex(wide.unflatten(-1, (-1, 2))) * turn
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)


def rotate_step(x: Tensor, table: Tensor) -> Tensor:
    """`rotate` in real arithmetic, for `step`: complex numbers cannot be exported."""
    wide = _widened(x)
    pairs = wide.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack(product(pairs, table.to(wide.dtype).unbind()), dim=-1).flatten(-2).to(x.dtype)


def _widened(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x

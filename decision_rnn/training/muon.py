"""Muon, an optimiser for matrices, whose updates have singular values near 1.

Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024, https://kellerjordan.github.io/posts/muon/),
with the scale of Liu et al., "Muon is Scalable for LLM Training" (2025, arXiv 2502.16982, equation 4), so that the rate
is in units of AdamW's:

    m_t = mu m_{t-1} + (1 - mu) g_t
    O_t = about U V' of (1 - mu) g_t + mu m_t = U S V'
    W_t = W_{t-1} - rate (0.2 sqrt(max(rows, columns)) O_t + decay W_{t-1})
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic Newton-Schulz iteration; chosen by its authors for the steepest slope at 0, it leaves singular values
between 0.7 and 1.2."""
ITERATIONS = 5
SMALLEST_NORM = 1e-7


class Muon(torch.optim.Optimizer):
    """Equal to `torch.optim.Muon` within rounding; unlike it, matrices of one shape are one product, the products need
    not be in bf16, which some processors are slow at, and a step may be skipped without reading from the device.

    Args:
        params: Matrices, or groups of them.
        lr: The rate.
        weight_decay: The decay.
        momentum: mu.
        dtype: Of the products.
    """

    found_inf: Tensor | None = None
    """1 to skip steps, as for torch's fused optimisers under `torch.amp.GradScaler`; 0 or None to take them."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step, on the matrices that have a gradient."""
        assert closure is None
        for group in self.param_groups:
            momentum = group["momentum"]
            alike: defaultdict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(matrix)
                mean = state["momentum"]
                gradient = matrix.grad if self.found_inf is None else mean.where(self.found_inf > 0, matrix.grad)
                mean.lerp_(gradient, 1 - momentum)
                alike[tuple(sorted(matrix.shape))].append((matrix, gradient.lerp(mean, momentum)))
            taken = 1.0 if self.found_inf is None else 1 - self.found_inf
            for shape, updates in alike.items():
                wide = torch.stack([_wide(update) for _, update in updates])
                orthogonal = orthogonalize(wide.to(self.dtype)) * (0.2 * math.sqrt(shape[-1]))
                for (matrix, _), update in zip(updates, orthogonal, strict=True):
                    change = _wide(matrix) * group["weight_decay"] + update
                    _wide(matrix).sub_(change * (group["lr"] * taken))


def orthogonalize(matrices: Tensor) -> Tensor:
    """About U V' of each of (n, rows, columns) matrices U S V', with no more rows than columns."""
    a, b, c = COEFFICIENTS
    x = matrices / torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True).clamp(min=SMALLEST_NORM)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _wide(matrix: Tensor) -> Tensor:
    """The matrix, or its transpose, with no more rows than columns."""
    return matrix.mT if matrix.shape[0] > matrix.shape[1] else matrix

"""Mamba's scan, as a loop with a hand-written gradient and as a linear recurrence, against a loop in float64."""

import pytest
import torch
from torch import Tensor

from decision_rnn.backbones.ops.selective_scan import selective_scan, stored_scan

BATCH, TIME, INNER, SIZE = 3, 7, 5, 4


def inputs() -> tuple[Tensor, ...]:
    """dt, a, u, b, c and the initial h."""
    generator = torch.Generator().manual_seed(0)
    shapes = (
        (BATCH, TIME, INNER),
        (INNER, SIZE),
        (BATCH, TIME, INNER),
        *[(BATCH, TIME, SIZE)] * 2,
        (BATCH, INNER, SIZE),
    )
    dt, a, *others = (torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes)
    return tuple(x.requires_grad_() for x in (dt.abs(), -a.abs(), *others))


def naive(dt: Tensor, a: Tensor, u: Tensor, b: Tensor, c: Tensor, h: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Algorithm 2 of Gu & Dao (2023), one number after the other."""
    outputs = []
    for row in range(BATCH):
        state = [[h[row, d, n] for n in range(SIZE)] for d in range(INNER)]
        for t in range(TIME):
            for d in range(INNER):
                for n in range(SIZE):
                    before = 0 if mask[row, t] else state[d][n]
                    state[d][n] = torch.exp(dt[row, t, d] * a[d, n]) * before + u[row, t, d] * b[row, t, n]
                outputs.append(sum(state[d][n] * c[row, t, n] for n in range(SIZE)))
        outputs += [state[d][n] for d in range(INNER) for n in range(SIZE)]
    found = torch.stack(outputs).view(BATCH, -1)
    return found[:, : TIME * INNER].view(BATCH, TIME, INNER), found[:, TIME * INNER :].view(BATCH, INNER, SIZE)


@pytest.mark.parametrize("scan", [selective_scan, stored_scan])
@pytest.mark.parametrize("places", [[], [(0, 0), (1, 3), (1, 4), (2, 6)]])
def test_selective_scan_and_its_gradients_are_those_of_a_loop_in_float64(scan, places) -> None:
    mask = torch.zeros(BATCH, TIME, dtype=torch.bool)
    for row, step in places:
        mask[row, step] = True
    given = inputs()
    expected, found = naive(*given, mask), scan(*given, mask)
    weights = [torch.linspace(-1, 1, x.numel(), dtype=torch.float64).view_as(x) for x in expected]
    gradients = [
        torch.autograd.grad(sum((x * weight).sum() for x, weight in zip(outputs, weights, strict=True)), given)
        for outputs in (expected, found)
    ]
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients[1], gradients[0])

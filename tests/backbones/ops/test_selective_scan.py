"""Mamba's scan, as a loop with a hand-written gradient and as a linear recurrence, against a loop over numbers."""

import pytest
import torch

from decision_rnn.backbones.mamba import selective_scan, stored_scan
from decision_rnn.backbones.testing import noise

BATCH, TIME, INNER, SIZE = 3, 7, 5, 4


def inputs():
    """dt, a, u, b, c and the initial h."""
    steps, maps = (BATCH, TIME, INNER), (BATCH, TIME, SIZE)
    shapes = (steps, (INNER, SIZE), steps, maps, maps, (BATCH, INNER, SIZE))
    dt, a, *others = (noise(*shape, seed=seed) for seed, shape in enumerate(shapes))
    return tuple(x.requires_grad_() for x in (dt.abs(), -a.abs(), *others))


def naive(dt, a, u, b, c, h, reset):
    """Algorithm 2 of Gu & Dao (2023), one number after the other."""
    y, last = [], []
    for row in range(BATCH):
        state = [list(channel) for channel in h[row]]
        for t in range(TIME):
            for d in range(INNER):
                for n in range(SIZE):
                    before = 0 if reset[row, t] else state[d][n]
                    state[d][n] = torch.exp(dt[row, t, d] * a[d, n]) * before + u[row, t, d] * b[row, t, n]
                y.append(sum(state[d][n] * c[row, t, n] for n in range(SIZE)))
        last += [number for channel in state for number in channel]
    return torch.stack(y).view(BATCH, TIME, INNER), torch.stack(last).view(BATCH, INNER, SIZE)


@pytest.mark.parametrize("scan", [selective_scan, stored_scan])
@pytest.mark.parametrize("places", [[], [(0, 0), (1, 3), (1, 4), (2, 6)]])
def test_selective_scan_and_its_gradients_equal_a_loop(scan, places):
    reset = torch.zeros(BATCH, TIME, dtype=torch.bool)
    for row, step in places:
        reset[row, step] = True
    leaves = inputs()
    expected, found = naive(*leaves, reset), scan(*leaves, reset)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(y, leaves, [noise(*part.shape) for part in y]) for y in (expected, found)]
    torch.testing.assert_close(grads[1], grads[0])

"""`fill_steps`, which mixers share."""

import pytest
import torch

from decision_rnn.backbones.ops.segments import fill_steps


@pytest.mark.parametrize("marked", [[], [(0, 0)], [(1, 2), (1, 3), (0, 4)]])
@pytest.mark.parametrize("channels", [(), (3,), (2, 3)])
def test_fill_steps_fills_marked_steps_without_modifying_its_argument(marked, channels):
    x = torch.arange(10 * 2.0 * 3).view(2, 5, 2, 3)[(..., *[0] * (2 - len(channels)))].clone()
    before, where = x.clone(), torch.zeros(2, 5, dtype=torch.bool)
    for row, t in marked:
        where[row, t] = True
    filled = fill_steps(x, where, -7)
    for row in range(2):
        for t in range(5):
            expected = torch.full_like(before[row, t], -7) if (row, t) in marked else before[row, t]
            assert torch.equal(filled[row, t], expected)
    assert torch.equal(x, before)


def test_fill_steps_gives_filled_steps_no_gradient():
    x = torch.ones(1, 3, 2, requires_grad=True)
    fill_steps(x, torch.tensor([[False, True, False]]), 0).sum().backward()
    assert x.grad is not None
    assert x.grad[0, :, 0].tolist() == [1, 0, 1]

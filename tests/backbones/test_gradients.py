"""Gradients of whole layers by finite differences, also where autograd passes none; and second derivatives, which are
right or refused."""

from functools import partial

import pytest
import torch
from subjects import WIDTH, subjects

from decision_rnn import linear_recurrence
from decision_rnn.backbones import BACKBONES
from decision_rnn.backbones.contract import run_stepwise
from decision_rnn.backbones.testing import noise

RESETS = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 1]], dtype=torch.bool)


@pytest.mark.parametrize("name", BACKBONES.names())
def test_first_and_second_derivatives_of_a_layer(name):
    """Second ones with a constant incoming gradient too, as that of a sum, for which autograd does not notice what is
    missing. `step` has both."""
    module, x = subjects(name)[0].build(), noise(2, 4, WIDTH).requires_grad_()
    with torch.no_grad():
        _, state = run_stepwise(module, noise(2, 3, WIDTH, seed=1))
    forward, stepped = (lambda x, run=run: run(x, state, RESETS)[0] for run in (module, partial(run_stepwise, module)))
    assert torch.autograd.gradcheck(forward, x, check_undefined_grad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(stepped, x, fast_mode=True)
    try:
        torch.autograd.grad(forward(x).sum(), x, create_graph=True)
    except NotImplementedError:
        return
    assert torch.autograd.gradgradcheck(forward, x, fast_mode=True)


def test_second_derivative_of_linear_recurrence_is_refused():
    a, b, h = (part.requires_grad_() for part in (noise(2, 3, 2), noise(2, 3, 2, seed=1), noise(2, 2, seed=2)))
    with pytest.raises(NotImplementedError):
        torch.autograd.grad(linear_recurrence(a, b, h).sum(), a, create_graph=True)

"""Gradients of whole layers by finite differences, also where autograd passes none; and second derivatives, which are
right or refused."""

import pytest
import torch
from subjects import WIDTH, Subject, subjects

from decision_rnn import linear_recurrence
from decision_rnn.backbones import registered_names
from decision_rnn.backbones.contract import steps
from decision_rnn.testing import noise

RESETS = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 1]], dtype=torch.bool)


def layer(subject: Subject):
    """The outputs as a function of x, after a state, with resets; and x."""
    module = subject.build()
    with torch.no_grad():
        _, state = steps(module, noise(2, 3, WIDTH, seed=1))
    return lambda x: module(x, state, RESETS)[0], noise(2, 4, WIDTH).requires_grad_()


@pytest.mark.parametrize("subject", [subjects(name)[0] for name in registered_names()], ids=str)
def test_layer_passes_gradcheck_also_with_undefined_gradients(subject):
    run, x = layer(subject)
    assert torch.autograd.gradcheck(run, x, check_undefined_grad=True, fast_mode=True)


@pytest.mark.parametrize("name", registered_names())
def test_second_derivatives_of_a_layer_are_right_or_refused(name):
    """With a constant incoming gradient too, as that of a sum, for which autograd does not notice what is missing."""
    run, x = layer(subjects(name)[0])
    try:
        torch.autograd.grad(run(x).sum(), x, create_graph=True)
    except NotImplementedError:
        return
    assert torch.autograd.gradgradcheck(run, x, fast_mode=True)


@pytest.mark.parametrize("name", registered_names())
def test_steps_of_every_layer_have_second_derivatives(name):
    module, x = subjects(name)[0].build(), noise(2, 3, WIDTH).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: steps(module, x, None, RESETS[:, :3])[0], x, fast_mode=True)


def test_second_derivative_of_linear_recurrence_is_refused():
    a, b, h = (part.requires_grad_() for part in (noise(2, 3, 2), noise(2, 3, 2, seed=1), noise(2, 2, seed=2)))
    with pytest.raises(NotImplementedError):
        torch.autograd.grad(linear_recurrence(a, b, h).sum(), a, create_graph=True)

"""Gradients of whole layers by finite differences, also where autograd passes none."""

import pytest
import torch
from subjects import WIDTH, subjects

from decision_rnn.backbones import BACKBONES
from decision_rnn.backbones.contract import steps
from decision_rnn.backbones.testing import noise

RESETS = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 1]], dtype=torch.bool)


@pytest.mark.parametrize("name", BACKBONES.names())
def test_derivative_of_a_layer_equals_finite_differences(name):
    module, x = subjects(name)[0].build(), noise(2, 4, WIDTH).requires_grad_()
    with torch.no_grad():
        _, state = steps(module, noise(2, 3, WIDTH, seed=1))
    assert torch.autograd.gradcheck(lambda x: module(x, state, RESETS)[0], x, check_undefined_grad=True, fast_mode=True)

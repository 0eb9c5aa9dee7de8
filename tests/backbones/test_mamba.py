"""Mamba: its initialisation and the window of its convolution. test_law.py tests its equations."""

import pytest
import torch
from subjects import WIDTH

from decision_rnn.backbones import registered
from decision_rnn.testing import noise


def make(**options):
    torch.manual_seed(0)
    return registered("mamba").cls(registered("mamba").config(**{"width": WIDTH} | options)).double()


def test_mamba_initialisation():
    mixer = make(width=2000, state_size=3)
    assert (-torch.exp(mixer.a_log)).unique(dim=0).tolist() == [pytest.approx([-1, -2, -3])]
    assert mixer.d.unique().tolist() == [1]
    assert mixer.dt.in_features == 125


@pytest.mark.parametrize("kernel", [2, 4])
def test_mamba_convolution_sees_kernel_steps(kernel):
    """With a state that forgets at once (A far below 0), x reaches kernel - 1 steps ahead and no further."""
    mixer, time = make(kernel=kernel), 12
    with torch.no_grad():
        mixer.a_log.fill_(20.0)
    x = noise(1, time, WIDTH).requires_grad_()
    (grad,) = torch.autograd.grad(mixer(x)[0][0, -1].sum(), x)
    assert grad[0].abs().amax(-1).gt(0).tolist() == [t >= time - kernel for t in range(time)]


def test_mamba_recurrent_parameters():
    mixer = make()
    assert [id(p) for p in mixer.recurrent_parameters()] == [id(mixer.a_log)]

"""H3: its parts against torch's convolution and the layer S4D. test_contract.py tests its equations."""

import torch
import torch.nn.functional as F

from decision_rnn.backbones import registered
from decision_rnn.testing import add_noise, assert_near, noise

WIDTH, TIME = 8, 20


def make(**options):
    torch.manual_seed(0)
    return add_noise(registered("h3").cls(registered("h3").config(width=WIDTH, **options))).double()


def test_h3_equals_a_convolution_and_the_impulse_responses_of_its_state_space():
    """Both as convolutions over the whole sequence, as in the paper; the second one's kernel as Re(C A^j B) 2."""
    mixer, x = make(state_size=6), noise(2, TIME, WIDTH)
    q, k, v = mixer.qkv(x).transpose(1, 2).chunk(3, dim=1)
    p = F.conv1d(F.pad(k, (3, 0)), mixer.shift[:, None], groups=WIDTH) * v
    diagonal = mixer.diagonal
    a = torch.complex(-torch.exp(diagonal.a_log), diagonal.a_imag)
    dt = torch.exp(diagonal.dt_log)[:, None]
    readout = torch.view_as_complex(diagonal.c) * (torch.exp(dt * a) - 1) / a
    age = torch.arange(TIME)
    kernel = 2 * (readout[..., None] * torch.exp(dt * a)[..., None] ** age).sum(1).real
    kernel[:, 0] += mixer.d
    y = F.conv1d(F.pad(p, (TIME - 1, 0)), kernel.flip(1)[:, None], groups=WIDTH)
    assert_near(mixer(x)[0], mixer.output((q * y).transpose(1, 2)), 1e-11, "output")


def test_h3_recurrent_parameters_are_those_of_its_state_space_at_most_at_1e_3():
    mixer = make(state_size=6)
    assert [id(p) for p in mixer.recurrent_parameters()] == [id(p) for p in mixer.diagonal.recurrent_parameters()]
    assert mixer.recurrent_learning_rate(1e-2) == 1e-3

"""S4D: its initialisation, and its discretisation against the continuous system solved by a matrix exponential."""

import math

import pytest
import torch

from decision_rnn.backbones import registered
from decision_rnn.testing import assert_near, noise

WIDTH = 4


def make(**options):
    torch.manual_seed(0)
    return registered("s4d").cls(registered("s4d").config(**{"width": WIDTH} | options)).double()


def eigenvalues(mixer):
    return torch.complex(-torch.exp(mixer.a_log), mixer.a_imag).detach()


@pytest.mark.parametrize(
    ("start", "value"),
    [
        ("lin", lambda n: complex(-0.5, math.pi * n)),
        ("inv", lambda n: complex(-0.5, 16 / math.pi * (16 / (2 * n + 1) - 1))),
        ("real", lambda n: complex(-(n + 1), 0)),
    ],
)
def test_s4d_start_option_sets_the_initial_eigenvalues(start, value):
    right = torch.tensor([value(n) for n in range(8)], dtype=torch.complex128)
    torch.testing.assert_close(
        eigenvalues(make(state_size=16, start=start)), right.repeat(WIDTH, 1), rtol=1e-6, atol=1e-6
    )


def test_s4d_equals_continuous_system_with_zero_order_hold():
    """x' = A x + u with u constant over dt, both conjugate halves, by exp of [[A, 1], [0, 0]] dt."""
    mixer, time = make(state_size=6), 5
    u, a = noise(1, time, WIDTH), eigenvalues(mixer)
    c, dt = torch.view_as_complex(mixer.c.detach()), torch.exp(mixer.dt_log.detach())
    s = torch.empty(1, time, WIDTH, dtype=torch.float64)
    for channel in range(WIDTH):
        both = torch.cat([a[channel], a[channel].conj()])
        generator = torch.zeros(7, 7, dtype=torch.complex128)
        generator[:6, :6], generator[:6, 6] = torch.diag(both), 1
        flow, x = torch.linalg.matrix_exp(generator * dt[channel]), torch.zeros(6, dtype=torch.complex128)
        for t in range(time):
            x = flow[:6, :6] @ x + flow[:6, 6] * u[0, t, channel]
            s[0, t, channel] = (torch.cat([c[channel], c[channel].conj()]) @ x).real
    s = s + mixer.d * u
    value, gate = mixer.output(torch.nn.functional.gelu(s)).chunk(2, dim=-1)
    assert_near(mixer(u)[0], value * torch.sigmoid(gate), 1e-12, "output")


def test_s4d_with_tiny_step_size_is_accurate_in_float32():
    """exp(dt A) - 1 with dt = 1e-6."""
    mixer, x = make(state_size=6), noise(1, 3, WIDTH)
    with torch.no_grad():
        mixer.dt_log.fill_(math.log(1e-6))
        mixer.c.mul_(1e6)
        mixer.d.zero_()
    right, _ = mixer(x)
    narrow = mixer.float()
    assert_near(narrow(x.float())[0], right, 1e-5, "float32")


def test_s4d_recurrent_parameters():
    mixer = make(state_size=6)
    assert {id(p) for p in mixer.recurrent_parameters()} == {id(mixer.dt_log), id(mixer.a_log), id(mixer.a_imag)}

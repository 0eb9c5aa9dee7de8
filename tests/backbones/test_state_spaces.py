"""S4D, H3 and Mamba: initialisation, and agreement with other forms of the papers' equations."""

import math

import pytest
import torch
import torch.nn.functional as F
from subjects import WIDTH, make

from decision_rnn.backbones.s4d import _causal_product, _causal_sum
from decision_rnn.backbones.testing import BATCH, PATTERNS, add_noise, assert_near, mask, noise


def test_s4d_starts_from_the_eigenvalues_of_s4d_lin():
    mixer = make("s4d", state_size=16)
    right = torch.tensor([complex(-0.5, math.pi * n) for n in range(8)], dtype=torch.complex128).repeat(WIDTH, 1)
    torch.testing.assert_close(torch.complex(-torch.exp(mixer.a_log), mixer.a_imag), right, rtol=1e-6, atol=1e-6)


def test_s4d_equals_continuous_system_with_zero_order_hold():
    """x' = A x + u with u constant over dt, both conjugate halves, by exp of [[A, 1], [0, 0]] dt."""
    mixer, time = make("s4d", state_size=6), 5
    u, a = noise(1, time, WIDTH), torch.complex(-torch.exp(mixer.a_log), mixer.a_imag).detach()
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
    value, gate = mixer.output(F.gelu(s + mixer.d * u)).chunk(2, dim=-1)
    assert_near(mixer(u)[0], value * torch.sigmoid(gate), 1e-12, "output")


def test_s4d_with_tiny_step_size_is_accurate_in_float32():
    """exp(dt A) - 1 with dt = 1e-6."""
    mixer, x = make("s4d", state_size=6), noise(1, 3, WIDTH)
    with torch.no_grad():
        mixer.dt_log.fill_(math.log(1e-6))
        mixer.c.mul_(1e6)
        mixer.d.zero_()
    right, _ = mixer(x)
    assert_near(mixer.float()(x.float())[0], right, 1e-5, "float32")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_causal_sum_of_cuda_equals_the_product(pattern: str):
    u, kernel = noise(WIDTH, BATCH, 12).requires_grad_(), noise(WIDTH, 12, seed=1).requires_grad_()
    age, episode = torch.arange(12)[:, None] - torch.arange(12), mask(pattern).cumsum(1)
    results = []
    for causal in (_causal_product, _causal_sum):
        y = causal(u, torch.where(age >= 0, kernel[:, age.clamp_min(0)], 0), episode)
        gradients = torch.autograd.grad((y * noise(*y.shape, seed=2)).sum(), (u, kernel))
        results.append(dict(zip(("y", "u", "kernel"), (y, *gradients), strict=True)))
    assert_near(results[1], results[0], 1e-12, "the sum")


def test_h3_equals_convolutions_with_its_impulse_responses():
    """Both as convolutions over the whole sequence, as in the paper; the second one's kernel as Re(C A^j B) 2."""
    time = 20
    mixer, x = add_noise(make("h3", state_size=6)), noise(2, time, WIDTH)
    q, k, v = mixer.qkv(x).transpose(1, 2).chunk(3, dim=1)
    p = F.conv1d(F.pad(k, (3, 0)), mixer.shift[:, None], groups=WIDTH) * v
    a = torch.complex(-torch.exp(mixer.diagonal.a_log), mixer.diagonal.a_imag)
    dt = torch.exp(mixer.diagonal.dt_log)[:, None]
    readout = torch.view_as_complex(mixer.diagonal.c) * (torch.exp(dt * a) - 1) / a
    kernel = 2 * (readout[..., None] * torch.exp(dt * a)[..., None] ** torch.arange(time)).sum(1).real
    kernel[:, 0] += mixer.d
    y = F.conv1d(F.pad(p, (time - 1, 0)), kernel.flip(1)[:, None], groups=WIDTH)
    assert_near(mixer(x)[0], mixer.output((q * y).transpose(1, 2)), 1e-11, "output")


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("s4d", ["dt_log", "a_log", "a_imag"]),
        ("mamba", ["a_log"]),
        ("lru", ["nu_log", "theta_log", "gamma_log", "b"]),
        ("mingru", []),
    ],
)
def test_recurrent_parameters(name, names):
    mixer = make(name)
    assert [id(part) for part in mixer.recurrent_parameters()] == [id(mixer.get_parameter(each)) for each in names]
    assert mixer.recurrent_learning_rate(1e-2) == {"s4d": 1e-3, "lru": 5e-3}.get(name, 1e-2)


def test_mamba_initialisation():
    mixer = make("mamba", width=2000, state_size=3)
    assert (-torch.exp(mixer.a_log)).unique(dim=0).tolist() == [pytest.approx([-1, -2, -3])]
    assert mixer.d.unique().tolist() == [1]
    assert mixer.dt.in_features == 125

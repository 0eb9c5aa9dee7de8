"""LRU: its initialisation, and the equation in Python's complex numbers."""

import cmath
import math

import pytest
import torch
from subjects import assert_same

from decision_rnn.backbones import registered
from decision_rnn.testing import forward, noise


def make(**options):
    torch.manual_seed(0)
    return registered("lru").cls(registered("lru").config(**options))


def eigenvalues(lru):
    with torch.no_grad():
        return torch.exp(-torch.exp(lru.nu_log.double()) + 1j * torch.exp(lru.theta_log.double()))


def test_lru_state_size_defaults_to_the_width_and_zero_raises():
    for options, size in (({"width": 6}, 6), ({"width": 128}, 128), ({"width": 6, "state_size": 10}, 10)):
        lru = make(**options)
        assert [part.shape for part in lru.initial_state(3)] == [(3, size)] * 2
        assert lru.c.shape == (options["width"], size, 2)


def test_lru_phases_are_initialised_uniformly_up_to_max_phase():
    for max_phase in (math.pi / 10, 2 * math.pi):
        phase = torch.exp(make(width=4, state_size=4000, max_phase=max_phase).theta_log.detach().double())
        places = torch.linspace(0, max_phase, 4000, dtype=torch.float64)
        assert (phase.sort().values - places).abs().max() < 0.03 * max_phase  # Kolmogorov-Smirnov's 1% bound is 0.026


@pytest.mark.parametrize("init_half_life", [10, 1000])
def test_lru_gamma_is_initialised_as_the_normaliser(init_half_life):
    lru = make(width=4, state_size=500, init_half_life=init_half_life)
    gamma = torch.exp(lru.gamma_log.detach().double())
    torch.testing.assert_close(gamma, torch.sqrt(1 - eigenvalues(lru).abs() ** 2), rtol=1e-3, atol=0)


def test_lru_state_has_the_variance_of_the_input_at_initialisation():
    """This is the purpose of gamma and of the scale of B: white noise of unit variance gives E|h|^2 = 1."""
    lru = make(width=64, state_size=64, init_half_life=15)
    _, (real, imag) = lru(noise(500, 150, 64, dtype=torch.float32))
    assert (real**2 + imag**2).mean().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("parametrization", ["exponential", "plain"])
def test_lru_parametrizations_start_with_same_eigenvalues_and_may_leave_the_unit_disc(parametrization):
    ring = {"width": 4, "state_size": 50, "max_phase": 2 * math.pi}
    right, other = eigenvalues(make(**ring)), make(**ring, parametrization=parametrization)
    with torch.no_grad():
        torch.testing.assert_close(torch.complex(*other._decay()).to(right.dtype), right, rtol=1e-5, atol=1e-5)
    first, second = other.recurrent_parameters()[:2]
    with torch.no_grad():  # nothing keeps these inside the unit disc
        first.fill_({"exponential": -0.1, "plain": 1.1}[parametrization])
        second.fill_(0.0)
        assert (torch.complex(*other._decay()).abs() > 1).all()


def test_lru_without_normalization_has_larger_states_and_no_gamma():
    ring = {"width": 64, "state_size": 64, "init_half_life": 70}
    sizes = []
    for normalization in (True, False):
        _, (real, imag) = make(**ring, normalization=normalization)(noise(200, 300, 64, dtype=torch.float32))
        sizes.append((real**2 + imag**2).mean().item())
    assert sizes[0] == pytest.approx(1, rel=0.1)
    assert sizes[1] > 10  # 1 / (1 - |lambda|^2)
    names = {name for name, _ in make(width=4, normalization=False).named_parameters()}
    assert names == {"nu_log", "theta_log", "b", "c", "d"}


def test_lru_stable_parametrization_stays_inside_the_unit_disc():
    lru = make(width=4, state_size=50)
    with torch.no_grad():
        lru.nu_log.copy_(torch.linspace(-10, 5, 50))
    assert (eigenvalues(lru).abs() < 1).all()
    y, _ = lru(torch.ones(1, 2000, 4))
    assert y.isfinite().all()


def test_lru_equals_its_equation_in_python_complex_numbers():
    lru = make(width=2, state_size=3).double()
    x, state, reset = noise(1, 4, 2), (noise(1, 3, seed=1), noise(1, 3, seed=2)), [False, False, True, False]
    nu, theta, gamma, b, c, d = (p.tolist() for p in (lru.nu_log, lru.theta_log, lru.gamma_log, lru.b, lru.c, lru.d))
    h, y = [complex(re, im) for re, im in zip(state[0][0].tolist(), state[1][0].tolist(), strict=True)], []
    for t, u in enumerate(x[0].tolist()):
        for n in range(3):
            decay = cmath.exp(complex(-math.exp(nu[n]), math.exp(theta[n])))
            drive = sum(complex(b[n][0][k], b[n][1][k]) * u[k] for k in range(2))
            h[n] = decay * (0 if reset[t] else h[n]) + math.exp(gamma[n]) * drive
        y.append([sum(complex(*c[k][n]) * h[n] for n in range(3)).real + d[k] * u[k] for k in range(2)])
    planes = ([[value.real for value in h]], [[value.imag for value in h]])
    right = (
        torch.tensor([y], dtype=torch.float64),
        tuple(torch.tensor(plane, dtype=torch.float64) for plane in planes),
    )
    assert_same(forward(lru, x, state, torch.tensor([reset])), right, 1e-13, "LRU")


def test_lru_recurrent_parameters():
    lru = make(width=4, state_size=6)
    found = {id(parameter) for parameter in lru.recurrent_parameters()}
    names = {name for name, parameter in lru.named_parameters() if id(parameter) in found}
    assert names == {"nu_log", "theta_log", "gamma_log", "b"}

"""LRU: its initialisation, and the equation in Python's complex numbers."""

import cmath
import math
from functools import partial

import pytest
import torch
from subjects import make as make_mixer

from decision_rnn.backbones.testing import assert_near, named, noise

make = partial(make_mixer, "lru")


def eigenvalues(lru):
    return torch.exp(-torch.exp(lru.nu_log) + 1j * torch.exp(lru.theta_log)).detach()


def test_lru_state_size_defaults_to_the_width():
    for options, size in (({"width": 6}, 6), ({"width": 128}, 128), ({"width": 6, "state_size": 10}, 10)):
        lru = make(**options)
        assert [part.shape for part in lru.initial_state(3)] == [(3, size)] * 2
        assert lru.c.shape == (options["width"], size, 2)


@pytest.mark.parametrize("max_phase", [math.pi / 10, 2 * math.pi])
def test_lru_phases_start_uniformly_up_to_max_phase(max_phase):
    phase = torch.exp(make(state_size=4000, max_phase=max_phase).theta_log.detach())
    places = torch.linspace(0, max_phase, 4000, dtype=torch.float64)
    assert (phase.sort().values - places).abs().max() < 0.03 * max_phase  # Kolmogorov-Smirnov's 1% bound is 0.026


@pytest.mark.parametrize("init_half_life", [10, 1000])
def test_lru_gamma_is_initialised_as_the_normaliser(init_half_life):
    lru = make(state_size=500, init_half_life=init_half_life)
    right = torch.sqrt(1 - eigenvalues(lru).abs() ** 2)
    torch.testing.assert_close(torch.exp(lru.gamma_log), right, rtol=1e-3, atol=0)


def test_lru_state_starts_with_the_variance_of_the_input():
    """The purpose of gamma and of the scale of B: white noise of unit variance gives E|h|^2 = 1; without gamma, as
    many times more as 1 / (1 - |lambda|^2)."""
    for options, low, high in (({"init_half_life": 15}, 0.95, 1.05), ({"normalization": False}, 10, math.inf)):
        _, (real, imag) = make(width=64, **{"init_half_life": 70} | options)(noise(300, 250, 64))
        assert low < (real**2 + imag**2).mean().item() < high
    names = {name for name, _ in make(normalization=False).named_parameters()}
    assert names == {"nu_log", "theta_log", "b", "c", "d"}


@pytest.mark.parametrize(("parametrization", "outside"), [("exponential", -0.1), ("plain", 1.1)])
def test_lru_parametrizations_start_alike_and_may_leave_the_disc(parametrization, outside):
    ring = {"state_size": 50, "max_phase": 2 * math.pi}
    right, other = eigenvalues(make(**ring)), make(**ring, parametrization=parametrization)
    first, second, *_ = other.recurrent_parameters()
    with torch.no_grad():
        torch.testing.assert_close(torch.complex(*other._decay()), right, rtol=1e-5, atol=1e-5)
        first.fill_(outside)  # nothing keeps these inside the unit disc
        second.fill_(0.0)
        assert (torch.complex(*other._decay()).abs() > 1).all()


def test_lru_stable_parametrization_stays_inside_the_unit_disc():
    lru = make(state_size=50)
    lru.nu_log.data.copy_(torch.linspace(-10, 5, 50))
    assert (eigenvalues(lru).abs() < 1).all()
    y, _ = lru(torch.ones(1, 2000, 8, dtype=torch.float64))
    assert y.isfinite().all()


def test_lru_equals_its_equation_in_python_complex_numbers():
    lru = make(width=2, state_size=3)
    x, state, reset = noise(1, 4, 2), (noise(1, 3, seed=1), noise(1, 3, seed=2)), [False, False, True, False]
    nu, theta, gamma, b, c, d = (p.tolist() for p in (lru.nu_log, lru.theta_log, lru.gamma_log, lru.b, lru.c, lru.d))
    h, y = [complex(re, im) for re, im in zip(state[0][0].tolist(), state[1][0].tolist(), strict=True)], []
    for t, u in enumerate(x[0].tolist()):
        for n in range(3):
            decay = cmath.exp(complex(-math.exp(nu[n]), math.exp(theta[n])))
            drive = sum(complex(b[n][0][k], b[n][1][k]) * u[k] for k in range(2))
            h[n] = decay * (0 if reset[t] else h[n]) + math.exp(gamma[n]) * drive
        y.append([sum(complex(*c[k][n]) * h[n] for n in range(3)).real + d[k] * u[k] for k in range(2)])
    after = torch.tensor([h], dtype=torch.complex128)
    right = torch.tensor([y], dtype=torch.float64), (after.real, after.imag)
    assert_near(named(lru(x, state, torch.tensor([reset]))), named(right), 1e-13, "LRU")

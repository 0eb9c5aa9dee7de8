"""RWKV: the paper's sum over all earlier steps, and keys whose exponentials overflow. test_contract.py tests the
recurrence."""

import pytest
import torch
from subjects import assert_same

from decision_rnn.backbones import registered
from decision_rnn.backbones.contract import steps
from decision_rnn.testing import add_noise, assert_near, noise

WIDTH, TIME = 8, 12


def make(dtype=torch.float64):
    torch.manual_seed(0)
    return add_noise(registered("rwkv").cls(registered("rwkv").config(width=WIDTH))).to(dtype)


def test_rwkv_equals_the_papers_sum_over_earlier_steps():
    """One pair of steps at a time."""
    mixer, x = make(), noise(2, TIME, WIDTH)
    previous = torch.cat([torch.zeros(2, 1, WIDTH), x[:, :-1]], dim=1)
    r, k, v = (
        part(mu * x + (1 - mu) * previous)
        for mu, part in zip(mixer.mix, (mixer.receptance, mixer.key, mixer.value), strict=True)
    )
    w, outputs = torch.exp(mixer.decay_log), []
    for t in range(TIME):
        weights = [torch.exp(-(t - 1 - i) * w + k[:, i]) for i in range(t)] + [torch.exp(mixer.bonus + k[:, t])]
        mean = sum(weight * v[:, i] for i, weight in enumerate(weights)) / sum(weights)
        outputs.append(mixer.output(torch.sigmoid(r[:, t]) * mean))
    assert_near(mixer(x)[0], torch.stack(outputs, dim=1), 1e-12, "output")


@pytest.mark.parametrize("size", [1.0, 200.0])
def test_rwkv_with_large_keys_is_finite_and_accurate_in_float32(size):
    """exp of a key overflows above 88."""
    x, reset = noise(2, TIME, WIDTH), noise(2, TIME, seed=1) > 1
    exact, mixer = make(), make(torch.float32)
    with torch.no_grad():
        for module in (exact, mixer):
            module.key.weight.mul_(size)
    right = exact(x, None, reset)
    narrow = x.float().requires_grad_()
    for run in (mixer, lambda *a: steps(mixer, a[0], mixer.initial_state(2), reset)):
        y, state = run(narrow, None, reset)
        assert_same((y, state), right, 2e-6 * max(size, 5), "float32")  # exp of a key whose own rounding is size * 6e-8
        for grad in torch.autograd.grad(y.square().sum(), [narrow, *mixer.parameters()]):
            assert grad.isfinite().all()

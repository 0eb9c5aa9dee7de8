"""sLSTM: saturated gates, where the unstabilised equations overflow, heads, and its initialisation."""

import math

import pytest
import torch
from subjects import assert_same

from decision_rnn.backbones import registered
from decision_rnn.backbones.contract import steps
from decision_rnn.testing import noise

WIDTH, TIME = 8, 12


def make(dtype=torch.float64, **options):
    torch.manual_seed(0)
    mixer = registered("slstm").cls(registered("slstm").config(**{"width": WIDTH, "heads": 2} | options))
    mixer.recurrent.data.normal_(std=0.3)
    return mixer.to(dtype)


@pytest.mark.parametrize("insert", [-120.0, 120.0])
@pytest.mark.parametrize("forget", [-120.0, 120.0])
def test_slstm_with_saturated_gates_is_finite_and_accurate_in_float32(forget, insert):
    x, reset = noise(2, TIME, WIDTH), noise(2, TIME, seed=1) > 1
    exact, mixer = make(), make(torch.float32)
    for module in (exact, mixer):
        bias = module.gates.bias.data.view(2, 4, -1)
        bias[:, 1], bias[:, 2] = insert, forget
    right = exact(x, None, reset)
    narrow = x.float().requires_grad_()
    for run in (mixer, lambda *a: steps(mixer, a[0], mixer.initial_state(2), reset)):
        y, state = run(narrow, None, reset)
        assert_same((y, state), right, 1e-4, "float32")  # exp of a gate whose own rounding is 120 * 6e-8
        for grad in torch.autograd.grad(y.square().sum(), [narrow, *mixer.parameters()]):
            assert grad.isfinite().all()


def test_slstm_mixes_memory_within_heads_only():
    """What changes a head's state changes the later states of its channels and of no others."""
    mixer, x = make(), noise(1, WIDTH)
    _, state = mixer.step(x, mixer.initial_state(1))
    other = tuple(part.clone() for part in state)
    other[1][:, 0] += 1
    for part, changed in zip(mixer.step(x, state)[1], mixer.step(x, other)[1], strict=True):
        assert torch.equal(part[:, 1], changed[:, 1])
        assert not torch.isclose(part[:, 0], changed[:, 0]).any()


def test_slstm_starts_without_memory_mixing_and_every_head_has_all_half_lives():
    torch.manual_seed(0)
    mixer = registered("slstm").cls(registered("slstm").config(width=64, heads=4, init_half_life=1000))
    assert torch.count_nonzero(mixer.recurrent) == 0
    forget = torch.sigmoid(mixer.gates.bias.view(4, 4, 16)[:, 2])
    half_lives = math.log(0.5) / torch.log(forget)
    assert (half_lives.amax(1) > 500).all()
    assert (half_lives.amin(1) < 2).all()

"""mLSTM: saturated gates, where the unstabilised equations overflow, and its initialisation."""

import pytest
import torch
from subjects import assert_same

from decision_rnn.backbones import registered
from decision_rnn.backbones.contract import steps
from decision_rnn.testing import assert_near, noise

WIDTH, TIME = 8, 12


def make(forget, insert, dtype=torch.float64):
    torch.manual_seed(0)
    mixer = registered("mlstm").cls(registered("mlstm").config(width=WIDTH, heads=2))
    with torch.no_grad():
        mixer.gates.weight.normal_(std=0.3)
        mixer.gates.bias[:2], mixer.gates.bias[2:] = forget, insert
    return mixer.to(dtype)


@pytest.mark.parametrize("insert", [-120.0, 0.0, 120.0])
@pytest.mark.parametrize("forget", [-120.0, 0.0, 120.0])
def test_mlstm_with_saturated_gates_is_finite_and_accurate_in_float32(forget, insert):
    """Finite values and gradients in float32, values near float64, and the same step by step."""
    x, reset = noise(2, TIME, WIDTH), noise(2, TIME, seed=1) > 1
    right = make(forget, insert)(x, None, reset)
    mixer = make(forget, insert, torch.float32)
    narrow = x.float().requires_grad_()
    for run in (mixer, lambda *a: steps(mixer, a[0], mixer.initial_state(2), reset)):
        y, state = run(narrow, None, reset)
        assert_same((y, state), right, 1e-4, "float32")  # exp of a gate whose own rounding is 120 * 6e-8
        for grad in torch.autograd.grad(y.square().sum(), [narrow, *mixer.parameters()]):
            assert grad.isfinite().all()
    assert_same(steps(make(forget, insert), x, make(forget, insert).initial_state(2), reset), right, 1e-12, "steps")


def test_mlstm_closed_forget_gate_keeps_the_accuracy_of_other_steps():
    """Summed from the start of the chunk, -1e6 at the second step would leave no digits of the later ones."""
    mixer = make(0.0, 0.0, torch.float32)
    x = noise(1, TIME, WIDTH, dtype=torch.float32)
    with torch.no_grad():
        mixer.gates.weight.zero_()
        mixer.gates.weight[:2, 0], mixer.qkvo.weight[:, 0] = 1, 0
        x[0, :, 0], x[0, 1, 0] = 3, -1e6
        right = make(0.0, 0.0)
        right.load_state_dict({key: value.double() for key, value in mixer.state_dict().items()})
        assert_near(mixer(x)[0], right(x.double())[0], 1e-5, "output")


def test_mlstm_gates_are_initialised_independent_of_the_input():
    mixer = registered("mlstm").cls(registered("mlstm").config(width=64, heads=4))
    assert torch.count_nonzero(mixer.gates.weight) == 0
    assert mixer.gates.bias[:4].diff().max() < 0  # from the slowest head to the fastest
    assert mixer.gates.bias[4:].abs().max() < 0.6

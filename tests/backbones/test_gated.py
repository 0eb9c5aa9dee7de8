"""minGRU and minLSTM: saturated gates, long segments, the log-space scan. test_contract.py tests their equations."""

import itertools
from functools import partial

import pytest
import references
import torch
from subjects import Subject, gradients, make

from decision_rnn.backbones import registered
from decision_rnn.backbones.contract import run_stepwise
from decision_rnn.backbones.ops.log_space import log_space_recurrence
from decision_rnn.backbones.testing import assert_near, noise

BOTH = pytest.mark.parametrize("name", ["mingru", "minlstm"])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("options", [{}, {"scan": "log"}, {"gate": "stretched"}], ids=str)
@BOTH
def test_saturated_gates_match_the_float64_reference(name, options, dtype, tolerance):
    """One channel for every combination of gate biases -120, 0 and 120, with small weights on x."""
    if options == {"scan": "log"} and dtype == torch.float32:
        tolerance = 1e-3  # sums of logarithms as large as 240 per step lose digits
    biases = torch.tensor(list(itertools.product((-120.0, 0.0, 120.0), repeat={"mingru": 2, "minlstm": 3}[name]))).T
    width = biases.shape[1]
    mixer, exact = make(name, width=width, **options).to(dtype), make(name, width=width)
    with torch.no_grad():
        mixer.gates.weight.copy_(0.1 * noise(*mixer.gates.weight.shape, seed=7))
        mixer.gates.bias.copy_(biases.flatten())
    exact.load_state_dict({key: part.double() for key, part in mixer.state_dict().items()})
    config = registered(name).config(width=width, **options)
    x, state = noise(2, 5, width, dtype=dtype), (noise(2, width, dtype=dtype, seed=8),)
    reset = torch.tensor([[0, 0, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
    naive = partial(getattr(references, name), config, dict(exact.named_parameters()), reset=reset)
    right = gradients(lambda x, state: naive(x, state), exact, x.double(), (state[0].double(),))
    for mode in (mixer, partial(run_stepwise, mixer)):
        found = gradients(lambda x, state: mode(x, state, reset), mixer, x, state)  # noqa: B023
        assert all(part.isfinite().all() for part in found.values())
        assert_near(found, right, tolerance, str(mode))


def test_stretched_gate_begins_with_the_half_lives_of_a_sigmoid_where_inputs_are_zero():
    plain, stretched = (make("mingru", gate=gate) for gate in ("sigmoid", "stretched"))
    torch.manual_seed(0)
    random = torch.nn.Linear(8, 16).bias[:8]  # to which the biases of the half-lives are added
    fractions = [torch.sigmoid(mixer.gates.bias[:8] - random) for mixer in (plain, stretched)]
    torch.testing.assert_close(1.2 * fractions[1] - 0.1, fractions[0], rtol=0, atol=1e-6)


def test_stretched_gate_keeps_a_state_for_any_number_of_steps_and_passes_its_gradient():
    """As a sigmoid does not: the channel's gate is as far below 0 in both."""
    kept, gradient = {}, {}
    for gate in ("sigmoid", "stretched"):
        mixer = make("mingru", width=1, gate=gate).float()
        with torch.no_grad():
            mixer.gates.weight.zero_()
            mixer.gates.bias.copy_(torch.tensor([-8.0, 3.0]))
        state = torch.full((1, 1), 0.25, requires_grad=True)
        _, (h,) = mixer(torch.zeros(1, 20_000, 1), (state,))
        kept[gate], gradient[gate] = h.item(), torch.autograd.grad(h, state)[0].item()
    assert kept["stretched"] == 0.25
    assert gradient["stretched"] == 1
    assert kept["sigmoid"] > 3
    assert gradient["sigmoid"] < 0.01


@pytest.mark.parametrize("start", [1, 0, -1])
@pytest.mark.parametrize("time", [2, 20, 200])
def test_log_space_recurrence_equals_the_loop_over_time(time, start):
    """For any sign of the initial state, with resets."""
    z, reset, pull = torch.sigmoid(noise(2, time, 8)), noise(2, time, seed=4) > 2, noise(2, time, 8, seed=3)
    initial = start * references.g(noise(2, 8, seed=2))
    leaves = [part.requires_grad_() for part in (1 - z, z * references.g(noise(2, time, 8, seed=1)), initial)]
    loop = references.linear_recurrence(*leaves, reset)
    scan = log_space_recurrence(leaves[0].log(), leaves[1].log(), leaves[2], reset)
    assert_near(scan, loop, 1e-12, "h")
    pairs = (torch.autograd.grad(h, leaves, pull) for h in (scan, loop))
    for name, grad, right in zip(("a", "b", "initial"), *pairs, strict=True):
        assert_near(grad, right, 1e-11, f"gradient of {name}")


@BOTH
def test_gradients_are_accurate_in_float32_over_1000_steps(name):
    """With fast gates. Not those of the gates' weights: torch's product over 2000 rows alone rounds by 1e-6."""
    mixer, exact = Subject(name).build(torch.float32), Subject(name).build()
    exact.load_state_dict(mixer.state_dict())  # the same numbers, rounded to float32
    x, state = 5 * noise(2, 1000, 8, dtype=torch.float32), mixer.initial_state(2)
    found, right = gradients(mixer, mixer, x, state), gradients(exact, exact, x.double(), (state[0].double(),))
    for key in ("gradient of x", "gradient of state 0", "gradient of gates.bias"):
        assert_near(found[key], right[key], 1e-6, key)

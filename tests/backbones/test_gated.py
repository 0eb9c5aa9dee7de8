"""minGRU and minLSTM: saturated gates, the log-space scan, expansion. test_contract.py tests their equations."""

import itertools
from functools import partial

import pytest
import references
import torch
from subjects import Subject, gradients, make

from decision_rnn.backbones import registered
from decision_rnn.backbones.contract import steps
from decision_rnn.backbones.ops.log_space import log_space_recurrence
from decision_rnn.backbones.ops.recurrence import positive
from decision_rnn.backbones.testing import assert_near, noise

BOTH = pytest.mark.parametrize("name", ["mingru", "minlstm"])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("options", [{}, {"candidate": "signed"}, {"scan": "log"}], ids=str)
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
    naive = partial(references.REFERENCES[name], config, dict(exact.named_parameters()), reset=reset)
    right = gradients(lambda x, state: naive(x, state), exact, x.double(), (state[0].double(),))
    for mode in (mixer, partial(steps, mixer)):
        found = gradients(lambda x, state: mode(x, state, reset), mixer, x, state)  # noqa: B023
        assert all(part.isfinite().all() for part in found.values())
        assert_near(found, right, tolerance, str(mode))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_positive_equals_g_of_the_mingru_paper(dtype):
    points = torch.tensor([-300, -120, -20, -1, -1e-3, -1e-6, 1e-6, 1e-3, 1, 20, 120, 1e4], dtype=torch.float64)
    found = gradients(lambda x, _: (positive(x), ()), None, points.to(dtype))
    for key, right in gradients(lambda x, _: (references.g(x), ()), None, points).items():
        torch.testing.assert_close(found[key], right.to(dtype))
    x = torch.zeros(1, requires_grad=True)  # any value between sigmoid's 1/4 on the left and 1 on the right is valid
    positive(x).backward()
    assert 0.25 <= x.grad.item() <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_minlstm_weighs_evenly_if_both_gates_underflow(dtype):
    """f / (f + i) where both are below the smallest number: 1/2, not 0 / 0."""
    mixer = make("minlstm", width=1).to(dtype)
    with torch.no_grad():
        mixer.gates.weight.zero_()
        mixer.gates.bias.copy_(torch.tensor([-2000.0, -2000.0, 3.0]))
    x, state = torch.zeros(1, 1, 1, dtype=dtype), (torch.full((1, 1), 0.5, dtype=dtype),)
    for y, _ in (mixer(x, state), mixer.step(x[:, 0], state)):
        assert y.item() == pytest.approx(0.5 * 0.5 + 0.5 * 3.5)


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
def test_log_scan_gradients_are_100_times_less_accurate(name):
    """In float32, with fast gates over 1000 steps. Of the pre-activations instead of the gates' weights, for which
    torch's product over 2000 rows alone rounds by 1e-6 of its largest entry in float32."""
    x = 5 * noise(2, 1000, 8, dtype=torch.float32)
    mixers = {scan: Subject(name, {"scan": scan}).build(torch.float32) for scan in ("direct", "log")}
    exact = Subject(name).build()
    exact.load_state_dict(mixers["direct"].state_dict())  # the same numbers, rounded to float32

    def found_by(mixer, x):
        found = {}

        def watch(_module, _arguments, preactivations):
            preactivations.register_hook(lambda grad: found.update(preactivations=grad))

        with mixer.gates.register_forward_hook(watch):
            traced = gradients(mixer, mixer, x, mixer.initial_state(2))
        found |= {key: part for key, part in traced.items() if key.startswith("gradient")}
        del found["gradient of gates.weight"]
        return found

    right, off = found_by(exact, x.double()), {}
    for scan, mixer in mixers.items():
        found = found_by(mixer, x)
        off[scan] = max((found[key] - right[key]).abs().max() / right[key].abs().max() for key in right)
    assert off["direct"] <= 1e-6
    assert off["log"] >= 100 * off["direct"]


@BOTH
def test_expansion_and_projection_set_the_sizes(name):
    """The projection does not change the gates that a seed gives."""
    for options, inner in (({"projection": True}, 8), ({"expansion": 1.5}, 12), ({"expansion": 0.5}, 4)):
        mixer = make(name, **options)
        shapes = {key: tuple(part.shape) for key, part in mixer.output.named_parameters()}
        assert shapes == {"weight": (8, inner), "bias": (8,)}
        assert mixer.initial_state(3)[0].shape == (3, inner)
        assert mixer(noise(3, 4, 8))[0].shape == (3, 4, 8)
    assert [key for key, _ in make(name).named_parameters()] == ["gates.weight", "gates.bias"]
    assert torch.equal(make(name, projection=True).gates.weight, make(name).gates.weight)


@BOTH
def test_output_without_projection_is_positive(name):
    """As documented: every channel added to the residual stream is positive, 0.68 on average once it has settled."""
    x = noise(16, 50, 128)
    y, _ = make(name, width=128, init_half_life=1)(x)
    assert y.min() > 0
    assert y[:, 10:].mean().item() == pytest.approx(0.68, abs=0.03)
    assert abs(make(name, width=128, projection=True)(x)[0].mean().item()) < 0.1

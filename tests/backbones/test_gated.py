"""minGRU and minLSTM: saturated gates, expansion. test_law.py tests their equations."""

import itertools

import pytest
import references
import torch
from subjects import Subject, assert_same, gradients

from decision_rnn.backbones import registered
from decision_rnn.backbones.contract import steps
from decision_rnn.backbones.mingru import positive
from decision_rnn.backbones.ops.recurrence import log_space_recurrence
from decision_rnn.testing import assert_near, forward, noise

FAR = (-120.0, 0.0, 120.0)


def far_mixer(name, options, dtype):
    """One channel for every combination of gate biases -120, 0 and 120, with small weights on x."""
    parts = {"mingru": 2, "minlstm": 3}[name]
    biases = torch.tensor(list(itertools.product(FAR, repeat=parts))).T
    config = registered(name).config(width=biases.shape[1], **options)
    mixer = registered(name).cls(config)
    with torch.no_grad():
        mixer.gates.weight.copy_(0.1 * noise(*mixer.gates.weight.shape, seed=7))
        mixer.gates.bias.copy_(biases.flatten())
    return mixer.to(dtype), config


@pytest.mark.parametrize("mode", ["forward", "steps"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("options", [{}, {"candidate": "signed"}, {"scan": "log"}], ids=str)
@pytest.mark.parametrize("name", ["mingru", "minlstm"])
def test_mingru_and_minlstm_with_saturated_gates_match_the_float64_reference(name, options, dtype, tolerance, mode):
    if options == {"scan": "log"} and dtype == torch.float32:
        tolerance = 1e-3  # sums of logarithms as large as 240 per step lose digits
    mixer, config = far_mixer(name, options, dtype)
    width = config.width
    x, state = noise(2, 5, width, dtype=dtype), (noise(2, width, dtype=dtype, seed=8),)
    reset = torch.tensor([[0, 0, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
    named = dict(mixer.named_parameters())
    wide = {key: p.detach().double().requires_grad_() for key, p in named.items()}

    def naive(x, state):
        return references.REFERENCES[name](config, wide, x, state, reset)

    def run(x, state):
        return (forward if mode == "forward" else steps)(mixer, x, state, reset)

    wide_state = (state[0].double(),)
    assert_same(run(x, state), naive(x.double(), wide_state), tolerance, mode)
    right = gradients(naive, wide, x.double(), wide_state)
    for key, grad in gradients(run, named, x, state).items():
        assert grad.isfinite().all()
        assert_near(grad, right[key], tolerance, f"gradient of {key}")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_positive_equals_g_of_the_mingru_paper(dtype):
    points = [-300, -120, -20, -1, -1e-3, -1e-6, 1e-6, 1e-3, 1, 20, 120, 1e4]
    x = torch.tensor(points, dtype=dtype, requires_grad=True)
    wide = x.detach().double().requires_grad_()
    y, right = positive(x), references.g(wide)
    torch.testing.assert_close(y, right.to(dtype))
    pull = noise(len(points), seed=9)
    (grad,) = torch.autograd.grad(y, x, pull.to(dtype))
    (slope,) = torch.autograd.grad(right, wide, pull)
    torch.testing.assert_close(grad, slope.to(dtype))


def test_positive_has_a_gradient_at_zero():
    """Any value between sigmoid's 1/4 on the left and 1 on the right is valid."""
    x = torch.zeros(1, requires_grad=True)
    y = positive(x)
    y.backward()
    assert y.item() == 0.5
    assert 0.25 <= x.grad.item() <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_minlstm_weighs_state_and_candidate_evenly_if_both_gates_underflow(dtype):
    """f / (f + i) where both are below the smallest number: 1/2, not 0 / 0."""
    mixer = registered("minlstm").cls(registered("minlstm").config(width=1)).to(dtype)
    with torch.no_grad():
        mixer.gates.weight.zero_()
        mixer.gates.bias.copy_(torch.tensor([-2000.0, -2000.0, 3.0]))
    x, state = torch.zeros(1, 1, 1, dtype=dtype), (torch.full((1, 1), 0.5, dtype=dtype),)
    for y, _ in (mixer(x, state), mixer.step(x[:, 0], state)):
        assert y.item() == pytest.approx(0.5 * 0.5 + 0.5 * 3.5)


@pytest.mark.parametrize("start", ["positive", "zero", "negative"])
@pytest.mark.parametrize("time", [2, 20, 200])
def test_log_space_recurrence_equals_the_loop_over_time(time, start):
    """For any sign of the initial state, with resets."""
    z = torch.sigmoid(noise(2, time, 8))
    initial = {"positive": 1, "zero": 0, "negative": -1}[start] * references.g(noise(2, 8, seed=2))
    leaves = [part.requires_grad_() for part in (1 - z, z * references.g(noise(2, time, 8, seed=1)), initial)]
    reset, pull = noise(2, time, seed=4) > 2, noise(2, time, 8, seed=3)
    loop = references.linear_recurrence(*leaves, reset)
    scan = log_space_recurrence(leaves[0].log(), leaves[1].log(), leaves[2], reset)
    assert_near(scan, loop, 1e-12, "h")
    pairs = (torch.autograd.grad(h, leaves, pull) for h in (scan, loop))
    for name, grad, right in zip(("a", "b", "initial"), *pairs, strict=True):
        assert_near(grad, right, 1e-11, f"gradient of {name}")


@pytest.mark.parametrize("name", ["mingru", "minlstm"])
def test_log_scan_gradients_are_100_times_less_accurate_in_float32(name):
    """With fast gates over 1000 steps."""
    x, off = 5 * noise(2, 1000, 8, dtype=torch.float32), {}
    mixers = {scan: Subject(name, {"scan": scan}).build(torch.float32) for scan in ("direct", "log")}
    exact = Subject(name).build().double()
    exact.load_state_dict(mixers["direct"].state_dict())  # the same numbers, rounded to float32

    def found_by(mixer, x):
        """Gradients, of the pre-activations instead of the gates' weights: for the weights, torch's product over 2000
        rows alone rounds by 1e-6 of its largest entry in float32."""
        found = {}

        def watch(_module, _arguments, preactivations):
            preactivations.register_hook(lambda grad: found.update(preactivations=grad))

        with mixer.gates.register_forward_hook(watch):
            found |= gradients(mixer, dict(mixer.named_parameters()), x, mixer.initial_state(2))
        del found["gates.weight"]
        return found

    right = found_by(exact, x.double())
    for scan, mixer in mixers.items():
        found = found_by(mixer, x)
        off[scan] = max((found[key] - right[key]).abs().max() / right[key].abs().max() for key in right)
    assert off["direct"] <= 1e-6
    assert off["log"] >= 100 * off["direct"]


@pytest.mark.parametrize("name", ["mingru", "minlstm"])
def test_expansion_sets_the_state_size_relative_to_the_width(name):
    for expansion, size in ((1.0, 8), (0.5, 4), (2.0, 16)):
        mixer = registered(name).cls(registered(name).config(width=8, expansion=expansion))
        (state,) = mixer.initial_state(3)
        assert state.shape == (3, size)
        assert mixer(noise(3, 4, 8, dtype=torch.float32))[0].shape == (3, 4, 8)
        assert list(mixer.recurrent_parameters()) == []


@pytest.mark.parametrize("name", ["mingru", "minlstm"])
def test_output_projection_exists_if_requested_or_if_expansion_is_not_one(name):
    """The projection does not change the gates that a seed gives."""

    def make(**options):
        torch.manual_seed(0)
        return registered(name).cls(registered(name).config(width=8, **options))

    for options, inner in (({"projection": True}, 8), ({"expansion": 1.5}, 12), ({"expansion": 0.5}, 4)):
        assert {key: tuple(p.shape) for key, p in make(**options).output.named_parameters()} == {
            "weight": (8, inner),
            "bias": (8,),
        }
    assert [key for key, _ in make().named_parameters()] == ["gates.weight", "gates.bias"]
    assert torch.equal(make(projection=True).gates.weight, make().gates.weight)


@pytest.mark.parametrize("name", ["mingru", "minlstm"])
def test_output_without_projection_is_positive(name):
    """As documented: every channel added to the residual stream is positive, 0.68 on average once it has settled."""
    torch.manual_seed(0)
    mixer, x = registered(name).cls(registered(name).config(init_half_life=1)), noise(16, 50, 128, dtype=torch.float32)
    y, _ = mixer(x)
    assert y.min() > 0
    assert y[:, 10:].mean().item() == pytest.approx(0.68, abs=0.03)
    projected = registered(name).cls(registered(name).config(projection=True))
    assert abs(projected(x)[0].mean().item()) < 0.1

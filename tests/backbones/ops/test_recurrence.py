"""`linear_recurrence` against a loop over complex numbers, one over time under autograd, and finite differences."""

import itertools

import numpy as np
import pytest
import references
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decision_rnn.backbones.ops.recurrence import linear_recurrence
from decision_rnn.testing import TOLERANCES, assert_near, noise

BATCH, TIME, WIDTH = 2, 6, 3
DTYPES = [torch.float64, torch.complex128, torch.float32, torch.complex64]


def numbers(dtype, *shape, seed):
    wide = noise(*shape, seed=seed) + (1j * noise(*shape, seed=seed + 50) if dtype.is_complex else 0)
    return wide.to(dtype)


def problem(dtype, constant, batch=BATCH, time=TIME, width=WIDTH):
    a = numbers(dtype, *([width] if constant else [batch, time, width]), seed=1) * 0.7
    return a, numbers(dtype, batch, time, width, seed=2), numbers(dtype, batch, width, seed=3)


def loop(a, b, initial, reset):
    """One number at a time."""
    a, b, initial, reset = (part.detach().numpy() for part in (a, b, initial, reset))
    h = np.empty_like(b)
    for row, t, channel in np.ndindex(*b.shape):
        before = complex(h[row, t - 1, channel] if t else initial[row, channel])
        decay = complex(a[channel] if a.ndim == 1 else a[row, t, channel])
        value = decay * (0 if reset[row, t] else before) + complex(b[row, t, channel])
        h[row, t, channel] = value if np.iscomplexobj(b) else value.real
    return torch.from_numpy(h)


def planes(h):
    return torch.view_as_real(h) if h.is_complex() else h


def tolerance(dtype):
    return TOLERANCES[dtype.to_real()]


RESETS = {
    "none": torch.zeros(BATCH, TIME, dtype=torch.bool),
    "all": torch.ones(BATCH, TIME, dtype=torch.bool),
    "first": torch.tensor([[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]], dtype=torch.bool),
    "some": torch.tensor([[0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 1]], dtype=torch.bool),
}


@pytest.mark.parametrize("reset", RESETS.values(), ids=RESETS.keys())
@pytest.mark.parametrize("constant", [False, True], ids=["varying", "constant"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
class TestLinearRecurrence:
    def test_values_equal_a_loop_over_numbers(self, dtype, constant, reset):
        a, b, initial = problem(dtype, constant)
        h = linear_recurrence(a, b, initial, reset)
        right = loop(a, b, initial, reset)
        assert h.dtype == dtype
        assert_near(planes(h), planes(right), tolerance(dtype), "the scan")
        twin = references.linear_recurrence(a, b, initial, reset)
        assert_near(planes(twin), planes(right), tolerance(dtype), "the twin")

    def test_gradients_equal_those_of_the_reference(self, dtype, constant, reset):
        leaves = [part.requires_grad_() for part in problem(dtype, constant)]
        pull = numbers(dtype, BATCH, TIME, WIDTH, seed=4)
        fast = torch.autograd.grad(linear_recurrence(*leaves, reset), leaves, pull)
        slow = torch.autograd.grad(references.linear_recurrence(*leaves, reset), leaves, pull)
        for name, grad, right in zip(("a", "b", "initial"), fast, slow, strict=True):
            assert_near(planes(grad), planes(right), tolerance(dtype), f"gradient of {name}")


@pytest.mark.parametrize("reset", [None, *RESETS.values()], ids=["absent", *RESETS.keys()])
@pytest.mark.parametrize("constant", [False, True], ids=["varying", "constant"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_linear_recurrence_passes_gradcheck(dtype, constant, reset):
    leaves = [part.requires_grad_() for part in problem(dtype, constant, width=2)]
    assert torch.autograd.gradcheck(lambda *parts: linear_recurrence(*parts, reset), leaves)


@pytest.mark.parametrize("needed", range(3), ids=["a", "b", "initial"])
def test_linear_recurrence_gradient_of_one_argument_passes_gradcheck(needed):
    leaves = problem(torch.float64, False)
    leaves[needed].requires_grad_()
    assert torch.autograd.gradcheck(lambda *parts: linear_recurrence(*parts, RESETS["some"]), leaves)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_linear_recurrence_in_pieces_equals_the_whole(data):
    time = data.draw(st.integers(1, 9))
    flags = data.draw(st.lists(st.booleans(), min_size=BATCH * time, max_size=BATCH * time))
    cuts = sorted(data.draw(st.sets(st.integers(1, time))) | {0, time})
    a, b, initial = problem(torch.complex128, data.draw(st.booleans()), time=time)
    reset = torch.tensor(flags).view(BATCH, time)
    pieces, h = [], initial
    for start, stop in itertools.pairwise(cuts):
        piece = slice(start, stop)
        pieces.append(linear_recurrence(a if a.dim() == 1 else a[:, piece], b[:, piece], h, reset[:, start:stop]))
        h = pieces[-1][:, -1]
    assert_near(planes(torch.cat(pieces, dim=1)), planes(loop(a, b, initial, reset)), 1e-12, f"cut at {cuts}")


def test_linear_recurrence_without_reset_equals_reset_of_zeros():
    parts = problem(torch.float64, False)
    assert torch.equal(linear_recurrence(*parts), linear_recurrence(*parts, RESETS["none"]))


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_gates_are_computed_in_float32(half):
    a, b, initial = (part.to(half) for part in problem(torch.float64, False))
    h = linear_recurrence(a, b, initial.float())
    assert h.dtype == torch.float32
    assert torch.equal(h, linear_recurrence(a.float(), b.float(), initial.float()))


def test_linear_recurrence_does_not_modify_its_arguments():
    parts = problem(torch.float64, False)
    kept = [part.clone() for part in parts]
    leaves = [part.requires_grad_() for part in parts]
    linear_recurrence(*leaves, RESETS["some"]).sum().backward()
    for part, right in zip(parts, kept, strict=True):
        assert torch.equal(part, right)

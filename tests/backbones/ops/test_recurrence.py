"""`linear_recurrence` against a loop over complex numbers, one over time under autograd, and finite differences.

triton_cases.py runs these tests with the Triton kernel, too.
"""

import numpy as np
import pytest
import references
import torch

from decision_rnn.backbones.ops.recurrence import linear_recurrence
from decision_rnn.backbones.testing import TOLERANCES, assert_near, noise

DTYPES = [torch.float64, torch.complex128, torch.float32, torch.complex64]
SHAPES = [(1, 1, 1), (2, 6, 3), (1, 2, 129)]
"""Batch, time, width: one number, several rows, several programs for the channels of a row."""
CONSTANT = pytest.mark.parametrize("constant", [False, True], ids=["varying", "constant"])


def numbers(dtype, *shape, seed):
    wide = noise(*shape, seed=seed) + (1j * noise(*shape, seed=seed + 50) if dtype.is_complex else 0)
    return wide.to(dtype)


def problem(dtype, constant, batch=2, time=6, width=3):
    """a, b and the initial state."""
    a = numbers(dtype, *([width] if constant else [batch, time, width]), seed=1) * 0.7
    return a, numbers(dtype, batch, time, width, seed=2), numbers(dtype, batch, width, seed=3)


def resets(batch=2, time=6):
    some = noise(batch, time, seed=4) > 0.5
    some[0, 0], some[-1] = True, True
    return [None, some]


def loop(a, b, initial, reset):
    """One number at a time."""
    a, b, initial, reset = (part.detach().cpu().numpy() for part in (a, b, initial, reset))
    h = np.empty_like(b)
    for row, t, channel in np.ndindex(*b.shape):
        before = complex(h[row, t - 1, channel] if t else initial[row, channel])
        decay = complex(a[channel] if a.ndim == 1 else a[row, t, channel])
        value = decay * (0 if reset[row, t] else before) + complex(b[row, t, channel])
        h[row, t, channel] = value if np.iscomplexobj(b) else value.real
    return torch.tensor(h)


def planes(h):
    return torch.view_as_real(h) if h.is_complex() else h


def values_and_gradients(run, leaves):
    leaves = [part.detach().clone().requires_grad_() for part in leaves]
    h = run(*leaves)
    return [h.detach(), *torch.autograd.grad(h, leaves, numbers(h.dtype, *h.shape, seed=5))]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@CONSTANT
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_gradients_equal_loops(dtype, constant, shape):
    leaves, tolerance = problem(dtype, constant, *shape), TOLERANCES[dtype.to_real()]
    for reset in resets(*shape[:2]):
        found = values_and_gradients(lambda *parts: linear_recurrence(*parts, reset), leaves)  # noqa: B023
        right = values_and_gradients(lambda *parts: references.linear_recurrence(*parts, reset), leaves)  # noqa: B023
        for name, part, twin, leaf in zip(("h", "a", "b", "initial"), found, right, [leaves[1], *leaves], strict=True):
            assert part.dtype == leaf.dtype
            assert_near(planes(part), planes(twin), tolerance, name)
        if reset is not None:
            assert_near(planes(found[0]), planes(loop(*leaves, reset)), tolerance, "numbers")


@CONSTANT
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_linear_recurrence_passes_gradcheck(dtype, constant):
    for reset in resets(time=4):
        leaves = [part.requires_grad_() for part in problem(dtype, constant, time=4, width=1)]
        assert torch.autograd.gradcheck(lambda *parts: linear_recurrence(*parts, reset), leaves)  # noqa: B023
    for needed in range(3):  # the gradient of one argument alone
        leaves = problem(dtype, constant, time=4, width=1)
        leaves[needed].requires_grad_()
        assert torch.autograd.gradcheck(lambda *parts: linear_recurrence(*parts, reset), leaves)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_gates_are_computed_in_float32(half):
    a, b, initial = (part.to(half) for part in problem(torch.float64, False))
    narrow = values_and_gradients(lambda a, b: linear_recurrence(a, b, initial), [a, b])
    wide = values_and_gradients(lambda a, b: linear_recurrence(a, b, initial.float()), [a.float(), b.float()])
    assert narrow[0].dtype == torch.float32
    assert torch.equal(narrow[0], wide[0])
    for part, right in zip(narrow[1:], wide[1:], strict=True):
        assert part.dtype == half
        assert_near(part, right, 2**-7, "gradient")


def test_linear_recurrence_does_not_modify_its_arguments():
    parts, reset = problem(torch.complex128, False), resets()[-1]
    copies = [part.clone() for part in (*parts, reset)]
    leaves = [part.requires_grad_() for part in parts]
    linear_recurrence(*leaves, reset).real.sum().backward()
    for part, right in zip((*parts, reset), copies, strict=True):
        assert torch.equal(part, right)

"""Tests of the recurrence's Triton kernel, which test_recurrence_triton.py runs in a separate process: in Triton's
interpreter on the CPU if TRITON_INTERPRET=1 was set before Triton was imported, else on CUDA. It selects them by the
word `contract` in their names."""

import os
from functools import partial

import properties
import pytest
import references
import torch
from subjects import Subject

from decision_rnn import testing
from decision_rnn.backbones.ops import recurrence, recurrence_triton
from decision_rnn.testing import TOLERANCES, assert_near, noise

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
torch.set_default_device("cpu" if INTERPRETED else "cuda")
torch.backends.cudnn.allow_tf32 = False


@pytest.fixture(autouse=True)
def kernel_calls(monkeypatch):
    """Use the kernel on every device, and count its calls; fails if a test does not call it."""
    calls = []

    def kernels(x):
        calls.append(x.shape)
        return recurrence_triton

    monkeypatch.setattr(recurrence, "_kernels", kernels)
    yield
    assert calls


SHAPES = [(1, 1, 1), (2, 5, 3), (1, 2, 129)]
"""Batch, time, width: one number, several rows, over two strips of channels."""


def numbers(dtype, *shape, seed):
    wide = noise(*shape, seed=seed) + (1j * noise(*shape, seed=seed + 50) if dtype.is_complex else 0)
    return wide.to(dtype)


def problem(dtype, constant, batch, time, width):
    a = numbers(dtype, *([width] if constant else [batch, time, width]), seed=1) * 0.5
    return a, numbers(dtype, batch, time, width, seed=2), numbers(dtype, batch, width, seed=3)


def resets(batch, time):
    flags = noise(batch, time, seed=4) > 0.7
    flags[0, 0], flags[-1, -1] = True, True
    return {"absent": None, "some": flags}


def values_and_gradients(run, leaves):
    leaves = [part.detach().clone().requires_grad_() for part in leaves]
    h = run(*leaves)
    pull = numbers(h.dtype, *h.shape, seed=5)
    return [h.detach(), *torch.autograd.grad(h, leaves, pull)]


def check(leaves, reset, tolerance):
    found = values_and_gradients(lambda *parts: recurrence.linear_recurrence(*parts, reset), leaves)
    right = values_and_gradients(lambda *parts: references.linear_recurrence(*parts, reset), leaves)
    for name, part, twin, leaf in zip(("h", "a", "b", "initial"), found, right, [leaves[1], *leaves], strict=True):
        assert part.dtype == leaf.dtype
        part, twin = (torch.view_as_real(x) if x.is_complex() else x for x in (part, twin))
        assert_near(part, twin, tolerance, name)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("constant", [False, True], ids=["varying", "constant"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.float32, torch.complex64], ids=str)
def test_kernel_values_and_gradients_equal_the_reference(dtype, constant, shape):
    for reset in resets(*shape[:2]).values():
        check(problem(dtype, constant, *shape), reset, TOLERANCES[dtype.to_real()])


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_kernel_passes_gradcheck(dtype):
    leaves = [part.requires_grad_() for part in problem(dtype, False, 1, 2, 1)]
    reset = torch.tensor([[False, True]])
    assert torch.autograd.gradcheck(lambda *parts: recurrence.linear_recurrence(*parts, reset), leaves)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_kernel_accepts_any_memory_layout(dtype):
    a, b, initial = problem(dtype, False, 2, 5, 3)
    reset = resets(2, 5)["some"]
    layouts = [
        lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
        lambda x: x.transpose(1, -1).contiguous().transpose(1, -1),
        lambda x: torch.cat([x, x], dim=-1)[..., : x.shape[-1]],
        lambda x: torch.cat([x, x], dim=1)[:, : x.shape[1]],
    ]
    right = recurrence.linear_recurrence(a, b, initial, reset)
    for layout in layouts:
        found = recurrence.linear_recurrence(layout(a), layout(b), layout(initial), layout(reset[..., None])[..., 0])
        assert torch.equal(found, right)
    one = a[:, :1].expand_as(a)
    found = recurrence.linear_recurrence(one, b, initial, reset)
    assert torch.equal(found, recurrence.linear_recurrence(one.contiguous(), b, initial, reset))
    summed, weighted = (x.clone().requires_grad_() for x in (b, b))
    recurrence.linear_recurrence(a, summed, initial, reset).real.sum().backward()
    h = recurrence.linear_recurrence(a, weighted, initial, reset)
    (h.real * torch.ones_like(h.real)).sum().backward()
    assert torch.equal(summed.grad, weighted.grad)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_kernel_computes_half_precision_in_float32(half):
    a, b, initial = (part.to(half) for part in problem(torch.float64, False, 2, 6, 3))
    narrow = values_and_gradients(lambda a, b: recurrence.linear_recurrence(a, b, initial, None), [a, b])
    wide = values_and_gradients(
        lambda a, b: recurrence.linear_recurrence(a, b, initial.float(), None), [a.float(), b.float()]
    )
    assert narrow[0].dtype == torch.float32
    assert torch.equal(narrow[0], wide[0])
    for part, right in zip(narrow[1:], wide[1:], strict=True):
        assert part.dtype == half
        assert_near(part, right, 2**-7, "gradient")


def test_kernel_accepts_an_empty_batch():
    a, b, initial = problem(torch.float64, False, 0, 4, 3)
    assert [
        len(part)
        for part in values_and_gradients(lambda *parts: recurrence.linear_recurrence(*parts, None), (a, b, initial))
    ] == [0, 0, 0, 0]
    constant = problem(torch.float64, True, 0, 4, 3)
    *_, grad_a, _, _ = values_and_gradients(lambda *parts: recurrence.linear_recurrence(*parts, None), constant)
    assert torch.equal(grad_a, torch.zeros(3, dtype=torch.float64))


def test_kernel_does_not_modify_its_arguments():
    parts, reset = problem(torch.complex128, False, 2, 6, 3), resets(2, 6)["some"]
    kept = [part.clone() for part in (*parts, reset)]
    leaves = [part.requires_grad_() for part in parts]
    recurrence.linear_recurrence(*leaves, reset).real.sum().backward()
    for part, right in zip((*parts, reset), kept, strict=True):
        assert torch.equal(part, right)


@pytest.mark.parametrize("scale", [1, 60])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("gates", [1, 2])
def test_kernel_of_gated_recurrence_equals_the_loop(gates, signed, scale, monkeypatch):
    """The loop is tested against the papers' equations; with scale 60, gates underflow in float32."""
    for dtype, tolerance in TOLERANCES.items():
        leaves = [noise(2, 4, (gates + 1) * 3, seed=1).to(dtype) * scale, noise(2, 3, seed=2).to(dtype)]
        for reset in resets(2, 4).values():
            run = partial(recurrence.gated_recurrence, reset=reset, signed=signed)
            found = values_and_gradients(run, leaves)
            with monkeypatch.context() as patch:
                patch.setattr(recurrence, "_kernels", lambda x: None)
                right = values_and_gradients(run, [part.double() for part in leaves])
            for what, part, twin in zip(("h", "preactivations", "initial"), found, right, strict=True):
                assert part.dtype == dtype
                assert_near(part, twin, tolerance, what)


# The contract

QUICK = [
    testing.gradients_agree,
    testing.resets_isolate,
    properties.rows_are_independent,
    testing.bfloat16,
    properties.calls_are_pure,
]


@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "subject",
    [Subject("mingru"), Subject("minlstm", {"candidate": "signed"}), Subject("lru", {"state_size": 6})],
    ids=str,
)
def test_mixers_with_the_kernel_keep_the_contract(subject, check):
    check(subject)

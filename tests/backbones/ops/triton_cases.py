"""Tests of the recurrence's Triton kernel, which test_recurrence_triton.py runs in a separate process: in Triton's
interpreter on the CPU if TRITON_INTERPRET=1 was set before Triton was imported, else on CUDA."""

import itertools
import os
from functools import partial

import pytest
import references
import torch
import triton
from test_recurrence import loop, planes, problem, resets, values_and_gradients
from test_recurrence import test_half_precision_gates_are_computed_in_float32 as test_half_precision  # noqa: F401
from test_recurrence import test_linear_recurrence_does_not_modify_its_arguments as test_arguments  # noqa: F401
from test_recurrence import test_values_and_gradients_equal_loops as test_values  # noqa: F401
from triton.runtime import interpreter

from decision_rnn.backbones.ops import recurrence, recurrence_triton
from decision_rnn.backbones.testing import TOLERANCES, assert_near, noise

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
torch.set_default_device("cpu" if INTERPRETED else "cuda")
torch.backends.cudnn.allow_tf32 = False
if INTERPRETED:  # its time grows with the numbers that are loaded at once
    recurrence_triton.STEPS, recurrence_triton.CHANNELS = 4, 64
if INTERPRETED and tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7):
    # This interpreter takes arrays of one number for indices, which numpy 2.4 does not.
    patch_tensor = interpreter._patch_lang_tensor

    def patch_index(tensor, scope):
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patch_index


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


SPLITS = [
    *itertools.product([torch.float32, torch.complex64, torch.bfloat16], [(2, 13, 3)], [2, 5]),
    *[(torch.complex64, (2, 13, 3), None), (torch.bfloat16, (2, 13, 3), None)],  # on a GPU the default splits, too
    *[(torch.float32, (2, 8, 2), 2), (torch.complex64, (1, 1, 9), 2)],
]


@pytest.mark.parametrize(("dtype", "shape", "chunks"), SPLITS, ids=str)
def test_kernel_of_chunks_equals_float64_loops(dtype, shape, chunks, monkeypatch):
    """Also where chunks do not divide the time, for inputs in half precision and in any layout."""
    if chunks is not None:
        monkeypatch.setattr(recurrence_triton, "chunk_count", lambda *_: chunks)
        monkeypatch.setattr(recurrence_triton, "MANY", 1 if chunks == 5 else 1024)
    if not INTERPRETED:
        shape = (shape[0], 47 * shape[1], 17 * shape[2])
    wide = torch.promote_types(dtype, torch.float32)
    a, b, initial = (part.to(dtype) for part in problem(wide, False, *shape))
    a, b, initial = a.mT.contiguous().mT, torch.cat([b, b], 2)[..., : shape[2]], initial.to(wide)
    for reset in resets(*shape[:2]):
        found = values_and_gradients(partial(recurrence.linear_recurrence, reset=reset), [a, b, initial])
        exact = [part.to(torch.promote_types(wide, torch.float64)) for part in (a, b, initial)]
        right = values_and_gradients(partial(references.linear_recurrence, reset=reset), exact)
        tolerances = [1e-5, *[1e-5 if dtype == wide else 2**-7] * 2, 1e-5]
        for name, part, twin, tolerance in zip(("h", "a", "b", "initial"), found, right, tolerances, strict=True):
            assert_near(planes(part), planes(twin), tolerance, name)
    assert [part.dtype for part in found] == [wide, dtype, dtype, wide]
    assert_near(planes(found[0]), planes(loop(*exact, reset)), 1e-5, "numbers")


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_kernel_passes_gradcheck(dtype):
    leaves = [part.requires_grad_() for part in problem(dtype, False, 1, 2, 1)]
    reset = torch.tensor([[False, True]])
    assert torch.autograd.gradcheck(lambda *parts: recurrence.linear_recurrence(*parts, reset), leaves)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_kernel_accepts_any_memory_layout(dtype):
    a, b, initial = problem(dtype, False)
    reset = resets()[-1]
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


@pytest.mark.parametrize("constant", [False, True])
def test_kernel_accepts_an_empty_batch(constant):
    h, grad_a, *_ = values_and_gradients(recurrence.linear_recurrence, problem(torch.float64, constant, 0, 4, 3))
    assert h.shape == (0, 4, 3)
    assert not grad_a.any()


@pytest.mark.parametrize("scale", [1, 60])
@pytest.mark.parametrize("stretched", [False, True])
@pytest.mark.parametrize("gates", [1, 2])
def test_kernel_of_gated_recurrence_equals_the_loop(gates, stretched, scale, monkeypatch):
    """The loop is tested against the papers' equations; with scale 60, gates underflow in float32."""
    for dtype, tolerance in TOLERANCES.items():
        leaves = [noise(2, 4, (gates + 1) * 3, seed=1).to(dtype) * scale, noise(2, 3, seed=2).to(dtype)]
        for reset in (None, resets(2, 4)[-1]):
            run = partial(recurrence.gated_recurrence, reset=reset, stretched=stretched)
            found = values_and_gradients(run, leaves)
            with monkeypatch.context() as patch:
                patch.setattr(recurrence, "_kernels", lambda x: None)
                right = values_and_gradients(run, [part.double() for part in leaves])
            for what, part, twin in zip(("h", "preactivations", "initial"), found, right, strict=True):
                assert part.dtype == dtype
                assert_near(part, twin, tolerance, what)

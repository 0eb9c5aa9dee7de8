"""The linear recurrence on CUDA, called by recurrence.py, with the kernels of recurrence_kernels.py.

It is memory-bound: per step and channel, the forward pass reads a and b and writes h, the backward pass reads a, h and
grad and writes two gradients; minGRU with its gates reads two numbers and writes one, and backward reads four and
writes two. There is no other memory traffic, and none for a constant decay. Time is scanned in tiles, so that even few
channels keep many loads in flight. With very few channels, time is also split into chunks that are processed in
parallel, at the price of reading a and b twice: first the map of every chunk, then the states between chunks, then all
states.

Run through Triton's interpreter and compiled for compute capability 9.0, but not yet run on a GPU. Expected on an H200
(4.8 TB/s, 132 processors): at least 70% of that bandwidth from 8,000 channels (batch * width) and 512 steps on; below
that, and at the 20 steps of a usual training slice, the time of the launch and the latency of a few tiles.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from decision_rnn.backbones.ops.recurrence_kernels import adjoint_kernel, states_kernel

TILE_BYTES = 256
"""Bytes of one channel in a tile: 64 steps in float32. A thread's share of a tile must fit into its registers."""

LEAST_CHUNK = 256
"""Smallest chunk, in steps; with shorter ones the first pass costs more than it saves."""


class _Form(NamedTuple):
    """The form of the recurrence, by the names of the kernels' options."""

    gates: int = 0
    positive: bool = False
    is_complex: bool = False


def linear_recurrence(a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None) -> Tensor:
    """As recurrence.linear_recurrence."""
    return _LinearRecurrence.apply(a, b, initial.to(_state_dtype(b)), reset)


def gated_recurrence(preactivations: Tensor, initial: Tensor, reset: Tensor | None, signed: bool) -> Tensor:
    """As recurrence.gated_recurrence."""
    return _GatedRecurrence.apply(preactivations, initial.to(_state_dtype(preactivations)), reset, signed)


class _LinearRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None) -> Tensor:
        ctx.form = _Form(is_complex=b.is_complex())
        ctx.b_dtype = b.dtype.to_real()
        a, initial = _planes(a), _planes(initial).contiguous()
        h = _states(a, _planes(b), initial, reset, ctx.form)
        ctx.save_for_backward(a, h, initial, reset)
        return _numbers(h, ctx.form)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        a, h, initial, reset = ctx.saved_tensors
        grad_b = h.new_empty(h.shape, dtype=ctx.b_dtype)
        grad_a, grad_initial = _adjoint(a, h, initial, reset, _planes(grads[0]), grad_b, ctx.form)
        return _numbers(grad_a, ctx.form), _numbers(grad_b, ctx.form), _numbers(grad_initial, ctx.form), None


class _GatedRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, preactivations: Tensor, initial: Tensor, reset: Tensor | None, signed: bool) -> Tensor:
        ctx.form = _Form(gates=preactivations.shape[2] // initial.shape[1] - 1, positive=not signed)
        preactivations, initial = _planes(preactivations), initial.contiguous()
        h = _states(preactivations, preactivations, initial, reset, ctx.form)
        ctx.save_for_backward(preactivations, h, initial, reset)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        preactivations, h, initial, reset = ctx.saved_tensors
        return *_adjoint(preactivations, h, initial, reset, _planes(grads[0]), h, ctx.form), None, None


def _states(a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None, form: _Form) -> Tensor:
    """h, (batch, time, width); arguments and result are real numbers, as from `_planes`."""
    (batch, time, _), width = b.shape, initial.shape[1]
    h = initial.new_empty(batch, time, width)
    plan = _Plan.of(h, form)

    def launch(before: Tensor, out: Tensor, decay: Tensor, summary: bool) -> None:
        if plan.grid[0]:
            states_kernel[plan.grid](
                a, b, before, _flags(reset, h), out, decay,
                time, width, plan.length, plan.chunks, *_strides(a), *_strides(b),
                **plan.options(a, reset, form), summary=summary, stages=3,
            )  # fmt: skip

    with torch.cuda.device_of(h):
        if plan.chunks > 1:
            decay, last = h.new_empty(2, batch, plan.chunks, width)
            launch(initial, last, decay, True)
            initial = _before_chunks(decay, last, initial, None if reset is None else plan.begun(reset), form)
        launch(initial, h, h, False)
    return h


def _adjoint(
    a: Tensor, h: Tensor, initial: Tensor, reset: Tensor | None, grad: Tensor, grad_b: Tensor, form: _Form
) -> tuple[Tensor, Tensor]:
    """The gradients of a and of the initial state; the gradient of b is written to grad_b, unless there are gates."""
    batch, time, width = h.shape
    plan = _Plan.of(h, form)
    constant = a.dim() == 1
    grad_a = h.new_empty(batch, plan.chunks, width) if constant else a.new_empty(a.shape)
    grad_initial = torch.empty_like(initial)

    def launch(later: Tensor, out: Tensor, decay: Tensor, summary: bool) -> None:
        if plan.grid[0]:
            adjoint_kernel[plan.grid](
                a, h, initial, _flags(reset, h), grad, later, grad_a, out, grad_initial, decay,
                time, width, plan.length, plan.chunks, *_strides(a), *_strides(grad),
                **plan.options(a, reset, form), summary=summary, stages=2,
            )  # fmt: skip

    with torch.cuda.device_of(h):
        later = torch.zeros_like(initial)
        if plan.chunks > 1:
            decay, last = h.new_empty(2, batch, plan.chunks, width)
            launch(later, last, decay, True)
            # The gradient flows from step t + 1 back to t, so the latest chunk comes first.
            begun = None if reset is None else plan.begun(F.pad(reset[:, 1:], (0, 1))).flip(1)
            later = _before_chunks(decay, last, later, begun, form)
        launch(later, grad_b, h, False)
    return grad_a.sum((0, 1)).to(a.dtype) if constant else grad_a, grad_initial


def _before_chunks(decay: Tensor, last: Tensor, initial: Tensor, reset: Tensor | None, form: _Form) -> Tensor:
    """The state before every chunk, by the same recurrence over the chunks' maps."""
    after = _states(decay, last, initial, reset, _Form(is_complex=form.is_complex))
    return torch.cat([initial.unsqueeze(1), after[:, :-1]], dim=1)


class _Plan(NamedTuple):
    """The division of the work: tiles of block_t steps and block_w channels, chunks of `length` steps, and programs."""

    dtype: tl.dtype
    block_t: int
    block_w: int
    length: int
    chunks: int
    grid: tuple[int]

    @classmethod
    def of(cls, h: Tensor, form: _Form) -> "_Plan":
        batch, time, width = h.shape
        parts = 2 if form.is_complex else 1
        # With less than 16 x 16 numbers, some of a program's 128 threads would be idle.
        block_w = 32 if width > 16 * parts else 16
        block_t = max(16, min(TILE_BYTES // (parts * h.element_size()), triton.next_power_of_2(time)))
        strips = batch * triton.cdiv(width, parts * block_w)
        chunks = 1
        if strips and 2 * strips < _processors(h.device):
            chunks = max(1, min(_processors(h.device) // strips, time // LEAST_CHUNK))
        length = triton.cdiv(triton.cdiv(time, chunks), block_t) * block_t
        chunks = max(1, triton.cdiv(time, max(1, length)))
        dtype = tl.float64 if h.dtype == torch.float64 else tl.float32
        return cls(dtype, block_t, block_w, length, chunks, (strips * chunks,))

    def begun(self, reset: Tensor) -> Tensor:
        """Whether an episode begins in each chunk, (batch, chunks)."""
        whole = F.pad(reset, (0, self.chunks * self.length - reset.shape[1]))
        return whole.unflatten(1, (self.chunks, self.length)).any(2)

    def options(self, a: Tensor, reset: Tensor | None, form: _Form) -> dict[str, Any]:
        return {
            **form._asdict(),
            "constant": a.dim() == 1,
            "resets": reset is not None,
            "dtype": self.dtype,
            "block_t": self.block_t,
            "block_w": self.block_w,
        }


def _processors(device: torch.device) -> int:
    """How many programs run in parallel; one in the interpreter, on the CPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def _state_dtype(x: Tensor) -> torch.dtype:
    """The dtype of the states: float32 or wider."""
    return torch.promote_types(x.dtype, torch.float32)


def _planes(x: Tensor) -> Tensor:
    """x as real numbers, contiguous along the channels, with real and imaginary parts interleaved."""
    if x.is_complex():
        x = torch.view_as_real(x.resolve_conj()).flatten(-2)
    return x if x.stride(-1) == 1 else x.contiguous()


def _numbers(x: Tensor, form: _Form) -> Tensor:
    """The inverse of `_planes`."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2))) if form.is_complex else x


def _flags(reset: Tensor | None, otherwise: Tensor) -> Tensor:
    """Reset flags as bytes for the kernels, or `otherwise`: without resets, the pointer is not read."""
    return otherwise if reset is None else reset.contiguous().view(torch.uint8)


def _strides(x: Tensor) -> tuple[int, int]:
    """The strides of a batch row and of a step; zero for a constant decay."""
    return (0, 0) if x.dim() == 1 else (x.stride(0), x.stride(1))

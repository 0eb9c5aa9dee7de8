"""The loops of recurrence.py over h_t = a_t * h_{t-1} + b_t and over its adjoint, as one kernel on CUDA.

A program is one warp. Its threads compute neighbouring channels of one batch row, one step after another; the next 32
steps are loaded in the meantime, or 16 where many programs hide each other's loads.

If batch and width make fewer programs than the GPU runs at once, time is split into chunks, each with its own programs.
A first launch composes the steps of each chunk; in a second, which reads a and b again, each program composes the
chunks before its own and starts from their state.

The numbers of steps, channels, chunks and programs were chosen by times on an H200.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

STEPS, CHANNELS = 32, 32
"""The real numbers of a channel that are loaded at once, and the channels of a program."""
MANY = 1024
"""Number of unchunked programs from which only half as many numbers are loaded at once."""


@triton.jit
def _numbers(row, dtype: tl.constexpr, is_complex: tl.constexpr):
    """The real and imaginary parts of a row, neighbours in memory; for real numbers, the numbers twice."""
    if is_complex:
        return tl.split(tl.reshape(row.to(dtype), (row.shape[0] // 2, 2)))
    else:
        return row.to(dtype), row.to(dtype)


@triton.jit
def _store(pointer, re, im, inside, is_complex: tl.constexpr):
    row = tl.reshape(tl.join(re, im), (re.shape[0] * 2,)) if is_complex else re
    tl.store(pointer, row, inside)


@triton.jit
def _times(a_re, a_im, re, im, is_complex: tl.constexpr):
    if is_complex:
        return a_re * re - a_im * im, a_re * im + a_im * re
    else:
        return a_re * re, im


@triton.jit
def _load_steps(a, b, t, left, width, one, direction: tl.constexpr, steps: tl.constexpr):
    """The rows of a and b from step t on, of which `left` are in the chunk; the others, 1 and 0, keep the state."""
    rows = ()
    for s in tl.static_range(steps):
        offset = (t + direction * s) * width
        rows = rows + ((tl.load(a + offset, s < left, one), tl.load(b + offset, s < left, 0.0)),)  # noqa: RUF005
    return rows


@triton.jit(do_not_specialize=["time", "length"])
def recurrence_kernel(
    a, b, initial, decays, ends, h, time, width, length,
    compose: tl.constexpr, backward: tl.constexpr, is_complex: tl.constexpr, steps: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    """All h into h, (batch, time, width), from a, b and the h before, `initial`, (batch, width): h_t = a_t h_{t-1} +
    b_t; or, if `backward`, h_t = conj(a_{t+1}) h_{t+1} + b_t, and conj(a_0) h_0 into `initial`.

    Time is split into chunks of `length` steps. If `compose`, writes only the product of each chunk's decays and what
    it adds to the state into `decays` and `ends`, (batch, chunks, width); otherwise reads those of the chunks before.
    `width` and `columns` count real numbers, two for a complex one.
    """
    strips, chunks = tl.cdiv(width, columns), tl.cdiv(time, length)
    program = tl.program_id(0)
    column = program % strips * columns + tl.arange(0, columns)
    chunk = program // strips % chunks
    row = (program // strips // chunks).to(tl.int64)
    inside = column < width
    dtype: tl.constexpr = h.dtype.element_ty
    one = (1 - column % 2).to(tl.float32) if is_complex else 1.0
    # The state before a step, or if `backward` what the steps after it add to the gradient of its state
    carry = tl.zeros((columns,), dtype)
    if not (compose or backward):
        carry = tl.load(initial + row * width + column, inside, 0.0)
    re, im = _numbers(carry, dtype, is_complex)
    decay_re, decay_im = tl.full(re.shape, 1.0, dtype), tl.zeros(re.shape, dtype)
    if not compose:
        for i in range(chunks - 1 - chunk if backward else chunk):
            offset = (row * chunks + (chunks - 1 - i if backward else i)) * width + column
            a_re, a_im = _numbers(tl.load(decays + offset, inside, 0.0), dtype, is_complex)
            b_re, b_im = _numbers(tl.load(ends + offset, inside, 0.0), dtype, is_complex)
            re, im = _times(a_re, a_im, re, im, is_complex)
            re, im = re + b_re, im + b_im
    offset = row * time * width + column
    a, b, h = a + offset, b + offset, h + offset
    direction: tl.constexpr = -1 if backward else 1
    first = chunk * length
    end = tl.minimum(first + length, time)
    t = end - 1 if backward else first
    left = tl.where(inside, end - first, 0)
    ahead = _load_steps(a, b, t, left, width, one, direction, steps)
    for _ in range(tl.cdiv(end - first, steps)):
        rows = ahead
        ahead = _load_steps(a, b, t + direction * steps, left - steps, width, one, direction, steps)
        for s in tl.static_range(steps):
            a_row, b_row = rows[s]
            a_re, a_im = _numbers(a_row, dtype, is_complex)
            b_re, b_im = _numbers(b_row, dtype, is_complex)
            if backward:
                a_im = -a_im
                h_re, h_im = re + b_re, im + b_im
                re, im = _times(a_re, a_im, h_re, h_im, is_complex)
            else:
                re, im = _times(a_re, a_im, re, im, is_complex)
                re, im = re + b_re, im + b_im
                h_re, h_im = re, im
            if compose:
                decay_re, decay_im = _times(a_re, a_im, decay_re, decay_im, is_complex)
            else:
                _store(h + (t + direction * s) * width, h_re, h_im, s < left, is_complex)
        t, left = t + direction * steps, left - steps
    if compose:
        offset = (row * chunks + chunk) * width + column
        _store(decays + offset, decay_re, decay_im, inside, is_complex)
        _store(ends + offset, re, im, inside, is_complex)
    elif backward:  # noqa: SIM102
        if chunk == 0:
            _store(initial + row * width + column, re, im, inside, is_complex)


def states(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    """All states of the recurrence, (batch, time, width), of the dtype of `initial`, (batch, width). a and b have the
    shape of the states, and may be in half precision."""
    return _run(a, b, initial.resolve_conj().contiguous(), backward=False)


def adjoint(a: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """As `_adjoint` of recurrence.py."""
    grad_initial = grad.new_empty(grad.shape[0], grad.shape[2])
    return _run(a, grad, grad_initial, backward=True), grad_initial


def chunk_count(programs: int, time: int, device: torch.device) -> int:
    """Chunks into which time is split, so that each of the GPU's multiprocessors has up to eight programs; 1 if each
    has two without chunks, or if time is short."""
    if device.type != "cuda" or time < 256:
        return 1
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return min(8 * processors // programs, time // 64) if programs < 2 * processors else 1


def _run(a: Tensor, b: Tensor, initial: Tensor, backward: bool) -> Tensor:
    h = torch.empty(b.shape, dtype=initial.dtype, device=b.device)
    if not h.numel():
        return h
    batch, time, width = b.shape
    programs, reals = batch * triton.cdiv(width, CHANNELS), 2 if h.is_complex() else 1
    assert time * width * reals < 2**31, "the kernel addresses a row of the batch by 32-bit integers"
    length = STEPS * triton.cdiv(time, STEPS * chunk_count(programs, time, h.device))
    chunks = triton.cdiv(time, length)
    decays, ends = h.new_empty(2, batch, chunks, width) if chunks > 1 else (h, h)
    tensors = [a.resolve_conj().contiguous(), b.resolve_conj().contiguous(), initial, decays, ends, h]
    tensors = [torch.view_as_real(x) if x.is_complex() else x for x in tensors]
    steps = STEPS // reals // (2 if programs >= MANY else 1)
    options = {"backward": backward, "is_complex": reals == 2, "steps": steps, "columns": CHANNELS * reals}
    for compose in [True, False] if chunks > 1 else [False]:
        recurrence_kernel[(programs * chunks,)](*tensors, time, width * reals, length, compose, **options, num_warps=1)
    return h

"""The loops of recurrence.py over h_t = a_t * h_{t-1} + b_t and over its adjoint, as one kernel on CUDA.

One thread per batch row and channel goes through time step by step; neighbouring threads read neighbouring channels.
Tested on an H200 and in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

CHANNELS = 128
"""Threads of a program, each with one channel."""


@triton.jit
def _load(pointer, inside, is_complex: tl.constexpr):
    """The real and imaginary parts, neighbours in memory; for real numbers, the number and zero."""
    re = tl.load(pointer, mask=inside, other=0.0)
    im = tl.load(pointer + 1, mask=inside, other=0.0) if is_complex else tl.zeros_like(re)
    return re, im


@triton.jit
def _store(pointer, re, im, inside, is_complex: tl.constexpr):
    tl.store(pointer, re, mask=inside)
    if is_complex:
        tl.store(pointer + 1, im, mask=inside)


@triton.jit
def recurrence_kernel(
    a, b, carry, h, time, width, backward: tl.constexpr, is_complex: tl.constexpr, channels: tl.constexpr
):  # fmt: skip
    """All h into h, from a, b, (batch, time, width), and the h before, (batch, width), in `carry`: h_t = a_t h_{t-1} +
    b_t; or, if `backward`, h_t = a_{t+1} h_{t+1} + b_t, and what it adds to the step before the first into `carry`."""
    strips = tl.cdiv(width, channels)
    row = (tl.program_id(0) // strips).to(tl.int64)
    channel = (tl.program_id(0) % strips) * channels + tl.arange(0, channels)
    inside = channel < width
    parts: tl.constexpr = 2 if is_complex else 1
    carried = carry + (row * width + channel) * parts
    re, im = _load(carried, inside, is_complex)
    for i in range(time):
        t = time - 1 - i if backward else i
        place = ((row * time + t) * width + channel) * parts
        a_re, a_im = _load(a + place, inside, is_complex)
        b_re, b_im = _load(b + place, inside, is_complex)
        if backward:
            re, im = re + b_re, im + b_im
            _store(h + place, re, im, inside, is_complex)
            re, im = a_re * re - a_im * im, a_re * im + a_im * re
        else:
            re, im = a_re * re - a_im * im + b_re, a_re * im + a_im * re + b_im
            _store(h + place, re, im, inside, is_complex)
    _store(carried, re, im, inside, is_complex)


def states(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    """All states of the recurrence, (batch, time, width); a and b have that shape, and `initial` is (batch, width)."""
    return _run(a, b, initial, backward=False)[0]


def adjoint(a: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """As `_adjoint` of recurrence.py."""
    return _run(a, grad, torch.zeros_like(grad[:, 0]), backward=True)


def _run(a: Tensor, b: Tensor, before: Tensor, backward: bool) -> tuple[Tensor, Tensor]:
    a, b = a.resolve_conj().contiguous(), b.resolve_conj().contiguous()
    h, carry = torch.empty_like(b), before.resolve_conj().clone(memory_format=torch.contiguous_format)
    tensors = [torch.view_as_real(x) if x.is_complex() else x for x in (a, b, carry, h)]
    batch, time, width = h.shape
    if h.numel():
        grid = (batch * triton.cdiv(width, CHANNELS),)
        recurrence_kernel[grid](*tensors, time, width, backward, h.is_complex(), CHANNELS)
    return h, carry

"""The recurrence h_t = a_t * h_{t-1} + b_t and its adjoint on CUDA, called by recurrence.py.

One thread per batch row and channel goes through time step by step; neighbouring threads read neighbouring channels.
The meaning of a and b:

    gates 0    a and b, as given
    gates 1    minGRU: `a` has the pre-activations of z and c;  a_t = 1 - z_t,  b_t = z_t g(c_t)
    gates 2    minLSTM: those of f, i and c;  z_t = i_t / (f_t + i_t), then as for minGRU

g is that of mingru.py if `positive`, else the identity. The operators take real numbers: the real and imaginary parts
of complex numbers are neighbours in memory. An infinite h before a reset stays there: it is replaced, not multiplied.

Run through Triton's interpreter and compiled for compute capability 9.0, but not yet run on a GPU.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

from decision_rnn.backbones.ops.first_order import first_order

CHANNELS = 128
"""Threads of a program, each with one channel."""


@triton.jit
def _load(pointer, inside, is_complex: tl.constexpr, dtype: tl.constexpr):
    """The real and imaginary parts; for real numbers, the number and zero."""
    re = tl.load(pointer, mask=inside, other=0.0).to(dtype)
    im = tl.load(pointer + 1, mask=inside, other=0.0).to(dtype) if is_complex else tl.zeros_like(re)
    return re, im


@triton.jit
def _store(pointer, re, im, inside, is_complex: tl.constexpr):
    tl.store(pointer, re, mask=inside)
    if is_complex:
        tl.store(pointer + 1, im, mask=inside)


@triton.jit
def _multiply(a_re, a_im, b_re, b_im, is_complex: tl.constexpr):
    if is_complex:
        re, im = a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re
    else:
        re, im = a_re * b_re, a_im
    return re, im


@triton.jit
def _sigmoid(x):
    """sigmoid(x) and sigmoid(-x), neither by subtraction from 1."""
    small = tl.exp(-tl.abs(x))
    high = 1.0 / (1.0 + small)
    low = small * high
    return tl.where(x >= 0, high, low), tl.where(x >= 0, low, high)


@triton.jit
def _gates(pointer, inside, width, gates: tl.constexpr, positive: tl.constexpr, dtype: tl.constexpr):
    """z, 1 - z and g(c) from the pre-activations; and for minLSTM, 1 - f and 1 - i."""
    first = tl.load(pointer, mask=inside, other=0.0).to(dtype)
    candidate = tl.load(pointer + gates * width, mask=inside, other=0.0).to(dtype)
    if positive:
        activated, _ = _sigmoid(candidate)
        candidate = tl.maximum(candidate + 0.5, activated)
    if gates == 2:
        # i / (f + i) from the difference of log i and log f, since f and i may both underflow:
        # log sigmoid(x) = min(x, 0) - log(1 + exp(-|x|)).
        second = tl.load(pointer + width, mask=inside, other=0.0).to(dtype)
        difference = tl.minimum(second, 0.0) - tl.minimum(first, 0.0)
        small = tl.exp(-tl.abs(difference))
        insert = tl.where(difference >= 0, 1.0, small) * (1.0 + tl.exp(-tl.abs(first)))
        forget = tl.where(difference >= 0, small, 1.0) * (1.0 + tl.exp(-tl.abs(second)))
        z, keep = insert / (forget + insert), forget / (forget + insert)
        _, not_f = _sigmoid(first)
        _, not_i = _sigmoid(second)
    else:
        z, keep = _sigmoid(first)
        not_f, not_i = z, z
    return z, keep, candidate, not_f, not_i


@triton.jit
def _place(width, channels: tl.constexpr):
    """The program's batch row, its channels, and which of them exist."""
    strips = tl.cdiv(width, channels)
    channel = (tl.program_id(0) % strips) * channels + tl.arange(0, channels)
    return (tl.program_id(0) // strips).to(tl.int64), channel, channel < width


@triton.jit
def states_kernel(
    a, b, initial, reset, h,
    time, width, a_row, a_time, b_row, b_time,
    gates: tl.constexpr, positive: tl.constexpr, resets: tl.constexpr, is_complex: tl.constexpr,
    dtype: tl.constexpr, channels: tl.constexpr,
):  # fmt: skip
    """All states, into h, (batch, time, width). a and b have strides for a batch row and for a step."""
    row, channel, inside = _place(width, channels)
    parts: tl.constexpr = 2 if is_complex else 1
    column = channel * parts
    h_re, h_im = _load(initial + row * width * parts + column, inside, is_complex, dtype)
    for t in range(time):
        if resets:
            begins = tl.load(reset + row * time + t) != 0
            h_re, h_im = tl.where(begins, 0.0, h_re), tl.where(begins, 0.0, h_im)
        if gates > 0:
            z, a_re, c, _, _ = _gates(a + row * a_row + t * a_time + column, inside, width, gates, positive, dtype)
            a_im, b_re, b_im = h_im, z * c, h_im
        else:
            a_re, a_im = _load(a + row * a_row + t * a_time + column, inside, is_complex, dtype)
            b_re, b_im = _load(b + row * b_row + t * b_time + column, inside, is_complex, dtype)
        h_re, h_im = _multiply(a_re, a_im, h_re, h_im, is_complex)
        h_re, h_im = h_re + b_re, h_im + b_im
        _store(h + (row * time + t) * width * parts + column, h_re, h_im, inside, is_complex)


@triton.jit
def adjoint_kernel(
    a, h, initial, reset, grad, grad_a, grad_b, grad_initial,
    time, width, a_row, a_time, grad_row, grad_time,
    constant: tl.constexpr, gates: tl.constexpr, positive: tl.constexpr, resets: tl.constexpr,
    is_complex: tl.constexpr, dtype: tl.constexpr, channels: tl.constexpr,
):  # fmt: skip
    """All gradients from that of h, by d_t = grad_t + conj(a_{t+1}) d_{t+1}, from the last step back.

    grad b_t = d_t and grad a_t = d_t conj(h_{t-1}), all (batch, time, width); with `constant`, the latter is summed
    over time, (batch, width). With gates, the gradients of the pre-activations are written into grad_a,
    (batch, time, (gates + 1) width), and none into grad_b.
    """
    row, channel, inside = _place(width, channels)
    parts: tl.constexpr = 2 if is_complex else 1
    column = channel * parts
    before_re, before_im = _load(initial + row * width * parts + column, inside, is_complex, dtype)
    d_re, d_im = tl.zeros_like(before_re), tl.zeros_like(before_re)
    sum_re, sum_im = d_re, d_re
    for i in range(time):
        t = time - 1 - i
        place = (row * time + t) * width * parts + column
        grad_re, grad_im = _load(grad + row * grad_row + t * grad_time + column, inside, is_complex, dtype)
        d_re, d_im = d_re + grad_re, d_im + grad_im
        p_re, p_im = _load(h + place - width * parts, inside & (t + channel > channel), is_complex, dtype)
        p_re, p_im = tl.where(t > 0, p_re, before_re), tl.where(t > 0, p_im, before_im)
        if resets:
            begins = tl.load(reset + row * time + t) != 0
            p_re, p_im = tl.where(begins, 0.0, p_re), tl.where(begins, 0.0, p_im)
        if gates > 0:
            at = a + row * a_row + t * a_time + column
            z, a_re, c, not_f, not_i = _gates(at, inside, width, gates, positive, dtype)
            a_im = d_im
            grad_c = d_re * z
            grad_z = a_re * grad_c * (c - p_re)  # the gradient of z's pre-activation
            if positive:
                grad_c = tl.where(c > 0.5, grad_c, grad_c * c * (1.0 - c))
            out = grad_a + (row * time + t) * width * (gates + 1) + column
            if gates == 2:
                tl.store(out, -not_f * grad_z, mask=inside)
                tl.store(out + width, not_i * grad_z, mask=inside)
            else:
                tl.store(out, grad_z, mask=inside)
            tl.store(out + gates * width, grad_c, mask=inside)
        else:
            a_re, a_im = _load(a + row * a_row + t * a_time + column, inside, is_complex, dtype)
            _store(grad_b + place, d_re, d_im, inside, is_complex)
            g_re, g_im = _multiply(d_re, d_im, p_re, -p_im, is_complex)
            if constant:
                sum_re, sum_im = sum_re + g_re, sum_im + g_im
            else:
                _store(grad_a + place, g_re, g_im, inside, is_complex)
        d_re, d_im = _multiply(a_re, -a_im, d_re, d_im, is_complex)
        if resets:
            d_re, d_im = tl.where(begins, 0.0, d_re), tl.where(begins, 0.0, d_im)
    place = row * width * parts + column
    _store(grad_initial + place, d_re, d_im, inside, is_complex)
    if constant:
        _store(grad_a + place, sum_re, sum_im, inside, is_complex)


@triton_op("decision_rnn::recurrence", mutates_args=())
def states(
    a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None, gates: int, positive: bool, is_complex: bool
) -> Tensor:
    """All states, (batch, time, width), as real numbers; a and b are the pre-activations if there are gates."""
    h = initial.new_empty(*b.shape[:2], initial.shape[1])
    a, b = _dense(a), _dense(b)
    if h.numel():
        wrap_triton(states_kernel)[_grid(h, is_complex)](
            a, b, initial.contiguous(), h if reset is None else reset, h,
            h.shape[1], h.shape[2] // (1 + is_complex), *_strides(a), *_strides(b),
            gates, positive, reset is not None, is_complex, _dtype(h), CHANNELS,
        )  # fmt: skip
    return h


@triton_op("decision_rnn::recurrence_adjoint", mutates_args=())
def adjoint(
    a: Tensor, h: Tensor, initial: Tensor, reset: Tensor | None, grad: Tensor, gates: int, positive: bool,
    is_complex: bool, b_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of a, b (empty if there are gates) and initial."""
    a, grad, initial, constant = _dense(a), _dense(grad), initial.contiguous(), a.dim() == 1
    grad_a = h.new_zeros(len(h), len(a)) if constant else a.new_empty(a.shape)
    grad_b = h.new_empty(0 if gates else h.shape, dtype=b_dtype)
    grad_initial = torch.zeros_like(initial)
    if h.numel():
        wrap_triton(adjoint_kernel)[_grid(h, is_complex)](
            a, h, initial, h if reset is None else reset, grad, grad_a, grad_b, grad_initial,
            h.shape[1], h.shape[2] // (1 + is_complex), *_strides(a), *_strides(grad),
            constant, gates, positive, reset is not None, is_complex, _dtype(h), CHANNELS,
        )  # fmt: skip
    return grad_a.sum(0).to(a.dtype) if constant else grad_a, grad_b, grad_initial


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, initial, reset, *ctx.form = inputs
    ctx.b_dtype = b.dtype
    ctx.save_for_backward(a, output, initial, reset)


@first_order
def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    a, h, initial, reset = ctx.saved_tensors
    grad_a, grad_b, grad_initial = adjoint(a, h, initial, reset, grad, *ctx.form, ctx.b_dtype)
    return grad_a, None if ctx.form[0] else grad_b, grad_initial, None, None, None, None


states.register_autograd(_backward, setup_context=_save)


def linear_recurrence(a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None) -> Tensor:
    """As recurrence.linear_recurrence, with `reset`, (batch, time) bool."""
    initial = initial.to(torch.promote_types(b.dtype, torch.float32))
    if not b.is_complex():
        return states(a, b, initial, _bytes(reset), 0, False, False)
    a, b, initial = (torch.view_as_real(part.resolve_conj()).flatten(-2) for part in (a, b, initial))
    return torch.view_as_complex(states(a, b, initial, _bytes(reset), 0, False, True).unflatten(-1, (-1, 2)))


def gated_recurrence(preactivations: Tensor, initial: Tensor, reset: Tensor | None, signed: bool) -> Tensor:
    """As recurrence.gated_recurrence, with `reset`, (batch, time) bool."""
    initial = initial.to(torch.promote_types(preactivations.dtype, torch.float32))
    gates = preactivations.shape[2] // initial.shape[1] - 1
    return states(preactivations, preactivations.detach(), initial, _bytes(reset), gates, not signed, False)


def _grid(h: Tensor, is_complex: bool) -> tuple[int]:
    return (len(h) * triton.cdiv(h.shape[2] // (1 + is_complex), CHANNELS),)


def _dense(x: Tensor) -> Tensor:
    """x, contiguous along the channels."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _strides(x: Tensor) -> tuple[int, int]:
    """The strides of a batch row and of a step; zero for a constant decay."""
    return (0, 0) if x.dim() == 1 else (x.stride(0), x.stride(1))


def _bytes(reset: Tensor | None) -> Tensor | None:
    return None if reset is None else reset.contiguous().view(torch.uint8)


def _dtype(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32

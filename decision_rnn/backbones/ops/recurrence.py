"""The linear recurrence h_t = a_t * h_{t-1} + b_t that the linear mixers share.

On a CPU core, parallelism over time does not pay: an in-place loop over the steps with a hand-written backward pass
beats log-space, associative and convolutional scans at every length, and is exact. On CUDA each step of the loop would
launch a kernel of its own, so there the whole recurrence is one kernel (recurrence_triton.py). This module selects the
implementation by the tensors' device; without Triton, the loop runs on CUDA too. `torch.compile` gets a loop without
a hand-written gradient, since it differentiates and fuses what it sees.
"""

import functools
import itertools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from decision_rnn.backbones.ops.first_order import first_order
from decision_rnn.backbones.resets import located, rows_by_step, with_rows


def linear_recurrence(a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None = None) -> Tensor:
    """All states of h_t = a_t * h_{t-1} + b_t.

    Computed in float32 (complex64) or wider, even if autocast passes gates in half precision. Second derivatives are
    refused: NotImplementedError.

    Args:
        a: (batch, time, width), or (width,) for a decay that is constant in time; real or complex.
        b: (batch, time, width), of the same dtype.
        initial: h before the first step, (batch, width).
        reset: Where h_{t-1} is replaced by zero.

    Returns:
        h: (batch, time, width).
    """
    kernels = _kernels(b)
    if kernels is not None:
        return kernels.linear_recurrence(a, b, initial, reset)
    if b.dtype in (torch.bfloat16, torch.float16):
        a, b = a.float(), b.float()
    if torch.compiler.is_compiling():
        return _traced_recurrence(a, b, initial.to(b.dtype), reset)
    return _LinearRecurrence.apply(a, b, initial.to(b.dtype), reset)


def gated_recurrence(preactivations: Tensor, initial: Tensor, reset: Tensor | None, signed: bool) -> Tensor:
    """All states of h_t = (1 - z_t) * h_{t-1} + z_t * g(c_t), fused with the computation of z from the gates.

    Args:
        preactivations: (batch, time, parts * width), of minGRU's z and c (two parts; mingru.py) or minLSTM's f, i and
            c (three; minlstm.py); half precision is widened to that of the state.
        initial: h before the first step, (batch, width).
        reset: Where h_{t-1} is replaced by zero.
        signed: Whether g is the identity rather than the paper's positive function.

    Returns:
        h: (batch, time, width).
    """
    kernels = _kernels(preactivations)
    if kernels is not None:
        return kernels.gated_recurrence(preactivations, initial, reset, signed)
    preactivations = preactivations.to(initial.dtype)
    if torch.compiler.is_compiling():
        _, gate, candidate = _gates_and_candidate(preactivations, initial.shape[1], signed)
        return _traced_recurrence(1 - gate, gate * candidate, initial, reset)
    return _GatedRecurrence.apply(preactivations, initial, reset, signed)


def _gates_and_candidate(preactivations: Tensor, width: int, signed: bool) -> tuple[list[Tensor], Tensor, Tensor]:
    """The pre-activations of the gates, z, and g(c), each (batch, time, width)."""
    *gates, candidate = preactivations.chunk(preactivations.shape[2] // width, dim=-1)
    return gates, torch.sigmoid(log_odds(gates)), candidate if signed else positive(candidate)


def log_odds(gates: Sequence[Tensor]) -> Tensor:
    """log z - log(1 - z), from the pre-activation of minGRU's z or those of minLSTM's f and i, z = i / (f + i)."""
    return gates[0] if len(gates) == 1 else F.logsigmoid(gates[1]) - F.logsigmoid(gates[0])


def positive(x: Tensor) -> Tensor:
    """The g of minGRU and minLSTM: x + 0.5 for x >= 0, sigmoid(x) otherwise; positive and increasing.

    sigmoid(x) > x + 0.5 exactly where x < 0, so g is their maximum, which is five times faster than a `where`.
    """
    return torch.maximum(x + 0.5, torch.sigmoid(x))


def _kernels(x: Tensor) -> ModuleType | None:
    """The kernels for the device of x; None if there are none, or for the compiler, so that the loop runs."""
    return _triton_kernels() if x.is_cuda and not torch.compiler.is_compiling() else None


@functools.cache
def _triton_kernels() -> ModuleType | None:
    """The Triton kernels; None if Triton, which comes with torch's CUDA builds for Linux, is missing."""
    try:
        from decision_rnn.backbones.ops import recurrence_triton
    except ModuleNotFoundError:
        return None
    return recurrence_triton


def log_space_recurrence(log_a: Tensor, log_b: Tensor, initial: Tensor, reset: Tensor | None = None) -> Tensor:
    """All states of h_t = a_t * h_{t-1} + b_t for positive a and b, from their logarithms, in parallel over time.

    Feng et al., "Were RNNs All We Needed?" (2024), appendix B.1, after Heinsen, "Efficient Parallelization of a
    Ubiquitous Sequential Computation" (2023):

        A_t = sum_{s <= t} log a_s
        h_t = exp(A_t) h_0 + exp(A_t + log sum_{s <= t} exp(log b_s - A_s))

    The paper includes h_0 in the sum by its logarithm; here it is a separate term, so that it may be zero or negative
    and has a gradient. Exact up to rounding: the terms are differences of A, whose absolute precision falls as |A|
    grows with time, so that in float32 the relative error of h is about 1e-4 where |A| is 1000.

    Args:
        log_a: (batch, time, width), at most 0 for a decay.
        log_b: (batch, time, width).
        initial: h before the first step, (batch, width).
        reset: Where h_{t-1} is replaced by zero.

    Returns:
        h: (batch, time, width).
    """

    starts, time = rows_by_step(reset, log_a.shape[1]), log_a.shape[1]
    cuts = [t for t, rows in enumerate(starts) if t == 0 or rows is not None]
    h, pieces = initial, []
    for begin, end in itertools.pairwise([*cuts, time]):
        rows = starts[begin]
        if rows is not None:
            h = with_rows(h, rows, 0)
        total = log_a[:, begin:end].cumsum(1)
        inputs = torch.logcumsumexp(log_b[:, begin:end] - total, dim=1)
        pieces.append(torch.exp(total + inputs) + torch.exp(total) * h.unsqueeze(1))
        h = pieces[-1][:, -1]
    return torch.cat(pieces, dim=1)


def _traced_recurrence(a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None) -> Tensor:
    """`linear_recurrence` under `torch.compile`."""
    h, states = initial, []
    for a_t, b_t, rows in zip(_over_time(a, b), b.unbind(1), rows_by_step(reset, b.shape[1]), strict=True):
        h = torch.addcmul(b_t, a_t, h if rows is None else with_rows(h, rows, 0))
        states.append(h)
    return torch.stack(states, dim=1)


class _LinearRecurrence(torch.autograd.Function):
    """The loop and its adjoint: grad b_t = d_t and grad a_t = d_t conj(h_{t-1}), with d as in `run_adjoint`."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None) -> Tensor:
        h = torch.empty_like(b, memory_format=torch.contiguous_format)
        previous = initial
        starts = rows_by_step(reset, b.shape[1])
        for a_t, b_t, h_t, rows in zip(_over_time(a, b), b.unbind(1), h.unbind(1), starts, strict=True):
            if rows is not None:
                previous = previous.index_fill(0, rows, 0)
            torch.addcmul(b_t, a_t, previous, out=h_t)
            previous = h_t
        ctx.save_for_backward(a, h, initial)
        ctx.reset = reset
        return h

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None]:
        (a, h, initial), reset = ctx.saved_tensors, ctx.reset
        d, grad_initial = run_adjoint(a.conj().resolve_conj(), grads[0], reset)
        grad_a = None
        if ctx.needs_input_grad[0]:
            grad_a = d * previous_states(h, initial, reset).conj()
            if a.dim() == 1:
                grad_a = grad_a.sum(dim=(0, 1))
        return grad_a, d, grad_initial, None


class _GatedRecurrence(torch.autograd.Function):
    """The equations from pre-activations to h, with one hand-written backward pass.

    Fused because the recurrence is cheap: under autograd, gates and candidates would cost more than all the rest. For
    minLSTM, let G be the gradient of z times z (1 - z), with z = sigmoid(log i - log f): the gradient of the forget
    gate's pre-activation is then -(1 - f) G, and that of the input gate's (1 - i) G.
    """

    @staticmethod
    def forward(ctx: Any, preactivations: Tensor, initial: Tensor, reset: Tensor | None, signed: bool) -> Tensor:
        gates, gate, candidate = _gates_and_candidate(preactivations, initial.shape[1], signed)
        h = torch.empty_like(gate, memory_format=torch.contiguous_format)
        previous = initial
        steps = zip(gate.unbind(1), candidate.unbind(1), h.unbind(1), rows_by_step(reset, h.shape[1]), strict=True)
        for gate_t, candidate_t, h_t, rows in steps:
            if rows is not None:
                previous = previous.index_fill(0, rows, 0)
            torch.lerp(previous, candidate_t, gate_t, out=h_t)
            previous = h_t
        ctx.save_for_backward(gate, candidate, h, initial, *(gates if len(gates) > 1 else ()))
        ctx.reset, ctx.signed = reset, signed
        return h

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        gate, candidate, h, initial, *gates = ctx.saved_tensors
        keep = 1 - gate
        d, grad_initial = run_adjoint(keep, grads[0], ctx.reset)
        parts = 1 + max(1, len(gates))
        grad = d.new_empty(*d.shape[:2], parts * d.shape[2])
        *grad_gates, grad_candidate = grad.chunk(parts, dim=-1)
        d.mul_(gate)  # now the gradient of the candidate
        torch.mul(keep.mul_(d), candidate - previous_states(h, initial, ctx.reset), out=grad_gates[-1])
        if gates:
            forget, insert = gates
            torch.mul(grad_gates[1], torch.sigmoid(-forget).neg_(), out=grad_gates[0])
            grad_gates[1].mul_(torch.sigmoid(-insert))
        if ctx.signed:
            grad_candidate.copy_(d)
        else:  # g' is 1 where g > 1/2, else g (1 - g)
            above = torch.ops.aten.threshold_backward(d, candidate, 0.5)  # d where g > 1/2, else 0
            slope = torch.addcmul(candidate, candidate, candidate, value=-1)
            torch.addcmul(above, d - above, slope, out=grad_candidate)
        return grad, grad_initial, None, None


def run_adjoint(a: Tensor, grad: Tensor, reset: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradient d_t of every state, from its output and from later steps.

    d_t = grad_t + a_{t+1} d_{t+1}. A reset at t cuts the chain between t-1 and t.

    Args:
        a: The (conjugate) decay, (batch, time, width) or (width,).
        grad: The gradient of the outputs, (batch, time, width).
        reset: Where it cuts the chain.

    Returns:
        d, (batch, time, width), and the gradient of the initial state, (batch, width).
    """
    d = torch.empty_like(grad, memory_format=torch.contiguous_format)
    steps = list(zip(_over_time(a, grad), grad.unbind(1), d.unbind(1), rows_by_step(reset, grad.shape[1]), strict=True))
    a_next = d_next = torch.zeros_like(grad[:, 0])  # a and d of the next step, zero after the last one
    starting = None
    for a_t, grad_t, d_t, rows in reversed(steps):
        torch.addcmul(grad_t, a_next, d_next, out=d_t)
        if starting is not None:  # overwrite the sum: multiplying by zero would turn infinities into NaN
            d_t.index_copy_(0, starting, grad_t.index_select(0, starting))
        a_next, d_next, starting = a_t, d_t, rows
    grad_initial = a_next * d_next
    return d, grad_initial if starting is None else grad_initial.index_fill_(0, starting, 0)


def previous_states(h: Tensor, initial: Tensor, reset: Tensor | None) -> Tensor:
    """h_{t-1} for every t, (batch, time, width): zero where an episode begins."""
    previous = torch.cat([initial.unsqueeze(1), h[:, :-1]], dim=1)
    resets = located(reset)
    return previous if resets is None else resets.fill_(previous, 0)


def _over_time(a: Tensor, like: Tensor) -> tuple[Tensor, ...]:
    """a_t for every step; for a constant decay, the same tensor every time."""
    return (a,) * like.shape[1] if a.dim() == 1 else a.unbind(1)

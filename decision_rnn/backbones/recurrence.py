"""The linear recurrence h_t = a_t * h_{t-1} + b_t that the linear mixers share.

On a CPU core there is no parallelism over time to buy: a loop that writes each step into its place, with a
hand-written backward pass, beats log-space, associative and convolutional scans at every length, and is exact.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def linear_recurrence(a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None = None) -> Tensor:
    """All states of h_t = a_t * h_{t-1} + b_t.

    Computed in float32 (complex64) or wider, also where autocast hands over half-precision gates.

    Args:
        a: (batch, time, width), or (width,) for a decay that is constant in time; real or complex.
        b: (batch, time, width), of the same dtype.
        initial: h before the first step, (batch, width).
        reset: (batch, time) bool; where true, h_{t-1} is taken as zero.

    Returns:
        h: (batch, time, width).
    """
    if b.dtype in (torch.bfloat16, torch.float16):
        a, b = a.float(), b.float()
    return _LinearRecurrence.apply(a, b, initial.to(b.dtype), reset)


def linear_recurrence_reference(a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None = None) -> Tensor:
    """The slow, obvious twin of `linear_recurrence`: the equation, one step after the other, under autograd."""
    a = a.expand_as(b)
    h, states = initial, []
    for t in range(b.shape[1]):
        if reset is not None:
            h = torch.where(reset[:, t, None], torch.zeros_like(h), h)
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, dim=1)


class _LinearRecurrence(torch.autograd.Function):
    """The loop and its adjoint: grad b_t = d_t and grad a_t = d_t conj(h_{t-1}), with d as in `run_adjoint`."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None) -> Tensor:
        h = torch.empty_like(b, memory_format=torch.contiguous_format)
        previous = initial
        keeps = _kept_rows(reset, b)
        for a_t, b_t, h_t, keep in zip(_over_time(a, b), b.unbind(1), h.unbind(1), keeps, strict=True):
            if keep is not None:
                previous = previous * keep
            torch.addcmul(b_t, a_t, previous, out=h_t)
            previous = h_t
        ctx.save_for_backward(a, h, initial, reset)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None]:
        a, h, initial, reset = ctx.saved_tensors
        d, grad_initial = run_adjoint(a.conj().resolve_conj(), grads[0], reset)
        grad_a = None
        if ctx.needs_input_grad[0]:
            grad_a = d * previous_states(h, initial, reset).conj()
            if a.dim() == 1:
                grad_a = grad_a.sum(dim=(0, 1))
        return grad_a, d, grad_initial, None


def run_interpolation(gate: Tensor, candidate: Tensor, initial: Tensor, reset: Tensor | None) -> Tensor:
    """All states of h_t = (1 - z_t) * h_{t-1} + z_t * c_t, for autograd functions that fuse the gates with it.

    Shapes as for `linear_recurrence`; nothing is recorded for autograd.
    """
    h = torch.empty_like(candidate, memory_format=torch.contiguous_format)
    previous = initial
    steps = zip(gate.unbind(1), candidate.unbind(1), h.unbind(1), _kept_rows(reset, h), strict=True)
    for gate_t, candidate_t, h_t, keep in steps:
        if keep is not None:
            previous = previous * keep
        torch.lerp(previous, candidate_t, gate_t, out=h_t)
        previous = h_t
    return h


def run_adjoint(a: Tensor, grad: Tensor, reset: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradient d_t that reaches every state from its output and from later steps.

    d_t = grad_t + a_{t+1} d_{t+1}. A reset at t cuts the chain between t-1 and t.

    Args:
        a: The (conjugate) decay, (batch, time, width) or (width,).
        grad: Of the outputs, (batch, time, width).
        reset: (batch, time) bool.

    Returns:
        d, (batch, time, width), and the gradient of the initial state, (batch, width).
    """
    d = torch.empty_like(grad, memory_format=torch.contiguous_format)
    steps = list(zip(_over_time(a, grad), grad.unbind(1), d.unbind(1), _kept_rows(reset, grad), strict=True))
    a_next = d_next = torch.zeros_like(grad[:, 0])  # of the step after the current one; nothing comes after the last
    for a_t, grad_t, d_t, keep in reversed(steps):
        torch.addcmul(grad_t, a_next, d_next, out=d_t)
        a_next, d_next = a_t, d_t if keep is None else d_t * keep
    return d, a_next * d_next


def previous_states(h: Tensor, initial: Tensor, reset: Tensor | None) -> Tensor:
    """h_{t-1} for every t, (batch, time, width): zero where an episode begins."""
    previous = torch.cat([initial.unsqueeze(1), h[:, :-1]], dim=1)
    if reset is not None:
        previous[reset] = 0
    return previous


def _over_time(a: Tensor, like: Tensor) -> tuple[Tensor, ...]:
    """a_t for every step; a constant decay is the same tensor each time."""
    return (a,) * like.shape[1] if a.dim() == 1 else a.unbind(1)


def _kept_rows(reset: Tensor | None, like: Tensor) -> list[Tensor | None]:
    """For every step a factor (batch, 1) that zeroes the rows that begin an episode, or None where none does.

    Resets are rare, so most steps pay nothing.
    """
    if reset is None:
        return [None] * like.shape[1]
    kept = (~reset).to(like.real.dtype).unsqueeze(-1).unbind(1)
    return [keep if some else None for keep, some in zip(kept, reset.any(0).tolist(), strict=True)]

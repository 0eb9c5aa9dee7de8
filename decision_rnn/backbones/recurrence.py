"""The linear recurrence h_t = a_t * h_{t-1} + b_t that minGRU, minLSTM and LRU share.

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
    """The loop and its adjoint.

    With d_t the gradient that reaches h_t from its output and from later steps,
    d_t = grad_t + conj(a_{t+1}) d_{t+1};  grad b_t = d_t;  grad a_t = d_t conj(h_{t-1}).
    A reset at t cuts the chain between t-1 and t in both directions.
    """

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
        (grad,) = grads
        d = torch.empty_like(h)
        steps = zip(
            _over_time(a.conj().resolve_conj(), h), grad.unbind(1), d.unbind(1), _kept_rows(reset, h), strict=True
        )
        # Of the step after the current one; d is cut off where that step begins an episode.
        a_next, d_next = torch.zeros_like(initial), torch.zeros_like(initial)
        for a_t, grad_t, d_t, keep in reversed(list(steps)):
            torch.addcmul(grad_t, a_next, d_next, out=d_t)
            a_next, d_next = a_t, d_t if keep is None else d_t * keep
        grad_a = None
        if ctx.needs_input_grad[0]:
            previous = torch.cat([initial.unsqueeze(1), h[:, :-1]], dim=1)
            if reset is not None:
                previous[reset] = 0
            grad_a = d * previous.conj()
            if a.dim() == 1:
                grad_a = grad_a.sum(dim=(0, 1))
        return grad_a, d, a_next * d_next, None


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

"""Mamba's scan, h_t = exp(dt_t A) h_{t-1} + u_t B_t and y_t = C_t h_t, with a hand-written gradient.

On a CPU core its time is that of moving inner * state_size numbers per step through memory. The loop over time stores h
alone for the backward pass, where the factors and products that autograd would store are computed again. Powers of 2
are used for exponentials, three times as fast where torch.exp is left to MKL on an AMD processor; sums of products for
products with a vector on the right, which torch's batched product computes one row at a time, six times as slow.

A reset sets the step size to infinity, which removes the earlier state.
"""

import math
from typing import Any

import torch
from torch import Tensor

from decision_rnn.backbones.contract import without_autocast
from decision_rnn.backbones.ops.recurrence import first_order, linear_recurrence


def selective_scan(
    dt: Tensor, a: Tensor, u: Tensor, b: Tensor, c: Tensor, initial: Tensor, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The outputs y, (batch, time, inner), and the last h, (batch, inner, state_size).

    Args:
        dt: (batch, time, inner), the step sizes.
        a: (inner, state_size), the logarithm of what a step of size 1 keeps.
        u: (batch, time, inner), the inputs times the step sizes.
        b, c: (batch, time, state_size), the input and output maps.
        initial: (batch, inner, state_size), h before the first step.
        reset: (batch, time) bool, true where h is replaced by zero before the step.
    """
    # On a GPU, a kernel for each step of the loop would take longer than to store the factors of all.
    if dt.is_cuda:
        return stored_scan(dt, a, u, b, c, initial, reset)
    y, last = _SelectiveScan.apply(reset, dt, a, u, b, c, initial)
    return y, last


def stored_scan(
    dt: Tensor, a: Tensor, u: Tensor, b: Tensor, c: Tensor, initial: Tensor, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same by the linear recurrence of recurrence.py over all states, (batch, time, inner * state_size)."""
    decay, drive = torch.exp(dt.unsqueeze(-1) * a), u.unsqueeze(-1) * b.unsqueeze(-2)
    h = linear_recurrence(decay.flatten(2), drive.flatten(2), initial.flatten(1), reset).unflatten(2, a.shape)
    return (h * c.unsqueeze(-2)).sum(-1), h[:, -1].clone()


class _SelectiveScan(torch.autograd.Function):
    """The loop, with channels last in memory: (batch, state_size, inner), since they are more."""

    @staticmethod
    def forward(
        ctx: Any, reset: Tensor | None, dt: Tensor, a: Tensor, u: Tensor, b: Tensor, c: Tensor, initial: Tensor
    ) -> tuple[Tensor, Tensor]:
        a, h, y = a.T.contiguous(), initial.transpose(1, 2), torch.empty_like(dt)
        size = dt if reset is None else dt.masked_fill(reset.unsqueeze(2), torch.inf)
        doublings, decay = a / math.log(2), torch.empty(h.shape, dtype=a.dtype, device=a.device)
        before = h
        states = []  # not one tensor, which the operating system would map anew, and clear, at every call
        for t in range(dt.shape[1]):
            torch.mul(size[:, t, None], doublings, out=decay).exp2_()
            h = torch.mul(decay, h).addcmul_(u[:, t, None], b[:, t, :, None])
            states.append(h)
            y[:, t] = _product(c[:, t, None], h).squeeze(1)
        ctx.save_for_backward(dt, size, a, u, b, c, before, *states)
        return y, h.transpose(1, 2).contiguous()

    @staticmethod
    @first_order
    def backward(ctx: Any, grad_y: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        dt, size, a, u, b, c, initial, *states = ctx.saved_tensors
        grad_dt, grad_u, grad_b, grad_c = map(torch.empty_like, (dt, u, b, c))
        grad, doublings = grad_last.transpose(1, 2).contiguous(), a / math.log(2)
        decay, work, grad_a = torch.empty_like(grad), torch.empty_like(grad), torch.zeros_like(grad)
        for t in reversed(range(dt.shape[1])):
            grad.addcmul_(grad_y[:, t, None], c[:, t, :, None])
            torch.sum(torch.mul(states[t], grad_y[:, t, None], out=work), -1, out=grad_c[:, t])
            torch.sum(torch.mul(grad, u[:, t, None], out=work), -1, out=grad_b[:, t])
            grad_u[:, t] = _product(b[:, t, None], grad).squeeze(1)
            grad.mul_(torch.mul(size[:, t, None], doublings, out=decay).exp2_())
            torch.mul(grad, states[t - 1] if t else initial, out=work)
            grad_a.addcmul_(work, dt[:, t, None])
            grad_dt[:, t] = work.mul_(a).sum(1)
        return None, grad_dt, grad_a.sum(0).T, grad_u, grad_b, grad_c, grad.transpose(1, 2)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """A product of matrices in the precision of its arguments, also under autocast."""
    with without_autocast(left):
        return left @ right

"""The linear recurrence h_t = a_t * h_{t-1} + b_t that the linear mixers share.

On a CPU core, parallelism over time does not pay: an in-place loop over the steps with a hand-written backward pass
beats log-space, associative and convolutional scans at every length, and is exact. On CUDA each step of the loop would
launch a kernel of its own, so there the whole recurrence is one kernel (recurrence_triton.py).

A reset sets the decay to zero, which removes the earlier state and its gradient.
"""

import functools
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

STRETCH = 0.1
"""How far `stretch` extends the range of a gate at each end."""


def linear_recurrence(a: Tensor, b: Tensor, initial: Tensor, reset: Tensor | None = None) -> Tensor:
    """All states of h_t = a_t * h_{t-1} + b_t.

    Computed in float32 (complex64) or wider, even if autocast passes gates in half precision. Second derivatives are
    refused: NotImplementedError.

    Args:
        a: (batch, time, width), or (width,) for a decay that is constant in time; real or complex.
        b: (batch, time, width), of the same dtype.
        initial: h before the first step, (batch, width).
        reset: (batch, time) bool, true where h_{t-1} is replaced by zero.

    Returns:
        h: (batch, time, width).
    """
    wide = torch.promote_types(b.dtype, torch.float32)
    if _kernels(b) is None:  # the kernel converts numbers as it loads them
        a, b = a.to(wide), b.to(wide)
    if reset is not None:
        a = a * keep_mask(reset, a.dtype.to_real())
    return _LinearRecurrence.apply(a.expand_as(b), b, initial.to(wide))


def gated_recurrence(preactivations: Tensor, initial: Tensor, reset: Tensor | None, stretched: bool) -> Tensor:
    """All states of h_t = (1 - z_t) * h_{t-1} + z_t * g(c_t), fused with the computation of z from the gates.

    `preactivations`, (batch, time, n * width), are minGRU's z and c (mingru.py) or minLSTM's f, i and c (minlstm.py);
    g is `positive`; z is `stretch` of itself if `stretched`. For the others see `linear_recurrence`.
    """
    keep = None if reset is None else keep_mask(reset, initial.dtype)
    return _GatedRecurrence.apply(preactivations.to(initial.dtype), initial, keep, stretched)


def stretch(gate: Tensor) -> Tensor:
    """A gate between 0 and 1, stretched to -0.1 and 1.1 and clipped to 0 and 1, which it then reaches exactly: the hard
    concrete gate of Louizos et al., "Learning Sparse Neural Networks through L0 Regularization" (2018), without its
    noise."""
    return torch.clamp(gate * (1 + 2 * STRETCH) - STRETCH, 0, 1)


def log_odds(gates: Sequence[Tensor]) -> Tensor:
    """log z - log(1 - z), from the pre-activation of minGRU's z or those of minLSTM's f and i, z = i / (f + i)."""
    return gates[0] if len(gates) == 1 else F.logsigmoid(gates[1]) - F.logsigmoid(gates[0])


def positive(x: Tensor) -> Tensor:
    """The g of minGRU and minLSTM: x + 0.5 for x >= 0, sigmoid(x) otherwise; positive and increasing.

    sigmoid(x) > x + 0.5 exactly where x < 0, so g is their maximum, which is five times faster than a `where`.
    """
    return torch.maximum(x + 0.5, torch.sigmoid(x))


def keep_mask(reset: Tensor, dtype: torch.dtype) -> Tensor:
    """1, or 0 where an episode begins, (batch, time, 1): what remains of the state before each step."""
    return (~reset).unsqueeze(2).to(dtype)


def previous_states(h: Tensor, initial: Tensor, keep: Tensor | None = None) -> Tensor:
    """h_{t-1} for every t, (batch, time, ...), times `keep`, as from `keep_mask`."""
    previous = torch.cat([initial.unsqueeze(1), h[:, :-1]], dim=1)
    return previous if keep is None else previous * keep


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the `backward` of a `torch.autograd.Function` to raise NotImplementedError if its result is to be
    differentiated.

    Torch's `once_differentiable` notices that only where the incoming gradient requires one. That of `y.sum()` is a
    constant: the second derivative then silently lacks this function's part.
    """

    @functools.wraps(backward)
    def run(*args: Any) -> Any:
        if torch.is_grad_enabled():  # only with create_graph
            raise NotImplementedError("this layer's `forward` has no second derivatives. Call its `step` in a loop.")
        return backward(*args)

    return run


def _kernels(x: Tensor) -> ModuleType | None:
    """The kernels for the device of x, if there are any."""
    return _triton_kernels(x.device) if x.is_cuda else None


@functools.cache
def _triton_kernels(device: torch.device) -> ModuleType | None:
    """The Triton kernel, tried on one number; or None, with a warning, without Triton, which comes with torch's CUDA
    builds for Linux, without the C compiler and Python headers that Triton needs, or if it does not support the GPU."""
    one = torch.ones(1, 1, 1, device=device)
    try:
        from decision_rnn.backbones.ops import recurrence_triton

        recurrence_triton.states(one, one, one[0])
    except Exception as error:
        warnings.warn(f"Recurrences run as slow loops on {device}, since Triton does not work: {error}", stacklevel=2)
        return None
    return recurrence_triton


class _LinearRecurrence(torch.autograd.Function):
    """The loop and its adjoint: grad b_t = d_t and grad a_t = d_t conj(h_{t-1}), with d as in `_adjoint`."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
        if (kernels := _kernels(b)) is not None:
            h = kernels.states(a, b, initial)
        else:
            h, previous = torch.empty_like(b, memory_format=torch.contiguous_format), initial
            for a_t, b_t, h_t in zip(a.unbind(1), b.unbind(1), h.unbind(1), strict=True):
                previous = torch.addcmul(b_t, a_t, previous, out=h_t)
        ctx.save_for_backward(a, h, initial)
        ctx.dtype = b.dtype
        return h

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, h, initial = ctx.saved_tensors
        d, grad_initial = _adjoint(a, grad)
        grad_a = (d * previous_states(h, initial).conj()).to(a.dtype) if ctx.needs_input_grad[0] else None
        return grad_a, d.to(ctx.dtype), grad_initial


class _GatedRecurrence(torch.autograd.Function):
    """The equations from pre-activations to h, with one hand-written backward pass.

    Fused because the recurrence is cheap: under autograd, gates and candidates would cost more than all the rest. For
    minLSTM, let G be the gradient of the log odds of z = sigmoid(log i - log f), which for a plain z is that of z times
    z (1 - z): the gradient of the forget gate's pre-activation is then -(1 - f) G, and that of the input gate's
    (1 - i) G.
    """

    @staticmethod
    def forward(ctx: Any, preactivations: Tensor, initial: Tensor, keep: Tensor | None, stretched: bool) -> Tensor:
        *gates, candidate = preactivations.chunk(preactivations.shape[2] // initial.shape[1], dim=-1)
        gate = torch.sigmoid(gates[0] if len(gates) == 1 else log_odds(gates))
        gate = stretch(gate) if stretched else gate
        candidate = positive(candidate)
        if (kernels := _kernels(gate)) is not None:
            decay = 1 - gate if keep is None else (1 - gate) * keep
            h = kernels.states(decay, gate * candidate, initial)
        else:
            h, previous = torch.empty_like(gate, memory_format=torch.contiguous_format), initial
            steps = zip(gate.unbind(1), candidate.unbind(1), h.unbind(1), strict=True)
            for t, (gate_t, candidate_t, h_t) in enumerate(steps):
                previous = previous if keep is None else previous * keep[:, t]
                previous = torch.lerp(previous, candidate_t, gate_t, out=h_t)
        ctx.save_for_backward(gate, candidate, h, initial, keep, *(gates if len(gates) > 1 else ()))
        ctx.stretched = stretched
        return h

    @staticmethod
    @first_order
    def backward(ctx: Any, grad_h: Tensor) -> tuple[Tensor | None, ...]:
        gate, candidate, h, initial, keep, *gates = ctx.saved_tensors
        decay, previous = 1 - gate, previous_states(h, initial, keep)
        d, grad_initial = _adjoint(decay if keep is None else decay * keep, grad_h)
        parts = 1 + max(1, len(gates))
        grad = d.new_empty(*d.shape[:2], parts * d.shape[2])
        *grad_gates, grad_candidate = grad.chunk(parts, dim=-1)
        if ctx.stretched:
            # gate + STRETCH and decay + STRETCH are the sigmoid and one minus it, times 1 + 2 STRETCH.
            slope = (gate + STRETCH) * (decay + STRETCH) / (1 + 2 * STRETCH) * ((gate > 0) & (decay > 0))
        else:
            slope = decay.mul_(gate)
        torch.mul(slope.mul_(d), candidate - previous, out=grad_gates[-1])
        d.mul_(gate)  # now the gradient of the candidate
        if gates:
            forget, insert = gates
            torch.mul(grad_gates[1], torch.sigmoid(-forget).neg_(), out=grad_gates[0])
            grad_gates[1].mul_(torch.sigmoid(-insert))
        # g' is 1 where g > 1/2, else g (1 - g)
        above = torch.ops.aten.threshold_backward(d, candidate, 0.5)  # d where g > 1/2, else 0
        slope = torch.addcmul(candidate, candidate, candidate, value=-1)
        torch.addcmul(above, d - above, slope, out=grad_candidate)
        return grad, grad_initial, None, None


def _adjoint(a: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients d_t = grad_t + conj(a_{t+1}) d_{t+1} of all states, and that of the initial state, from the decay
    and the gradient of the outputs, (batch, time, width)."""
    if (kernels := _kernels(grad)) is not None:
        return kernels.adjoint(a, grad)
    a = a.conj().resolve_conj()
    d = torch.empty_like(grad, memory_format=torch.contiguous_format)
    a_next = d_next = torch.zeros_like(grad[:, 0])  # zero after the last step
    for a_t, grad_t, d_t in reversed(list(zip(a.unbind(1), grad.unbind(1), d.unbind(1), strict=True))):
        torch.addcmul(grad_t, a_next, d_next, out=d_t)
        a_next, d_next = a_t, d_t
    return d, a_next * d_next

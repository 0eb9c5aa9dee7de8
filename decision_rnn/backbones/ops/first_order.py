"""Gradients that are written by hand, which have no gradient of their own."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., tuple[Tensor | None, ...]]


def first_order(backward: Backward) -> Backward:
    """Decorate the `backward` of a `torch.autograd.Function` to raise NotImplementedError if its result is to be
    differentiated.

    Torch's `once_differentiable` notices that only where the incoming gradient requires one. That of `y.sum()` is a
    constant: the second derivative then lacks the part of this function, in silence.
    """

    @functools.wraps(backward)
    def run(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # only with create_graph
            raise NotImplementedError(
                "create_graph asks for second derivatives of a layer whose gradient is written by hand: for those, "
                "call its `step` for every time step in place of `forward`, or write the recurrence as a loop"
            )
        return backward(ctx, *grads)

    return run

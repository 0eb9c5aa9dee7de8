"""Recurrent layers whose gates depend on the state: a loop over time with a hand-written backward pass.

On a CPU core the loop is faster than torch's kernels, which record a graph at every step or cannot reset rows within a
slice. On CUDA every step of the loop would launch kernels of its own; there, cuDNN runs all episodes as one packed
batch, except with LSTM's peepholes, which it lacks. `torch.compile`, which refuses torch's recurrent layers, runs
`step` after `step`; hence the weights are in their base class.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.backbones.contract import SequenceMixer, State, reset_rows, steps
from decision_rnn.backbones.ops.blocks import full_precision
from decision_rnn.backbones.ops.first_order import first_order
from decision_rnn.backbones.resets import located, rows_by_step, send

sigmoid_backward = torch.ops.aten.sigmoid_backward
tanh_backward = torch.ops.aten.tanh_backward


class Factors(NamedTuple):
    """The derivatives of a step, each (time, batch, width): all that its gradient needs besides the recurrent weights.

    With G the gradient of h_t and C that of the cell, the part of the state that carries memory (h itself where there
    is no other), the step's gradients are

        C = C + cell * G               of the cell, from what later steps and h_t need of it
        grad_gate = gates * C          of each gate's pre-activation, and of the output gate's, output * G
        C = keep * C                   of the cell before the step

    Attributes:
        gates: (time, batch, gates, width).
        keep: None for 0.
        cell: None for 1.
        output: None where there is no output gate.
    """

    gates: Tensor
    keep: Tensor | None
    cell: Tensor | None = None
    output: Tensor | None = None


class GatedMixer(SequenceMixer):
    """A mixer with the weights of one of torch's recurrent layers. State: `states` parts, (batch, width), h first.

    Under autocast, matrix products are computed in half precision, also the recurrent one; gates and state are not.

    Attributes:
        cell: The weights, named and initialised as in torch's layer.
        states: Number of parts of the state.
        saved: Values per channel and step that `factors` needs besides the states.
        gated_product: Whether a gate multiplies the recurrent product, which then has a gradient of its own.
        has_kernel: Whether torch's layer computes this mixer.
    """

    states = 1
    saved = 0
    gated_product = False
    has_kernel = True

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__()
        self.cell = cell

    @property
    def extra(self) -> Tensor | None:
        """A parameter of the recurrence besides its weights."""
        return None

    def initial_state(self, batch_size: int) -> State:
        zeros = next(self.cell.parameters()).new_zeros(batch_size, self.cell.hidden_size)
        return tuple(zeros.clone() for _ in range(self.states))

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        state = self.initial_state(len(x)) if state is None else state
        if torch.compiler.is_compiling():
            return steps(self, x, state, reset)
        if x.is_cuda and self.has_kernel:
            return full_precision(lambda x, state: self.run_packed(x, state, reset), x, state)
        driven = self.drive(x.transpose(0, 1))
        recurrent = self.cell.all_weights[0][1].to(driven.dtype)
        y, *after = _Loop.apply(self, reset, driven, recurrent, self.extra, *state)
        return y.transpose(0, 1), tuple(after)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return full_precision(self.step_cell, x, state)

    def drive(self, x: Tensor) -> Tensor:
        """The contribution of x to the gates, (..., gates * width)."""
        weight, _, bias, other = self.cell.all_weights[0]
        return F.linear(x, weight, bias + other)

    @abstractmethod
    def step_cell(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One step by torch's cell: the output and the state after it."""

    @abstractmethod
    def advance(self, before: State, extra: Tensor | None, after: State, saved: Sequence[Tensor]) -> None:
        """One step of the loop, written into `after` and `saved`.

        Args:
            before: The state before the step.
            extra: The parameter besides the weights.
            after: The state after the step.
            saved: `saved` tensors, (batch, width), for `factors`. The first hold the gates' pre-activations.
        """

    @abstractmethod
    def factors(self, before: State, after: State, extra: Tensor | None, saved: Tensor) -> Factors:
        """The derivatives of all steps, from the states before and after them and from `saved`, time first.

        If `gated_product`, the first of the gates is the last one's recurrent product.
        """

    def extra_gradient(self, grads: Tensor, before: State, after: State) -> Tensor:
        """The gradient of `extra`, from those of the gates, (time, batch, gates, width), and all states."""
        raise NotImplementedError

    def run_packed(self, x: Tensor, state: State, resets: Tensor | None) -> tuple[Tensor, State]:
        """Run torch's layer, every episode as a sequence of one packed batch."""
        (batch, time, _), device = x.shape, x.device
        begins = torch.zeros(batch, time, dtype=torch.bool)
        begins[:, 0] = True
        positions = located(resets)
        if positions is not None:
            state = reset_rows(state, self.initial_state(batch), positions.mask[:, 0])
            begins[positions.rows, positions.steps] = True
        starts = begins.flatten().nonzero().flatten()
        first = (starts % time == 0).nonzero().flatten()  # each row's first episode, and its last one
        last = torch.cat([first[1:], torch.tensor([len(starts)])]) - 1
        lengths, order = torch.cat([starts[1:], torch.tensor([batch * time])]).sub(starts).sort(descending=True)
        places = order.argsort()
        t = torch.arange(int(lengths[0]))[:, None]
        sizes = (t < lengths).sum(1)
        steps = send((starts[order] + t)[t < lengths], device)
        at_first, at_last = send(places[first], device), send(places[last], device)
        given = tuple(
            part.new_zeros(1, len(starts), part.shape[1]).index_copy(1, at_first, part[None]) for part in state
        )
        kernel, packed = getattr(torch, self.cell.mode.lower()), x.flatten(0, 1).index_select(0, steps)
        before = given if len(given) > 1 else given[0]
        weights, layers, dropout = self.cell.all_weights[0], 1, 0.0
        y, *after = kernel(packed, sizes, before, weights, True, layers, dropout, self.training, False)
        out = y.new_empty(batch * time, y.shape[1]).index_copy(0, steps, y)
        return out.view(batch, time, -1), tuple(part[0].index_select(0, at_last) for part in after)


class _Loop(torch.autograd.Function):
    """`GatedMixer.advance` over time and its adjoint: all h, (time, batch, width), and the last of every state part.

    Time comes first in memory, so that the numbers of a step are neighbours. Backward, all that does not depend on the
    later steps is computed for the whole slice at once.
    """

    @staticmethod
    def forward(
        ctx: Any, mixer: GatedMixer, resets: Tensor | None, driven: Tensor, recurrent: Tensor, extra: Tensor | None,
        *initial: Tensor,
    ) -> State:  # fmt: skip
        (time, batch, _), width = driven.shape, recurrent.shape[1]
        states = tuple(part.new_empty(time + 1, batch, width) for part in initial)
        saved = initial[0].new_empty(time, batch, mixer.saved * width)
        for part, start in zip(states, initial, strict=True):
            part[0] = start
        if mixer.gated_product:
            saved[..., -width:] = driven[..., -width:]
            driven = driven.clone()
            driven[..., -width:] = 0 if extra is None else extra
        weight = recurrent.T.contiguous()  # a product with a transposed matrix takes half as long again
        parts = zip(*(part.unbind() for part in saved.chunk(mixer.saved, dim=-1)), strict=True)
        afters = zip(*(part[1:].unbind() for part in states), strict=True)
        steps = zip(driven, saved[..., : len(recurrent)], parts, afters, rows_by_step(resets, time), strict=True)
        before = initial
        for driven_t, gates, saved_t, after, rows in steps:
            if rows is not None:
                before = tuple(part.index_fill(0, rows, 0) for part in before)
            gates.copy_(torch.addmm(driven_t, before[0].to(weight.dtype), weight))
            mixer.advance(before, extra, after, saved_t)
            before = after
        ctx.save_for_backward(recurrent, extra, saved, *states)
        ctx.mixer, ctx.resets = mixer, resets
        return states[0][1:], *(part[-1].clone() for part in states)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, grad_h: Tensor, *grad_cell: Tensor) -> tuple[Tensor | None, ...]:
        mixer: GatedMixer = ctx.mixer
        recurrent, extra, saved, *states = ctx.saved_tensors
        (time, batch, width), starts = grad.shape, rows_by_step(ctx.resets, len(grad))
        after, before = tuple(part[1:] for part in states), tuple(part[:-1] for part in states)
        if any(rows is not None for rows in starts):
            before = tuple(part.clone() for part in before)
            for part in before:
                for part_t, rows in zip(part, starts, strict=True):
                    if rows is not None:
                        part_t.index_fill_(0, rows, 0)
        gates, keep, cell, output = mixer.factors(before, after, extra, saved)
        count = gates.shape[2]
        grads = recurrent.new_empty(time, batch, count + (output is not None), width)
        # The recurrent product's gates come first, `driven`'s last; they share what `rolled` leaves in common.
        rolled = int(mixer.gated_product)
        recurrent = recurrent.roll(rolled * width, 0)
        grad_product, grad_driven = grads[:, :, : len(recurrent) // width].flatten(2), grads[:, :, rolled:].flatten(2)
        kept = grad_cell[0] if grad_cell else torch.zeros_like(grad_h)
        for t in reversed(range(time)):
            grad_h = grad[t] + grad_h
            kept = kept + grad_h if cell is None else torch.addcmul(kept, cell[t], grad_h)
            torch.mul(kept.unsqueeze(1), gates[t], out=grads[t, :, :count])
            if output is not None:
                torch.mul(grad_h, output[t], out=grads[t, :, count])
            grad_h = grad_product[t] @ recurrent
            kept = kept * keep[t] if keep is not None else torch.zeros_like(kept)
            rows = starts[t]
            if rows is not None:
                grad_h.index_fill_(0, rows, 0)
                kept.index_fill_(0, rows, 0)
        grad_recurrent = grad_product.flatten(0, 1).T @ before[0].flatten(0, 1).to(grads.dtype)
        grad_extra = None if extra is None else mixer.extra_gradient(grads, before, after)
        grad_initial = (grad_h.to(kept.dtype), kept) if grad_cell else (grad_h + kept,)
        return None, None, grad_driven, grad_recurrent.roll(-rolled * width, 0), grad_extra, *grad_initial

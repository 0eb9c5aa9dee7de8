"""Where episodes begin in a batch of slices, and how a slice is cut there."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Resets:
    """Where episodes begin in a batch of slices: the state before these steps is the initial state.

    The positions are on the host as well, so that no layer has to ask the device for them.

    Attributes:
        mask: (batch, time) bool, true where an episode begins, on the layers' device.
        rows: (resets,), int64 on the CPU: the batch row of each reset, ascending.
        steps: (resets,), int64 on the CPU: its step, ascending within a row.
    """

    mask: Tensor
    rows: Tensor
    steps: Tensor

    @classmethod
    def from_mask(cls, mask: Tensor) -> "Resets":
        """From a mask, (batch, time) bool; copies it from the device once."""
        rows, steps = mask.cpu().nonzero(as_tuple=True)
        return cls(mask, rows, steps)

    @classmethod
    def at(cls, rows: Tensor, steps: Tensor, shape: tuple[int, int], device: torch.device | str = "cpu") -> "Resets":
        """From positions on the host in any order, without waiting for the device.

        Args:
            rows, steps: (resets,), int64 on the CPU.
            shape: The slices' batch and time.
            device: The layers' device.
        """
        mask = torch.zeros(shape, dtype=torch.bool)
        mask[rows, steps] = True
        return cls(send(mask, device), *mask.nonzero(as_tuple=True))

    def __len__(self) -> int:
        return len(self.rows)

    def interleave(self, tokens: int, first: int) -> "Resets":
        """The resets of slices whose steps are `tokens` tokens each, of which `first` is an episode's first."""
        mask = self.mask.new_zeros(*self.mask.shape, tokens)
        mask[:, :, first] = self.mask
        return Resets(mask.flatten(1), self.rows, self.steps * tokens + first)

    def select(self, rows: slice) -> "Resets":
        """The resets of some of the slices, one after the other."""
        first, last, _ = rows.indices(len(self.mask))
        here = (self.rows >= first) & (self.rows < last)
        return Resets(self.mask[first:last], self.rows[here] - first, self.steps[here])

    def between(self, begin: int, end: int) -> "Resets":
        """The resets of the steps from `begin` up to, but without, `end`."""
        if begin == 0 and end >= self.mask.shape[1]:
            return self
        here = (self.steps >= begin) & (self.steps < end)
        return Resets(self.mask[:, begin:end], self.rows[here], self.steps[here] - begin)

    @cached_property
    def places(self) -> Tensor:
        """(resets,): the indices of the resets in (batch * time), on the layers' device."""
        return send(self.rows * self.mask.shape[1] + self.steps, self.mask.device)

    @property
    def at_once(self) -> bool:
        """Whether an episode may begin at the first step."""
        return torch.compiler.is_compiling() or bool((self.steps == 0).any())

    def fill(self, x: Tensor, value: float) -> Tensor:
        """x, (batch, time, ...), with `value` at the resets. Multiplying by zero would turn infinities into NaN."""
        if not torch.compiler.is_compiling() and not len(self):
            return x
        return self.fill_(x.clone(memory_format=torch.contiguous_format), value)

    def fill_(self, x: Tensor, value: float) -> Tensor:
        """`fill` in place, of a contiguous x."""
        if torch.compiler.is_compiling():
            return x.masked_fill_(self.mask[(..., *[None] * (x.dim() - 2))], value)
        if len(self):
            x.flatten(0, 1).index_fill_(0, self.places, value)
        return x

    @cached_property
    def later(self) -> "LaterEpisodes | None":
        """The steps of episodes that begin after the first step; None if there are none."""
        inside = self.steps > 0
        return LaterEpisodes(self.rows[inside], self.steps[inside], self.mask) if inside.any() else None


def located(reset: "Tensor | Resets | None") -> Resets | None:
    """The positions of a mask's resets; without them in a graph that is compiled."""
    if not isinstance(reset, Tensor):
        return reset
    if torch.compiler.is_compiling():
        none = torch.empty(0, dtype=torch.int64)
        return Resets(reset, none, none)
    return Resets.from_mask(reset)


def rows_by_step(resets: Tensor | Resets | None, time: int) -> list[Tensor | None]:
    """For each of `time` steps, the rows in which an episode begins, for `with_rows`, or None if there are none.

    They are indices, (rows,), or in a graph that is compiled, which is the same wherever episodes begin, a mask,
    (batch,). Resets are rare, so that most steps of a loop over time cost nothing.
    """
    resets = located(resets)
    if resets is not None and torch.compiler.is_compiling():
        return list(resets.mask.unbind(1))
    starting: list[Tensor | None] = [None] * time
    if resets is not None and len(resets):
        order = resets.steps.argsort(stable=True)
        steps, counts = resets.steps[order].unique_consecutive(return_counts=True)
        rows = send(resets.rows[order], resets.mask.device).split(counts.tolist())
        for step, some in zip(steps.tolist(), rows, strict=True):
            starting[step] = some
    return starting


def with_rows(x: Tensor, rows: Tensor, value: float) -> Tensor:
    """A copy of x, (batch, ...), with `value` in these rows, as from `rows_by_step`."""
    if rows.dtype == torch.bool:
        return x.masked_fill(rows[(..., *[None] * (x.dim() - 1))], value)
    return x.index_fill(0, rows, value)


class LaterEpisodes:
    """Episodes that begin within a slice, each in a row of its own and at that row's end; void steps precede it.

    Attributes:
        source: (steps,), the indices of the episodes' steps in (batch * time).
        place: (steps,), their indices in (episodes * length).
        void: (episodes,), the number of void steps of each row.
        ended: (rows,), the batch rows that contain these episodes.
        last: (rows,), the last episode of each.
    """

    def __init__(self, rows: Tensor, steps: Tensor, mask: Tensor) -> None:
        """From the resets after the first step, and the mask of all."""
        time, device = mask.shape[1], mask.device
        last = torch.ones_like(rows, dtype=torch.bool)
        last[:-1] = rows[1:] != rows[:-1]
        ends = torch.where(last, time, steps.roll(-1))
        lengths = ends - steps
        self.count, self.length = len(rows), int(lengths.max())
        episode = torch.arange(self.count).repeat_interleave(lengths)
        step = torch.arange(len(episode)) - (lengths.cumsum(0) - ends)[episode]
        self.source = send(rows[episode] * time + step, device)
        self.place = send((episode + 1) * self.length - ends[episode] + step, device)
        self.void = send(self.length - lengths, device)
        self.ended, self.last = send(rows[last], device), send(last.nonzero().flatten(), device)

    def split(self, x: Tensor, value: float) -> tuple[Tensor, Tensor]:
        """x, (batch, time, ...), with `value` at these episodes' steps; and the episodes, (episodes, length, ...), with
        `value` at void steps."""
        first, later = _Split.apply(x, self, value)
        return first, later

    def join(self, first: Tensor, later: Tensor) -> Tensor:
        """Overwrite these episodes' steps in `first`, (batch, time, ...), by `later`, (episodes, length, ...)."""
        steps = later.flatten(0, 1).index_select(0, self.place)
        return first.flatten(0, 1).index_copy_(0, self.source, steps.to(first.dtype)).view_as(first)

    def final(self, first: Tensor, later: Tensor) -> Tensor:
        """A part of the state after the slice, from those after each row's first and after these episodes."""
        return first.index_copy(0, self.ended, later.index_select(0, self.last))


class _Split(torch.autograd.Function):
    """`LaterEpisodes.split`, with its gradient in one pass: autograd would add two tensors of full size."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, later: LaterEpisodes, value: float) -> tuple[Tensor, Tensor]:
        ctx.later = later
        flat = x.flatten(0, 1)
        rows = x.new_full((later.count * later.length, *x.shape[2:]), value)
        rows.index_copy_(0, later.place, flat.index_select(0, later.source))
        first = flat.index_fill(0, later.source, value)
        return first.view(x.shape), rows.unflatten(0, (later.count, later.length))

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_later: Tensor) -> tuple[Tensor, None, None]:
        steps = grad_later.flatten(0, 1).index_select(0, ctx.later.place)
        return grad.flatten(0, 1).index_copy(0, ctx.later.source, steps).view(grad.shape), None, None


def send(x: Tensor, device: torch.device | str) -> Tensor:
    """Move x from the host to the device, without waiting for it."""
    return x.pin_memory().to(device, non_blocking=True) if torch.device(device).type == "cuda" else x.to(device)

"""The inputs that the law is tested on, rows of noise with resets anywhere, and the ways to run a mixer over them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from decision_rnn.backbones import SequenceMixer, State, reset_rows

BATCH, TIME = 3, 12
LONG = 10_000
SPLITS = [[1] * TIME, [1, 4, 7], [5, 1, 6], [3, 9], [TIME - 1, 1]]

Flags = Tensor | None
Run = Callable[[Tensor, State], tuple[Tensor, State]]


@dataclass(frozen=True)
class Cases:
    """The cases on which a clause is tested: the full ones, or smaller ones to find the smallest that fails.

    Attributes:
        batch: Number of rows.
        time: Number of steps.
        patterns: Where episodes begin, (batch, time) bool, by name; None for no flags.
        learnt: Names of the patterns whose gradients are compared.
        splits: Ways to split time into pieces, for all rows at once.
        split: The split for patterns that are run alone.
        starts: The states before the first step, `initial` and `carried`.
        places: For each row, the step at which the second episode begins.
        cut: A step; inputs from it on must not affect the outputs before it.
        times: Lengths over which the state must keep its form.
        long: Number of steps of the long slice.
    """

    batch: int
    time: int
    patterns: Mapping[str, Flags]
    learnt: Sequence[str]
    splits: Sequence[list[int]]
    split: list[int]
    places: tuple[int, ...]
    cut: int
    starts: Sequence[str] = ("initial", "carried")
    times: Sequence[int] = (1, 2, 7, 50)
    long: int = LONG

    def inputs(self, module: SequenceMixer, width: int, dtype: torch.dtype) -> tuple[Tensor, State]:
        """x, (batch, time, width), and a carried state."""
        x = noise(self.batch, self.time, width, dtype=dtype)
        return x, carried_state(module, self.batch, width, dtype)

    @property
    def usual(self) -> Flags:
        """The pattern for clauses that test only one."""
        return self.patterns[self.learnt[-1]]

    @classmethod
    def full(cls) -> "Cases":
        """The full cases, on torch's default device."""
        learnt = ("absent", "consecutive", "random")
        return cls(BATCH, TIME, resets(), learnt, SPLITS, [5, 1, 6], (5, TIME - 1, 1), 5)

    @classmethod
    def small(cls, batch: int, time: int, begin: int | None, starts: Sequence[str] = ("initial", "carried")) -> "Cases":
        """Cases in which the last of `batch` rows begins an episode at step `begin`; None for no flags."""
        pattern: Flags = None
        if begin is not None:
            pattern = torch.zeros(batch, time, dtype=torch.bool)
            pattern[-1, begin] = True
        name = "absent" if begin is None else f"of row {batch - 1} at step {begin}"
        cut = begin or time - 1
        split = [cut, time - cut] if time > 1 else [1]
        return cls(batch, time, {name: pattern}, (name,), [split], split, (cut,) * batch, cut, starts, (time,), time)


def noise(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Gaussian noise, the same numbers on every device, on torch's default device, which all tests use."""
    wide = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, device="cpu")
    return wide.to(torch.get_default_device(), dtype)


def resets() -> dict[str, Flags]:
    """Patterns of resets in BATCH rows of TIME steps; rows differ."""

    def at(*places: tuple[int, int]) -> Tensor:
        reset = torch.zeros(BATCH, TIME, dtype=torch.bool)
        for row, t in places:
            reset[row, t] = True
        return reset

    return {
        "absent": None,
        "none": at(),
        "at the first step": at((0, 0), (2, 0)),
        "consecutive": at((0, 3), (0, 4), (0, 5), (1, 0), (1, 1), (2, 10), (2, 11)),
        "at the last step": at((1, TIME - 1)),
        "everywhere": ~at(),
        "in one row everywhere": at(*((1, t) for t in range(TIME))),
        "random": noise(BATCH, TIME, seed=1) > 0.8,
        "dense": noise(BATCH, TIME, seed=2) > 0,
    }


def carried_state(module: SequenceMixer, batch: int, width: int, dtype: torch.dtype) -> State:
    """A state from within episodes that are 7, 2 and 1 steps old."""
    reset = torch.zeros(batch, 7, dtype=torch.bool)
    reset[1:2, 5] = reset[2:3, 6] = True
    with torch.no_grad():
        x = noise(batch, 7, width, dtype=dtype, seed=3)
        _, state = steps(module, x, module.initial_state(batch), reset)
    return state


def steps(module: SequenceMixer, x: Tensor, state: State, reset: Flags) -> tuple[Tensor, State]:
    """Run a mixer as in acting: one `step` after the other, resetting rows between them."""
    initial, outputs = module.initial_state(len(x)), []
    for t in range(x.shape[1]):
        if reset is not None:
            state = reset_rows(state, initial, reset[:, t])
        y, state = module.step(x[:, t], state)
        outputs.append(y)
    return torch.stack(outputs, dim=1), state


def chunks(
    module: SequenceMixer, x: Tensor, state: State | None, reset: Flags, lengths: Sequence[int]
) -> tuple[Tensor, State]:
    """Run `forward` over consecutive pieces of time, carrying the state."""
    outputs, start = [], 0
    for length in lengths:
        piece = slice(start, start + length)
        y, state = module(x[:, piece], state, None if reset is None else reset[:, piece])
        outputs.append(y)
        start += length
    assert state is not None
    return torch.cat(outputs, dim=1), state


def gradients(run: Run, named: Mapping[str, Tensor], x: Tensor, state: State) -> dict[str, Tensor]:
    """The gradients of all inputs: parameters, x and the state before the first step."""
    x = x.clone().requires_grad_()
    state = tuple(part.clone().requires_grad_(part.is_floating_point()) for part in state)
    y, after = run(x, state)
    loss = x.new_zeros(())
    for i, part in enumerate((y, *after)):
        if part.is_floating_point():
            loss = loss + (part.nan_to_num() * noise(*part.shape, dtype=part.dtype, seed=10 + i)).sum()
    learnt = {**named, "x": x, **{f"state {i}": part for i, part in enumerate(state) if part.requires_grad}}
    found = torch.autograd.grad(loss, list(learnt.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(learnt, found, strict=True))

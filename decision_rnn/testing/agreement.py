"""Clauses of the law: all ways of running a mixer compute the same, over one step and over ten thousand."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from decision_rnn.backbones import State
from decision_rnn.testing.cases import Cases, Flags, carried_state, chunks, gradients, noise, steps
from decision_rnn.testing.comparing import assert_near, assert_same, distance, require
from decision_rnn.testing.subject import Subject, cast


def all_modes_agree(subject: Subject, cases: Cases) -> None:
    """forward == steps == any split of time (== a naive loop): outputs and final state, resets anywhere.

    Modes that take many calls are run on the rows of all patterns at once. `forward` and one of the splits are also run
    on each pattern alone, as a mixer may choose its algorithm by the flags of the whole batch.
    """
    patterns, batch, width = cases.patterns, cases.batch, subject.width
    flagged = [reset for reset in patterns.values() if reset is not None]
    for dtype, tolerance in subject.tolerances.items():
        module = subject.build(dtype)
        x = noise(batch, cases.time, width, dtype=dtype)
        parameters = {name: cast(p.detach(), torch.float64) for name, p in module.named_parameters()}
        for start in cases.starts:
            state = carried_state(module, batch, width, dtype) if start == "carried" else None
            given = module.initial_state(batch) if state is None else state
            wide = tuple(part.double() for part in given)
            count = len(flagged)
            many_x, many_given = repeated(x, count), tuple(repeated(part, count) for part in given)
            many_state = None if state is None else many_given
            with torch.no_grad():
                rights = naive_of_rows(subject, parameters, x.double(), wide, patterns)
                found, alone = {}, {"steps": steps(module, x, given, None)}
                if flagged:
                    found["steps"] = steps(module, many_x, many_given, torch.cat(flagged))
                for lengths in cases.splits:
                    alone[f"chunks {lengths}"] = chunks(module, x, state, None, lengths)
                    if flagged:
                        found[f"chunks {lengths}"] = chunks(module, many_x, many_state, torch.cat(flagged), lengths)
                first = 0
                for pattern, reset in patterns.items():
                    case = f"{dtype}, reset {pattern}, {start} state"
                    right = rights[pattern]
                    assert_same(module(x, state, reset), right, tolerance, f"forward, {case}")
                    if reset is None:
                        for mode, of_mode in alone.items():
                            assert_same(of_mode, right, tolerance, f"{mode}, {case}")
                        continue
                    split = chunks(module, x, state, reset, cases.split)
                    assert_same(split, right, tolerance, f"chunks {cases.split} of the pattern alone, {case}")
                    rows = slice(first, first + batch)
                    for mode, (y, after) in found.items():
                        own = y[rows], tuple(part[rows] for part in after)
                        assert_same(own, right, tolerance, f"{mode}, {case}")
                    first += batch


def naive_of_rows(
    subject: Subject, parameters: Mapping[str, Tensor], x: Tensor, state: State, patterns: Mapping[str, Flags]
) -> dict[str, tuple[Tensor, State]]:
    """The naive loop's result for every pattern; rows that several patterns share are computed only once."""
    flags = {name: torch.zeros(x.shape[:2], dtype=torch.bool) if r is None else r for name, r in patterns.items()}
    keys = {name: [(row, *of_rows[row].tolist()) for row in range(len(x))] for name, of_rows in flags.items()}
    distinct = {key: place for place, key in enumerate(dict.fromkeys(key for of in keys.values() for key in of))}
    rows = torch.tensor([key[0] for key in distinct])
    reset = torch.tensor([key[1:] for key in distinct], dtype=torch.bool)
    y, after = subject.naive(parameters, x[rows], tuple(part[rows] for part in state), reset)
    places = {name: torch.tensor([distinct[key] for key in of]) for name, of in keys.items()}
    return {name: (y[of], tuple(part[of] for part in after)) for name, of in places.items()}


def repeated(rows: Tensor, count: int) -> Tensor:
    """The rows, concatenated `count` times."""
    return rows.repeat(count, *(1 for _ in rows.shape[1:]))


def gradients_agree(subject: Subject, cases: Cases) -> None:
    """Gradients of all parameters, of x and of the carried state: forward == split == steps (== a naive loop)."""
    for dtype, tolerance in subject.tolerances.items():
        module = subject.build(dtype)
        named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        parameters = {
            name: cast(p.detach(), torch.float64).requires_grad_(p.requires_grad)
            for name, p in module.named_parameters()
        }
        x, state = cases.inputs(module, subject.width, dtype)
        wide = tuple(part.double() if part.is_floating_point() else part for part in state)
        for pattern in cases.learnt:
            reset = cases.patterns[pattern]
            learnt = {name: parameters[name] for name in named}
            right = gradients(lambda x, s: subject.naive(parameters, x, s, reset), learnt, x.double(), wide)  # noqa: B023
            modes = {
                "forward": lambda x, s: module(x, s, reset),  # noqa: B023
                "chunks": lambda x, s: chunks(module, x, s, reset, cases.split),  # noqa: B023
                "steps": lambda x, s: steps(module, x, s, reset),  # noqa: B023
            }
            for mode, run in modes.items():
                case = f"{mode}, {dtype}, reset {pattern}"
                for name, grad in gradients(run, named, x, state).items():
                    assert_near(grad, right[name], tolerance, f"{case}, gradient of {name}")


def absent_means_initial(subject: Subject, cases: Cases) -> None:
    """No state means the initial one, no reset flags mean no resets, and a reset at the first step drops the state."""
    module, shape = subject.build(), (cases.batch, cases.time)
    x, carried = cases.inputs(module, subject.width, subject.widest)
    none, first = torch.zeros(shape, dtype=torch.bool), torch.arange(cases.time).expand(shape) == 0
    with torch.no_grad():
        right = module(x, module.initial_state(cases.batch), none)
        assert_same(module(x), right, subject.exact, "no state, no reset")
        assert_same(module(x, carried, first), right, subject.exact, "reset at the first step")
        changed = distance(module(x, carried)[0], right[0])
    require(changed > 1e-3 or not subject.remembers, "the given state is ignored")


def one_step_is_step(subject: Subject, cases: Cases) -> None:
    """A slice of a single step equals `step`, with a state, without one and at a reset."""
    batch = cases.batch
    for dtype, tolerance in subject.tolerances.items():
        module = subject.build(dtype)
        x, state = cases.inputs(module, subject.width, dtype)
        x = x[:, :1]
        y, after = module.step(x[:, 0], state)
        assert_same(module(x, state), (y[:, None], after), tolerance, "with a state")
        y, after = module.step(x[:, 0], module.initial_state(batch))
        assert_same(module(x), (y[:, None], after), tolerance, "without a state")
        every = torch.ones(batch, 1, dtype=torch.bool)
        assert_same(module(x, state, every), (y[:, None], after), tolerance, "reset")


def ten_thousand_steps(subject: Subject, cases: Cases) -> None:
    """Over 10,000 float32 steps: finite values and gradients; the same in pieces, and by steps from sampled places."""
    module, time, tolerance = subject.build(torch.float32), cases.long, subject.late_tolerance
    x = noise(1, time, subject.width, dtype=torch.float32).requires_grad_()
    reset = noise(1, time, seed=4) > 3  # about one in 700
    y, after = module(x, None, reset)
    loss = (y * noise(*y.shape, dtype=y.dtype, seed=5)).sum()
    learnt = {"x": x, **{name: p for name, p in module.named_parameters() if p.requires_grad}}
    found = torch.autograd.grad(loss, list(learnt.values()), allow_unused=True)
    for name, grad in zip(learnt, found, strict=True):
        require(grad is not None, f"no output depends on {name}")
        require(grad.isfinite().all(), f"the gradient of {name} over {time} steps is not finite")
    with torch.no_grad():
        state, start = module.initial_state(1), 0
        for length in pieces(time):
            piece, ahead = slice(start, start + length), slice(start, min(start + 3, time))
            stepped, _ = steps(module, x[:, ahead], state, reset[:, ahead])
            assert_near(stepped, y[:, ahead], tolerance, f"steps from {start}")
            part, state = module(x[:, piece], state, reset[:, piece])
            assert_near(part, y[:, piece], tolerance, f"piece from {start}")
            start += length
    require(y.isfinite().all(), f"an output within {time} steps is not finite")
    assert_same((y, state), (y, after), tolerance, "final")


def pieces(time: int) -> Sequence[int]:
    """Lengths of the pieces that a long slice is cut into, including single steps."""
    if time < 8:
        return [1] * time
    lengths = [1, time // 4 - 1, 3 * time // 10, 1]
    return [*lengths, time - sum(lengths)]


def half_precision(subject: Subject, cases: Cases) -> None:
    """Under bfloat16 autocast: close to float32 in every mode, finite gradients, and the state stays float32."""
    module = subject.build(torch.float32)
    (x, state), reset = cases.inputs(module, subject.width, torch.float32), cases.usual
    right = module(x, state, reset)
    for mode, run in (("forward", module), ("steps", partial(steps, module))):
        with torch.autocast(x.device.type, torch.bfloat16):
            y, after = run(x, state, reset)
        assert_same((y, after), right, subject.half_tolerance, mode)
        for i, part in enumerate(after):
            kept = part.dtype == torch.float32 or not part.is_floating_point()
            require(kept, f"{mode}: part {i} of the state is {part.dtype}: it must stay torch.float32")
        learnt = {name: p for name, p in module.named_parameters() if p.requires_grad}
        found = torch.autograd.grad(y.float().square().sum(), list(learnt.values()), allow_unused=True)
        for name, grad in zip(learnt, found, strict=True):
            require(grad is None or grad.isfinite().all(), f"{mode}: the gradient of {name} is not finite")

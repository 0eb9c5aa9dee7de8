"""Clauses of the law: no output depends on the future, on another episode or on another row."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from decision_rnn.backbones import State, reset_rows, select_rows
from decision_rnn.testing.cases import Cases, gradients, noise, steps
from decision_rnn.testing.comparing import assert_equal, assert_near, assert_same, require
from decision_rnn.testing.subject import Subject


def causal(subject: Subject, cases: Cases) -> None:
    """x at t changes the outputs from t on and none before, in value and in gradient."""
    module, t = subject.build(), cases.cut
    x = noise(cases.batch, cases.time, subject.width, dtype=subject.widest).requires_grad_()
    y, _ = module(x)
    pull = noise(cases.batch, t, subject.width, dtype=y.dtype)
    (grad,) = torch.autograd.grad((y[:, :t] * pull).sum(), x)
    require(grad[:, :t].abs().amax(-1).gt(0).all(), "a step's input has no gradient in the outputs from it on")
    assert_equal(grad[:, t:], torch.zeros_like(grad[:, t:]), f"the outputs before step {t} have a gradient from it on")
    changed, _ = module(torch.cat([x[:, :t], x[:, t : t + 1].flip(-1), x[:, t + 1 :]], dim=1))
    assert_equal(changed[:, :t], y[:, :t], f"an output before step {t} changed with the input of step {t}")
    difference = (changed[:, t] - y[:, t]).abs()
    answered = difference if subject.every_channel_answers else difference.amax(-1)
    require(answered.min() > 0, f"the output of step {t} does not change with its input")
    if subject.remembers and t + 1 < cases.time:
        later = (changed[:, t + 1] - y[:, t + 1]).abs().max()
        require(later > 1e-6, f"the output of step {t + 1} does not change with the input of step {t}")


def nothing_crosses_a_reset(subject: Subject, cases: Cases) -> None:
    """Neither x nor the state from before an episode's first step reaches its outputs or its final state."""
    module, batch = subject.build(), cases.batch
    reset = torch.zeros(batch, cases.time, dtype=torch.bool)
    before = torch.zeros(batch, cases.time, dtype=torch.bool)
    for row, t in enumerate(cases.places):
        reset[row, t] = True
        before[row, :t] = True
    x, state = cases.inputs(module, subject.width, subject.widest)
    other = torch.where(before[..., None], 1 - 3 * x, x)
    y, after = module(x, state, reset)
    changed, changed_after = module(other, module.initial_state(batch), reset)
    assert_equal(changed[~before], y[~before], "an output changed with what was before the reset")
    require((changed[before] - y[before]).abs().max() > 1e-3, "the outputs before the reset do not change")
    for i, (part, same) in enumerate(zip(after, changed_after, strict=True)):
        what = f"part {i} of the final state changed with what was before the reset"
        assert_equal(part.nan_to_num(), same.nan_to_num(), what)

    def episode(x: Tensor, state: State) -> tuple[Tensor, State]:
        y, after = module(x, state, reset)
        return y * ~before[..., None], after

    found = gradients(episode, {}, x, state)
    crossing = found["x"][before]
    assert_equal(crossing, torch.zeros_like(crossing), "gradient of x across the reset")
    require(torch.count_nonzero(found["x"][~before]) > 0, "x has no gradient within the episode")
    for name in found.keys() - {"x"}:
        assert_equal(found[name], torch.zeros_like(found[name]), f"gradient of {name} across the reset")


def infinities_stay_in_their_episode(subject: Subject, cases: Cases) -> None:
    """A reset cuts off infinities and NaN too, in value and in gradient.

    1e200 is finite, but its square is not. The loss is taken over the other episode only. Gradients of parameters are
    sums over all steps, in which a NaN step contributes 0 * NaN. They are therefore compared only where all steps are
    finite and only the state before them, which is reset immediately, is not.
    """
    module, tolerance = subject.build(), next(iter(subject.tolerances.values()))
    huge = 1e200 if subject.widest == torch.float64 else 1e30
    x, state = cases.inputs(module, subject.width, subject.widest)
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    reset = torch.arange(cases.time) == torch.tensor(cases.places)[:, None]
    later = reset.cumsum(1) > 0
    at_once = reset | (torch.arange(cases.time) == 0)

    def run(mode: str, kept: Tensor, reset: Tensor, final: bool, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, after = module(x, state, reset) if mode == "forward" else steps(module, x, state, reset)
        return torch.where(kept.unsqueeze(-1), y, 0), after if final else ()

    def filled(bad: float) -> State:
        return tuple(torch.full_like(part, bad) if part.is_floating_point() else part for part in state)

    every = torch.ones_like(later)
    for mode in ("forward", "steps"):
        # The steps kept in the loss, the resets, whether the final state is kept, and x and state for a bad number.
        tried: dict[str, tuple[Tensor, Tensor, bool, Callable[[float], tuple[Tensor, State]]]] = {
            "the state before the first step": (every, at_once, True, lambda bad: (x, filled(bad))),
            "the state before an episode": (later, reset, True, lambda bad: (x, filled(bad))),
            "an earlier episode": (later, reset, True, lambda bad: (torch.where(later.unsqueeze(-1), x, bad), state)),
            "a later episode": (~later, reset, False, lambda bad: (torch.where(later.unsqueeze(-1), bad, x), state)),
        }
        for what, (kept, flags, final, spoilt) in tried.items():
            function = partial(run, mode, kept, flags, final)
            with torch.no_grad():
                right = function(x, state)
            right_gradients = gradients(function, named, x, state)
            for bad in (torch.inf, -torch.inf, torch.nan, huge):
                case, (spoilt_x, spoilt_state) = f"{what} is {bad}, {mode}", spoilt(bad)
                with torch.no_grad():
                    assert_same(function(spoilt_x, spoilt_state), right, tolerance, case)
                found = gradients(function, named, spoilt_x, spoilt_state)
                assert_near(found["x"][kept], right_gradients["x"][kept], tolerance, f"{case}, gradient of x")
                if kept is every:
                    for name in found:
                        assert_near(found[name], right_gradients[name], tolerance, f"{case}, gradient of {name}")


def rows_are_independent(subject: Subject, cases: Cases) -> None:
    """A row alone gives the same; memory layout does not matter; select_rows and reset_rows do as they say."""
    module, batch, width, exact = subject.build(), cases.batch, subject.width, subject.exact
    (x, state), reset = cases.inputs(module, width, subject.widest), cases.usual
    y, after = module(x, state, reset)
    for row in range(batch):
        one = torch.tensor([row])
        alone = module(x[one], select_rows(state, one), None if reset is None else reset[one])
        assert_same(alone, (y[one], select_rows(after, one)), exact, f"row {row} alone")
    strided = noise(cases.time, width, batch, dtype=subject.widest).permute(2, 0, 1)
    assert_same(module(strided, state, reset), module(strided.contiguous(), state, reset), exact, "strided x")

    picked = torch.tensor([batch - 1, 0])
    _, stepped = module.step(x[:, 0], state)
    right = module.step(x[picked, 0], tuple(part[picked] for part in state))
    assert_same(module.step(x[picked, 0], select_rows(state, picked)), right, 0, "select_rows by index")
    mask = torch.arange(batch) % 2 == 0
    for part, whole in zip(select_rows(stepped, mask), stepped, strict=True):
        assert_near(part, whole[::2], 0, "select_rows by mask")
    initial = module.initial_state(batch)
    for new, start, old in zip(reset_rows(state, initial, mask), initial, state, strict=True):
        require(new.dtype == old.dtype, f"reset_rows turns {old.dtype} into {new.dtype}")
        assert_near(new[::2], start[::2], 0, "reset_rows, a reset row")
        assert_near(new[1::2], old[1::2], 0, "reset_rows, a kept row")

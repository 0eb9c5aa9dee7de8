"""The contract of a sequence mixer as properties: functions that raise an error where a mixer violates them."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from decision_rnn.backbones import State, reset_rows, select_rows
from decision_rnn.testing.harness import (
    BATCH,
    PATTERNS,
    TIME,
    Mask,
    MixerCase,
    Result,
    assert_near,
    assert_same,
    cast,
    forward,
    gradients,
    joined,
    mask_of,
    noise,
    nudged,
    require,
    steps,
    traced,
    trainable,
)

CHUNKS = [[1] * TIME, [1, 4, 7], [5, 1, 6], [TIME - 1, 1]]
MODES: dict[str, Callable[..., Result]] = {
    "forward": forward,
    **{f"forward in chunks of {lengths}": partial(forward, lengths=lengths) for lengths in CHUNKS},
    "steps": steps,
}
LONG = 10_000


@torch.no_grad()
def state_form(case: MixerCase) -> None:
    """The state is a flat tuple of real tensors, batch first, of constant form; outputs have the form of x."""
    for dtype in case.tolerances:
        module = case.build(dtype)
        initial = module.initial_state(BATCH)
        for i, (part, shape) in enumerate(form_of(initial, "the initial state")):
            real = not part.is_complex and (part == dtype or not part.is_floating_point)
            what = f"part {i} of initial_state({BATCH}) is {part} {shape}"
            require(real and shape[:1] == (BATCH,), f"{what}: it must be real, of {dtype}, with the batch first")
        for time, mode in product((1, 2, 7, 50), (forward, steps)):
            x, state = noise(BATCH, time, case.width, dtype=dtype), None
            for what in (f"{mode.__name__} over {time} steps", f"{mode.__name__} over {time} steps and as many again"):
                y, state = mode(module, x, state)
                found, right = form_of(state, f"the state after {what}"), form_of(initial, "the initial state")
                require(found == right, f"the state after {what} is {found}, the initial state {right}")
                found, right = form_of((y,), "y"), form_of((x,), "x")
                require(found == right, f"{what} maps x, {right}, to {found}")
    meta = case.build().to("meta").initial_state(2)
    require(all(part.device.type == "meta" for part in meta), "initial_state is not on the parameters' device")


def form_of(state: Any, what: str) -> list[tuple[torch.dtype, tuple[int, ...]]]:
    """The dtype and shape of every part; AssertionError if the state is not a tuple of tensors."""
    parts = [type(part).__name__ for part in state]
    tensors = isinstance(state, tuple) and all(isinstance(part, Tensor) for part in state)
    require(tensors, f"{what} is a {type(state).__name__} of {parts}: it must be a flat tuple of tensors")
    return [(part.dtype, tuple(part.shape)) for part in state]


def modes_agree(case: MixerCase) -> None:
    """`forward`, any chunks of it and steps give the same outputs and final state, with resets anywhere.

    Every mode is run on all patterns in one batch. `forward` is also run on each alone, since a mixer may treat slices
    without resets, or with resets in every row, in another way.
    """
    masks = {"left out": torch.zeros(BATCH, TIME, dtype=torch.bool), **{name: mask_of(name) for name in PATTERNS}}
    for dtype, tolerance in case.tolerances.items():
        module = case.build(dtype)
        x, carried = case.inputs(module, dtype)
        starts = {"no": None, "a carried": carried}
        states = [module.initial_state(BATCH)] * len(masks) + [carried] * len(masks)
        inputs = torch.cat([x] * len(states)), joined(states), torch.cat([*masks.values()] * len(starts))
        with torch.no_grad():
            right, rounded = case.expected(dtype, lambda _, run: run(*inputs))  # noqa: B023

            def check(mode: str, rows: Tensor, resets: str, start: str, reset: Mask) -> None:
                def of_rows(result: Result) -> Result:
                    return result[0][rows], select_rows(result[1], rows)

                state = None if start == "no" else select_rows(inputs[1], rows)  # noqa: B023
                found = MODES[mode](module, inputs[0][rows], state, reset)  # noqa: B023
                what = f"{mode}, {dtype}, resets {resets}, {start} state"  # noqa: B023
                assert_same(found, of_rows(right), tolerance, what, lambda: of_rows(rounded()))  # noqa: B023

            for i, (start, pattern) in enumerate(product(starts, masks)):
                rows = torch.arange(BATCH * i, BATCH * (i + 1))
                if pattern in PATTERNS:
                    check("forward", rows, pattern, start, masks[pattern])
                else:
                    for mode in MODES:
                        check(mode, rows, pattern, start, None)
            for start, rows in zip(starts, torch.arange(len(inputs[0])).chunk(len(starts)), strict=True):
                for mode in MODES:
                    check(mode, rows, "of all patterns", start, inputs[2][rows])


def gradients_agree(case: MixerCase) -> None:
    """`forward`, chunks and steps give the same gradients of all parameters, of x and of the carried state."""
    for dtype, tolerance in case.tolerances.items():
        module = case.build(dtype)
        x, state = case.inputs(module, dtype)
        consecutive, random = mask_of("consecutive"), mask_of("random")
        cases = {
            "left out": (x, state, None),
            "consecutive and random": (torch.cat([x, x]), joined([state, state]), torch.cat([consecutive, random])),
        }
        for resets, (x, state, mask) in cases.items():
            wide = cast(x, case.widest), tuple(cast(part, case.widest) for part in state)

            def slopes(module: nn.Module, run: Callable[..., Result]) -> dict[str, Tensor]:
                return gradients(partial(run, reset=mask), trainable(module), *wide)  # noqa: B023

            expected, close = case.expected(dtype, slopes)
            for mode in ("forward", "forward in chunks of [5, 1, 6]", "steps"):
                found = gradients(partial(MODES[mode], module, reset=mask), trainable(module), x, state)
                for name, gradient in found.items():
                    what = f"{mode}, {dtype}, resets {resets}, gradient of {name}"
                    assert_near(gradient, expected[name], tolerance, what, lambda: close()[name])  # noqa: B023


def causal(case: MixerCase) -> None:
    """x at step t changes the outputs from t on and none before, in value and in gradient."""
    t, module, x = 5, case.build(), noise(BATCH, TIME, case.width, dtype=case.widest).requires_grad_()
    y, _ = forward(module, x)
    (gradient,) = torch.autograd.grad((y[:, :t] * noise(BATCH, t, case.width, dtype=y.dtype)).sum(), x)
    require(gradient[:, :t].abs().amax(-1).gt(0).all(), "the input of a step has no gradient in the outputs from it on")
    assert_near(gradient[:, t:], torch.zeros_like(x[:, t:]), 0, f"gradient of outputs before step {t} in x from it on")
    changed, _ = forward(module, torch.cat([x[:, :t], x[:, t : t + 1].flip(-1), x[:, t + 1 :]], dim=1))
    assert_near(changed[:, :t], y[:, :t], 0, f"outputs before step {t} after x changed at that step")
    response = (changed - y).abs().amax(-1)
    require(response[:, t].min() > 0, f"the output of step {t} does not change with its input")
    later = response[:, t + 1].max() > 1e-6 or not case.remembers
    require(later, f"the output of step {t + 1} does not change with the input of step {t}")


def resets_isolate(case: MixerCase) -> None:
    """A reset cuts off what was before, also infinities and NaN, and what comes after, in value and in gradient.

    1e200 is finite, but its square is not. The loss is taken over the other episode only. Gradients of parameters are
    sums over all steps, in which a NaN step contributes 0 * NaN. They are therefore compared only where all steps are
    finite and only the state before them, which is reset immediately, is not.
    """
    module, tolerance = case.build(), case.tolerances[case.widest]
    (x, state), reset = case.inputs(module), mask_of("once in every row")
    later, every, at_once = reset.cumsum(1) > 0, torch.ones_like(reset), reset.clone()
    at_once[:, 0] = True
    values = (3.0, torch.inf, -torch.inf, torch.nan, 1e200 if case.widest == torch.float64 else 1e30)
    copies = len(values)  # the changes to each value, in rows of their own
    every_x, every_state = torch.cat([x] * copies), joined([state] * copies)
    # What is changed: the resets, the steps in the loss, the steps of x that change, and whether the state does.
    places = {
        "the state before the first step": (at_once, every, ~every, True),
        "the state before an episode": (reset, later, ~every, True),
        "an earlier episode": (reset, later, ~later, False),
        "a later episode": (reset, ~later, later, False),
    }
    for (place, (mask, kept, changes, of_state)), mode in product(places.items(), (forward, steps)):

        def run(x: Tensor, state: State) -> Result:
            y, after = mode(module, x, state, mask.repeat(copies, 1))  # noqa: B023
            seen = kept.repeat(copies, 1)[..., None]  # noqa: B023
            return torch.where(seen, y, 0), () if place == "a later episode" else after  # noqa: B023

        parameters = trainable(module) if kept is every else {}
        right, slopes = traced(run, parameters, every_x, every_state)
        crossing = {name: slope for name, slope in slopes.items() if "state" in name and place != "a later episode"}
        for name, slope in {**crossing, "x": slopes["x"][changes.repeat(copies, 1)]}.items():
            assert_near(slope, torch.zeros_like(slope), 0, f"{mode.__name__}, gradient of {name} in {place}")
        other_x = torch.cat([torch.where(changes[..., None], value, x) for value in values])
        other_states = [
            tuple(torch.full_like(part, value) if of_state and part.is_floating_point() else part for part in state)
            for value in values
        ]
        found, found_slopes = traced(run, parameters, other_x, joined(other_states))
        for i, value in enumerate(values):
            rows, what = torch.arange(BATCH * i, BATCH * (i + 1)), f"{mode.__name__}, {place} is {value}"
            expected = right[0][rows], select_rows(right[1], rows)
            given = found[0][rows], select_rows(found[1], rows)
            assert_same(given, expected, 0 if value == 3 else tolerance, what)
            slope, of_x = (part["x"][rows][kept] for part in (found_slopes, slopes))
            assert_near(slope, of_x, tolerance, f"{what}, gradient of x")
        if kept is every:
            for name in found_slopes.keys() - {"x"}:
                what = f"{mode.__name__}, {place} is one of {values}, gradient of {name}"
                assert_near(found_slopes[name], slopes[name], tolerance, what)


def rows_are_independent(case: MixerCase) -> None:
    """A row alone gives the same; memory layout does not matter; states work with select_rows and reset_rows."""
    module, mask = case.build(), mask_of("random")
    x, state = case.inputs(module)
    y, after = forward(module, x, state, mask)
    for row in torch.arange(BATCH)[:, None]:
        alone = forward(module, x[row], select_rows(state, row), mask[row])
        assert_same(alone, (y[row], select_rows(after, row)), case.exact, f"row {int(row)} alone")
    strided = noise(TIME, case.width, BATCH, dtype=case.widest).permute(2, 0, 1)
    right = forward(module, strided.contiguous(), state, mask)
    assert_same(forward(module, strided, state, mask), right, case.exact, "x that is not contiguous")
    y, after = module.step(x[:, 0], state)
    for rows in (torch.tensor([BATCH - 1, 0]), torch.arange(BATCH) % 2 == 0):
        part = module.step(x[rows, 0], select_rows(state, rows))
        assert_same(part, (y[rows], select_rows(after, rows)), case.exact, f"step of rows {rows.tolist()}")
    new = reset_rows(state, module.initial_state(BATCH), torch.arange(BATCH) > 0)
    for i, (part, start, old) in enumerate(zip(new, module.initial_state(BATCH), state, strict=True)):
        require(part.dtype == old.dtype, f"reset_rows changes part {i} of the state from {old.dtype} to {part.dtype}")
        assert_near(part, torch.cat([old[:1], start[1:]]), 0, f"reset_rows, part {i} of the state")


def calls_are_pure(case: MixerCase) -> None:
    """A call changes neither its arguments nor the module, and repeats whatever was called in between."""
    module, resets = case.build(), mask_of("random")
    x, state = case.inputs(module)
    others = noise(BATCH + 1, TIME + 3, case.width, dtype=case.widest, seed=8)
    parts = {"x": x, "the mask of resets": resets, **{f"part {i} of the state": p for i, p in enumerate(state)}}
    parts |= module.state_dict()
    kept = {name: part.clone() for name, part in parts.items()}
    calls: dict[str, Callable[[], Result]] = {
        "forward without a state": lambda: module(x),
        "forward with a state and resets": lambda: module(x, state, resets),
        "step": lambda: module.step(x[:, 0], state),
    }
    with torch.no_grad():
        first = {name: call() for name, call in calls.items()}
        for name, part in parts.items():
            assert_near(part, kept[name], 0, f"{name}, after calls of forward and step")
        for name, call in calls.items():
            forward(module, others)
            module.step(others[:, 0], module.initial_state(BATCH + 1))
            assert_same(call(), first[name], 0, f"{name}, after other calls")


def train_equals_eval(case: MixerCase) -> None:
    """`train()` and `eval()` compute the same, apart from dropout: an agent acts as it was trained."""
    evaluating, training = case.build().eval(), case.build().train()
    x, state = case.inputs(evaluating)
    with torch.no_grad():
        for mode in (forward, steps):
            right = mode(evaluating, x, state)
            assert_same(mode(training, x, state), right, case.exact, f"{mode.__name__} after train()")


def state_dict_is_complete(case: MixerCase) -> None:
    """A state dict in a new module gives the same function; recurrent_parameters are the module's, once each."""
    module, fresh = case.build(), case.make()
    fresh._apply(lambda part: cast(part, case.widest))
    fresh.load_state_dict(module.state_dict())
    x, state = case.inputs(module)
    assert_same(forward(fresh, x, state), forward(module, x, state), 0, "the state dict in a new module")
    recurrent, own = [id(part) for part in module.recurrent_parameters()], {id(part) for part in module.parameters()}
    require(len(set(recurrent)) == len(recurrent), "recurrent_parameters yields a parameter twice")
    require(set(recurrent) <= own, "recurrent_parameters yields something that is not a parameter of the module")


def step_is_real(case: MixerCase) -> None:
    """`step` computes in real arithmetic, without complex tensors, so that it can be exported."""
    module, x = case.build(), noise(BATCH, case.width, dtype=case.widest)
    state = module.initial_state(BATCH)
    with torch.no_grad(), _NoComplexNumbers():
        module.step(x, state)


class _NoComplexNumbers(TorchDispatchMode):
    """Raises AssertionError at an operation that returns a complex tensor."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        real = not any(isinstance(part, Tensor) and part.is_complex() for part in tree_leaves(result))
        require(real, f"step computes with complex numbers, first in {func}")
        return result


def dense_resets(case: MixerCase) -> None:
    """Resets on and beside powers of two, where chunks and blocks of a kernel begin, and in any density."""
    module, time = case.build(), 600
    powers = torch.tensor([2**i for i in range(2, 10)] + [64 * i for i in range(1, 10)])
    mask = noise(4, time, seed=4) > 1  # a reset every 6 steps
    mask[:3] = False
    for row, offset in enumerate((-1, 0, 1)):
        mask[row, powers + offset] = True
    x, last = noise(4, time, case.width, dtype=case.widest).requires_grad_(), time - 5
    mask[:, last] = True
    with torch.no_grad():
        right = steps(module, x, None, mask)
    y, after = forward(module, x, None, mask)
    assert_same((y.detach(), after), right, 10 * case.tolerances[case.widest], f"forward over {time} steps")
    (slope,) = torch.autograd.grad((y[:, last:] * noise(4, time - last, case.width, dtype=y.dtype)).sum(), x)
    assert_near(slope[:, :last], torch.zeros_like(x[:, :last]), 0, f"gradient in x before the reset at step {last}")


def long_sequences(case: MixerCase) -> None:
    """Over 10,000 float32 steps: finite values and gradients; the same in pieces, and by steps from sampled places."""
    module, tolerance = case.build(torch.float32), case.long_tolerance
    x, mask = noise(1, LONG, case.width, dtype=torch.float32), noise(1, LONG, seed=4) > 3  # a reset every 700 steps
    (y, after), slopes = traced(lambda x, _: forward(module, x, None, mask), trainable(module), x, ())
    for name, slope in slopes.items():
        require(slope.isfinite().all(), f"the gradient of {name} over {LONG} steps is not finite")
        require(slope.any(), f"no output depends on {name}")
    with torch.no_grad():
        state, start = module.initial_state(1), 0
        require(y.isfinite().all(), f"an output within {LONG} steps is not finite")
        for length in (1, LONG // 4 - 1, 3 * LONG // 10, 1, 9 * LONG // 20 - 1):
            ahead, piece = slice(start, start + 3), slice(start, start + length)
            stepped, _ = steps(module, x[:, ahead], state, mask[:, ahead])
            assert_near(stepped, y[:, ahead], tolerance, f"steps from step {start} on")
            part, state = forward(module, x[:, piece], state, mask[:, piece])
            assert_near(part, y[:, piece], tolerance, f"forward over {length} steps from step {start} on")
            start += length
    assert_same((y, state), (y, after), tolerance, f"after {LONG} steps in pieces")


def bfloat16(case: MixerCase) -> None:
    """Under bfloat16 autocast: close to float32, finite gradients, and the state stays float32."""
    module, mask = case.build(torch.float32), mask_of("random")
    x, state = case.inputs(module, torch.float32)
    half = 2.5 * torch.finfo(torch.bfloat16).eps  # fewer than `ROUNDINGS`: only the factors of products are rounded
    rounded = case.build(torch.float32)._apply(lambda part: nudged(part, half))
    right = forward(module, x, state, mask)
    close = partial(forward, rounded, nudged(x, half), tuple(nudged(part, half) for part in state), mask)
    for mode in (forward, steps):
        with torch.autocast(x.device.type, torch.bfloat16):
            y, after = mode(module, x, state, mask)
        assert_same((y, after), right, 0.03, mode.__name__, close)
        for i, part in enumerate(after):
            kept = part.dtype == torch.float32 or not part.is_floating_point()
            require(kept, f"{mode.__name__}: part {i} of the state is {part.dtype}: it must stay torch.float32")
        parameters = trainable(module)
        found = torch.autograd.grad(y.float().square().sum(), list(parameters.values()), materialize_grads=True)
        for name, slope in zip(parameters, found, strict=True):
            require(slope.isfinite().all(), f"{mode.__name__}: the gradient of {name} is not finite")


PROPERTIES: tuple[Callable[[MixerCase], None], ...] = (
    state_form,
    modes_agree,
    gradients_agree,
    causal,
    resets_isolate,
    rows_are_independent,
    calls_are_pure,
    train_equals_eval,
    state_dict_is_complete,
    step_is_real,
    dense_resets,
    long_sequences,
    bfloat16,
)
"""All properties. If the first fails, the others, which compare states, are skipped."""

"""Properties of a sequence mixer beside those of `backbones.testing`: functions that raise AssertionError."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from decision_rnn.backbones import reset_rows, select_rows, testing
from decision_rnn.backbones.contract import run_stepwise
from decision_rnn.backbones.testing import (
    BATCH,
    TIME,
    MixerCase,
    assert_near,
    cast,
    forward,
    mask,
    named,
    noise,
    require,
    traced,
)

LONG = 10_000


def rows_are_independent(case: MixerCase) -> None:
    """A row alone gives the same; memory layout does not matter; states work with select_rows and reset_rows."""
    module, reset, exact = case.build(), mask("various"), case.tolerances[case.widest] / 10
    x, state = case.inputs(module)
    y, after = forward(module, x, state, reset)
    for row in torch.arange(BATCH)[:, None]:
        alone = forward(module, x[row], select_rows(state, row), reset[row])
        assert_near(named(alone), named((y[row], select_rows(after, row))), exact, f"row {int(row)} alone")
    strided = noise(TIME, case.width, BATCH, dtype=case.widest).permute(2, 0, 1)
    right = named(forward(module, strided.contiguous(), state, reset))
    assert_near(named(forward(module, strided, state, reset)), right, exact, "x that is not contiguous")
    y, after = module.step(x[:, 0], state)
    for rows in (torch.tensor([BATCH - 1, 0]), torch.arange(BATCH) % 2 == 0):
        part = module.step(x[rows, 0], select_rows(state, rows))
        assert_near(named(part), named((y[rows], select_rows(after, rows))), exact, f"step of rows {rows.tolist()}")
    new = reset_rows(state, module.initial_state(BATCH), torch.arange(BATCH) > 0)
    for i, (part, start, old) in enumerate(zip(new, module.initial_state(BATCH), state, strict=True)):
        require(part.dtype == old.dtype, f"reset_rows changes part {i} of the state from {old.dtype} to {part.dtype}")
        assert_near(part, torch.cat([old[:1], start[1:]]), 0, f"reset_rows, part {i} of the state")


def calls_are_pure(case: MixerCase) -> None:
    """A call changes neither its arguments nor the module, and repeats whatever was called in between."""
    module, reset = case.build(), mask("various")
    x, state = case.inputs(module)
    others = noise(BATCH + 1, TIME + 3, case.width, dtype=case.widest, seed=8)
    parts = {"x": x, "reset": reset, **{f"part {i} of the state": p for i, p in enumerate(state)}} | module.state_dict()
    copies = {name: part.clone() for name, part in parts.items()}
    calls = {
        "forward without a state": lambda: named(module(x)),
        "forward with a state and resets": lambda: named(module(x, state, reset)),
        "step": lambda: named(module.step(x[:, 0], state)),
    }
    with torch.no_grad():
        first = {name: call() for name, call in calls.items()}
        assert_near(parts, copies, 0, "after calls of forward and step")
        for name, call in calls.items():
            forward(module, others)
            module.step(others[:, 0], module.initial_state(BATCH + 1))
            assert_near(call(), first[name], 0, f"{name}, after other calls")


def train_equals_eval(case: MixerCase) -> None:
    """`train()` and `eval()` compute the same, apart from dropout: an agent acts as it was trained."""
    module = case.build()
    x, state = case.inputs(module)
    for mode in (forward, run_stepwise):
        with torch.no_grad():
            right, found = (named(mode(case.build().train(training), x, state)) for training in (False, True))
        assert_near(found, right, case.tolerances[case.widest] / 10, f"{mode.__name__}, train()")


def state_dict_is_complete(case: MixerCase) -> None:
    """A state dict in a new module gives the same function; recurrent_parameters are the module's, once each."""
    module, fresh = case.build(), case.make()
    fresh._apply(lambda part: cast(part, case.widest))
    fresh.load_state_dict(module.state_dict())
    x, state = case.inputs(module)
    right = named(forward(module, x, state))
    assert_near(named(forward(fresh, x, state)), right, 0, "the state dict in a new module")
    recurrent, own = [id(part) for part in module.recurrent_parameters()], {id(part) for part in module.parameters()}
    require(len(set(recurrent)) == len(recurrent), "recurrent_parameters yields a parameter twice")
    require(set(recurrent) <= own, "recurrent_parameters yields something that is not a parameter of the module")
    meta = module.to("meta").initial_state(2)
    require(all(part.device.type == "meta" for part in meta), "initial_state is not on the parameters' device")


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


def long_sequences(case: MixerCase) -> None:
    """Over 10,000 float32 steps: finite values and gradients; the same in pieces, and by steps from sampled places."""
    module, tolerance = case.build(torch.float32), getattr(case, "long_tolerance", 1e-4)
    x, reset = noise(1, LONG, case.width, dtype=torch.float32), noise(1, LONG, seed=4) > 3  # a reset every 700 steps
    right = traced(partial(forward, module), module, x, None, reset)
    for name, part in right.items():
        require(part.isfinite().all() or name.startswith("state"), f"{name} over {LONG} steps is not finite")
        require(part.any() or not name.startswith("gradient"), f"the {name} is zero: no output depends on it")
    with torch.no_grad():
        state, start, y = module.initial_state(1), 0, right["output"]
        for length in (1, LONG // 4 - 1, 3 * LONG // 10, 1, 9 * LONG // 20 - 1):
            ahead, piece = slice(start, start + 3), slice(start, start + length)
            stepped, _ = run_stepwise(module, x[:, ahead], state, reset[:, ahead])
            assert_near(stepped, y[:, ahead], tolerance, f"steps from step {start} on")
            part, state = forward(module, x[:, piece], state, reset[:, piece])
            assert_near(part, y[:, piece], tolerance, f"forward over {length} steps from step {start} on")
            start += length
    assert_near(named((y, state)), right, tolerance, f"after {LONG} steps in pieces")


OTHERS = (
    rows_are_independent,
    calls_are_pure,
    train_equals_eval,
    state_dict_is_complete,
    step_is_real,
    long_sequences,
)
PROPERTIES = (*testing.PROPERTIES, *OTHERS)

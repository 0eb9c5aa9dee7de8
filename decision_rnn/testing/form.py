"""Clauses of the law: the form of outputs and states, and that a mixer is determined by its weights."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from decision_rnn.backbones import State, reset_rows
from decision_rnn.testing.cases import Cases, noise, steps
from decision_rnn.testing.comparing import assert_near, assert_same, require
from decision_rnn.testing.subject import Subject, cast


def state_keeps_its_form(subject: Subject, cases: Cases) -> None:
    """A flat tuple of real tensors, batch first, whose shapes and dtypes are fixed over time; outputs like x."""
    batch = cases.batch
    for dtype in subject.tolerances:
        module = subject.build(dtype)
        initial = module.initial_state(batch)
        check_initial(initial, batch, dtype)
        form = form_of(initial)
        for time in cases.times:
            x = noise(batch, time, subject.width, dtype=dtype)
            runs: dict[str, Callable[..., Any]] = {
                "forward": module,
                "steps": lambda x, state=None: steps(module, x, state or initial, None),  # noqa: B023
            }
            for mode, run in runs.items():
                case = f"{mode} over {time} step{'s' if time > 1 else ''}"
                result = run(x)
                pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor)
                require(pair, f"{case} returns {type(result).__name__}: it must be (output, state)")
                y, state = result
                check_output(y, x, case)
                check_form(state, form, f"the state after {case}")
                if mode == "forward":
                    check_form(run(x, state)[1], form, f"the state after {case} and as many again")
    meta = subject.build().to("meta").initial_state(2)
    require(all(part.device.type == "meta" for part in meta), "initial_state is not on the parameters' device")


def check_initial(initial: Any, batch: int, dtype: torch.dtype) -> None:
    require(isinstance(initial, tuple), f"initial_state returns {type(initial).__name__}: it must be a flat tuple")
    for i, part in enumerate(initial):
        require(
            isinstance(part, Tensor), f"part {i} of the initial state is {type(part).__name__}: it must be a tensor"
        )
        require(not part.is_complex(), f"part {i} of the initial state is {part.dtype}: a state is of real tensors")
        first = part.shape[0] if part.dim() else None
        require(
            first == batch,
            f"part {i} of the initial state is of shape {tuple(part.shape)} for {batch} rows: the batch comes first",
        )
        held = part.dtype == dtype or not part.is_floating_point()
        require(held, f"part {i} of the initial state is {part.dtype} where the parameters are {dtype}")


def check_output(y: Tensor, x: Tensor, case: str) -> None:
    require(y.shape == x.shape, f"{case} gives an output of shape {tuple(y.shape)} for x of {tuple(x.shape)}")
    require(y.dtype == x.dtype, f"{case} gives an output of {y.dtype} for x of {x.dtype}")


def check_form(state: State, form: list[tuple[tuple[int, ...], torch.dtype]], what: str) -> None:
    require(isinstance(state, tuple), f"{what} is {type(state).__name__}: it must be a flat tuple")
    require(all(isinstance(part, Tensor) for part in state), f"{what} holds something that is not a tensor")
    found = form_of(state)
    require(found == form, f"{what} is {told(found)} where the initial state is {told(form)}")


def form_of(state: State) -> list[tuple[tuple[int, ...], torch.dtype]]:
    return [(tuple(part.shape), part.dtype) for part in state]


def told(form: list[tuple[tuple[int, ...], torch.dtype]]) -> str:
    """A state's form as text: `(2, 8) float64, (2,) int64`."""
    return ", ".join(f"{shape} {str(dtype).removeprefix('torch.')}" for shape, dtype in form) or "empty"


def step_is_real(subject: Subject, cases: Cases) -> None:
    """`step` computes in real arithmetic, without complex tensors, so that it can be exported."""
    module = subject.build()
    x, state = noise(cases.batch, subject.width, dtype=subject.widest), module.initial_state(cases.batch)
    with torch.no_grad(), _complex_operations() as found:
        module.step(x, state)
    require(not found, f"step computes with complex numbers, first in {found[0] if found else ''}")


@contextmanager
def _complex_operations() -> Iterator[list[str]]:
    """Collect the names of operations inside the block that return complex tensors, in order."""
    found: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if any(isinstance(part, Tensor) and part.is_complex() for part in tree_leaves(result)):
                found.append(str(func))
            return result

    with Watch():
        yield found


def nothing_is_kept_between_calls(subject: Subject, cases: Cases) -> None:
    """The same call gives the same result, whatever was called in between: all memory is in the state."""
    module, batch, time, width = subject.build(), cases.batch, cases.time, subject.width
    x, state = cases.inputs(module, width, subject.widest)
    others = noise(batch + 1, time + 3, width, dtype=subject.widest, seed=8)
    held = {name: part.clone() for name, part in module.state_dict().items()}
    calls = {
        "forward without a state": lambda: module(x),
        "forward with a state": lambda: module(x, state),
        "step": lambda: module.step(x[:, 0], state),
    }
    with torch.no_grad():
        first = {name: call() for name, call in calls.items()}
        for name, call in calls.items():
            module(others)
            module.step(others[:, 0], module.initial_state(batch + 1))
            assert_same(call(), first[name], 0, f"{name}, after other calls")
    for name, part in module.state_dict().items():
        assert_near(part, held[name], 0, f"{name} of the module, after calls")


def training_changes_nothing(subject: Subject, cases: Cases) -> None:
    """`train()` and `eval()` compute the same, apart from dropout: an agent acts as it was trained."""
    modules = subject.build().eval(), subject.build().train()
    x, state = cases.inputs(modules[0], subject.width, subject.widest)
    with torch.no_grad():
        evaluating, training = (module(x, state) for module in modules)
        assert_same(training, evaluating, subject.exact, "forward after train()")
        evaluating, training = (module.step(x[:, 0], state) for module in modules)
        assert_same(training, evaluating, subject.exact, "step after train()")


def arguments_stay(subject: Subject, cases: Cases) -> None:
    """Neither mode writes into the x, state or reset flags that it is given."""
    module, reset = subject.build(), cases.usual
    x, state = cases.inputs(module, subject.width, subject.widest)
    reset = torch.zeros(x.shape[:2], dtype=torch.bool) if reset is None else reset
    given = {"x": x, "reset": reset, **{f"state part {i}": part for i, part in enumerate(state)}}
    kept = {name: part.clone() for name, part in given.items()}
    with torch.no_grad():
        module(x, state, reset)
        module.step(x[:, 0], state)
        reset_rows(state, module.initial_state(cases.batch), reset[:, 0])
    for name, part in given.items():
        assert_near(part, kept[name], 0, f"the argument {name}, after the call")


def weights_are_all(subject: Subject, cases: Cases) -> None:
    """Weights loaded into a new module give the same function; recurrent parameters are among them, once each."""
    module, fresh = subject.build(), subject.fresh()
    fresh._apply(lambda part: cast(part, subject.widest))
    fresh.load_state_dict(module.state_dict())
    x, state = cases.inputs(module, subject.width, subject.widest)
    assert_same(fresh(x, state), module(x, state), 0, "the weights loaded into a new module")
    recurrent = list(module.recurrent_parameters())
    require(all(isinstance(part, nn.Parameter) for part in recurrent), "recurrent_parameters yields no parameters")
    names = [id(parameter) for parameter in recurrent]
    require(len(names) == len(set(names)), "recurrent_parameters yields a parameter twice")
    own = {id(parameter) for parameter in module.parameters()}
    require(set(names) <= own, "recurrent_parameters yields a parameter that is not the module's")

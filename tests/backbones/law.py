"""The law of decision_rnn/backbones/contract.py: functions that take a mixer or stack and raise if it fails.

A mixer that is registered inherits all of `LAWS` through test_law.py, alone and in a stack; it has to bring a
naive loop (references.py) and, where its defaults are large, a small configuration (`SMALL` in subjects.py).
"""

from collections.abc import Callable
from functools import partial

import torch
from subjects import (
    BATCH,
    SPLITS,
    TIGHT,
    TIME,
    WIDTH,
    Subject,
    amplifies,
    assert_near,
    assert_same,
    carried_state,
    chunks,
    distance,
    gradients,
    late_tolerance,
    noise,
    rectified,
    remembers,
    resets,
    steps,
    tolerances,
)
from torch import Tensor

from decision_rnn.backbones import Backbone, State, registered, reset_rows, select_rows


def all_modes_agree(subject: Subject) -> None:
    """forward == steps == any split == the naive loop: outputs and final state, resets anywhere.

    What takes many calls goes over the rows of all patterns at once. `forward` and one of the splits go over each
    pattern alone too, as a mixer may look at the flags of the whole batch to choose its way.
    """
    patterns = resets()
    together = torch.cat([reset for reset in patterns.values() if reset is not None])
    count = len(together) // BATCH
    for dtype, tolerance in tolerances(subject).items():
        module = subject.build(dtype)
        x = noise(BATCH, TIME, WIDTH, dtype=dtype)
        parameters = {name: p.detach().double() for name, p in module.named_parameters()}
        for start, state in (("initial", None), ("carried", carried_state(module))):
            given = module.initial_state(BATCH) if state is None else state
            wide = tuple(part.double() for part in given)
            many_x, many_given = repeated(x, count), tuple(repeated(part, count) for part in given)
            many_state = None if state is None else many_given
            with torch.no_grad():
                rights = naive_of_rows(subject, parameters, x.double(), wide, patterns)
                found = {"steps": steps(module, many_x, many_given, together)}
                alone = {"steps": steps(module, x, given, None)}
                for lengths in SPLITS:
                    found[f"chunks {lengths}"] = chunks(module, many_x, many_state, together, lengths)
                    alone[f"chunks {lengths}"] = chunks(module, x, state, None, lengths)
                first = 0
                for pattern, reset in patterns.items():
                    case = f"{dtype}, reset {pattern}, {start} state"
                    right = rights[pattern]
                    assert_same(module(x, state, reset), right, tolerance, f"forward, {case}")
                    if reset is None:
                        for mode, of_mode in alone.items():
                            assert_same(of_mode, right, tolerance, f"{mode}, {case}")
                        continue
                    split = chunks(module, x, state, reset, [5, 1, 6])
                    assert_same(split, right, tolerance, f"chunks [5, 1, 6] of the pattern alone, {case}")
                    rows = slice(first, first + BATCH)
                    for mode, (y, after) in found.items():
                        own = y[rows], tuple(part[rows] for part in after)
                        assert_same(own, right, tolerance, f"{mode}, {case}")
                    first += BATCH


def naive_of_rows(
    subject: Subject, parameters: dict[str, Tensor], x: Tensor, state: State, patterns: dict[str, Tensor | None]
) -> dict[str, tuple[Tensor, State]]:
    """What the naive loop, which knows no rows but one, makes of every pattern; a row that several share once."""
    flags = {name: torch.zeros(x.shape[:2], dtype=torch.bool) if r is None else r for name, r in patterns.items()}
    keys = {name: [(row, *of_rows[row].tolist()) for row in range(len(x))] for name, of_rows in flags.items()}
    distinct = {key: place for place, key in enumerate(dict.fromkeys(key for of in keys.values() for key in of))}
    rows = torch.tensor([key[0] for key in distinct])
    reset = torch.tensor([key[1:] for key in distinct], dtype=torch.bool)
    y, after = subject.naive(parameters, x[rows], tuple(part[rows] for part in state), reset)
    places = {name: torch.tensor([distinct[key] for key in of]) for name, of in keys.items()}
    return {name: (y[of], tuple(part[of] for part in after)) for name, of in places.items()}


def repeated(rows: Tensor, count: int) -> Tensor:
    """The rows, `count` times one after the other."""
    return rows.repeat(count, *(1 for _ in rows.shape[1:]))


def gradients_agree(subject: Subject) -> None:
    """Of all parameters, of x and of the carried state: forward, split, steps and the naive loop."""
    for dtype, tolerance in tolerances(subject).items():
        module = subject.build(dtype)
        named = dict(module.named_parameters())
        parameters = {name: p.detach().double().requires_grad_() for name, p in named.items()}
        x, state = noise(BATCH, TIME, WIDTH, dtype=dtype), carried_state(module)
        wide = tuple(part.double() if part.is_floating_point() else part for part in state)
        for pattern in ("absent", "consecutive", "random"):
            reset = resets()[pattern]
            right = gradients(lambda *a: subject.naive(parameters, *a, reset), parameters, x.double(), wide)  # noqa: B023
            modes = {
                "forward": lambda x, s: module(x, s, reset),  # noqa: B023
                "chunks": lambda x, s: chunks(module, x, s, reset, [5, 1, 6]),  # noqa: B023
                "steps": lambda x, s: steps(module, x, s, reset),  # noqa: B023
            }
            for mode, run in modes.items():
                case = f"{mode}, {dtype}, reset {pattern}"
                for name, grad in gradients(run, named, x, state).items():
                    assert_near(grad, right[name], tolerance, f"{case}, gradient of {name}")


def absent_means_initial(subject: Subject) -> None:
    """No state is the initial one, no reset is none, and a reset at the first step forgets the state."""
    module, x = subject.build(), noise(BATCH, TIME, WIDTH)
    none, first = resets()["none"], torch.arange(TIME).expand(BATCH, TIME) == 0
    with torch.no_grad():
        right = module(x, module.initial_state(BATCH), none)
        assert_same(module(x), right, 1e-13, "no state, no reset")
        assert_same(module(x, carried_state(module), first), right, 1e-13, "reset at the first step")
        changed = distance(module(x, carried_state(module))[0], right[0])
    assert changed > 1e-3 or not remembers(subject), "the given state is not heeded"


def causal(subject: Subject) -> None:
    """x at t changes the outputs from t on and none before, in value and in gradient."""
    module, t = subject.build(), 5
    x = noise(BATCH, TIME, WIDTH).requires_grad_()
    y, _ = module(x)
    (grad,) = torch.autograd.grad((y[:, :t] * noise(BATCH, t, WIDTH)).sum(), x)
    assert grad[:, :t].abs().amax(-1).gt(0).all()
    assert torch.count_nonzero(grad[:, t:]) == 0, "gradient from the future"
    changed, _ = module(torch.cat([x[:, :t], x[:, t : t + 1].flip(-1), x[:, t + 1 :]], dim=1))
    assert torch.equal(changed[:, :t], y[:, :t]), "an output before t changed"
    difference = (changed[:, t] - y[:, t]).abs()
    assert (difference.amax(-1) if rectified(subject) else difference).min() > 0
    if remembers(subject):
        assert (changed[:, t + 1] - y[:, t + 1]).abs().max() > 1e-6


def nothing_crosses_a_reset(subject: Subject) -> None:
    """Neither x nor the state from before an episode's first step reaches its outputs or its final state."""
    module, places = subject.build(), (5, TIME - 1, 1)
    reset = torch.zeros(BATCH, TIME, dtype=torch.bool)
    before = torch.zeros(BATCH, TIME, dtype=torch.bool)
    for row, t in enumerate(places):
        reset[row, t] = True
        before[row, :t] = True
    x, state = noise(BATCH, TIME, WIDTH), carried_state(module)
    other = torch.where(before[..., None], 1 - 3 * x, x)
    y, after = module(x, state, reset)
    changed, changed_after = module(other, module.initial_state(BATCH), reset)
    assert torch.equal(changed[~before], y[~before]), "an output changed"
    assert (changed[before] - y[before]).abs().max() > 1e-3
    for part, same in zip(after, changed_after, strict=True):
        assert torch.equal(part.nan_to_num(), same.nan_to_num()), "the final state changed"

    def episode(x: Tensor, state: State) -> tuple[Tensor, State]:
        y, after = module(x, state, reset)
        return y * ~before[..., None], after

    found = gradients(episode, {}, x, state)
    assert torch.count_nonzero(found["x"][before]) == 0, "gradient across the reset"
    assert torch.count_nonzero(found["x"][~before]) > 0
    for name in found.keys() - {"x"}:
        assert torch.count_nonzero(found[name]) == 0, f"gradient of {name} across the reset"


def infinities_stay_in_their_episode(subject: Subject) -> None:
    """What a reset cuts off is cut off also when it is infinite or NaN, in value and in gradient.

    1e200 is finite, but not its square. The loss is taken over the other episode alone. Gradients of parameters are
    sums over all steps, in which a step that is NaN weighs 0 * NaN: they are held to this where no step is, only the
    state that is reset at once.
    """
    module, tolerance = subject.build(), TIGHT[torch.float64]
    state = carried_state(module)
    named, x = dict(module.named_parameters()), noise(BATCH, TIME, WIDTH)
    reset = torch.arange(TIME) == torch.tensor([[5], [TIME - 1], [1]])
    later = reset.cumsum(1) > 0
    at_once = reset | (torch.arange(TIME) == 0)

    def run(mode: str, kept: Tensor, reset: Tensor, final: bool, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, after = {"forward": module, "steps": partial(steps, module)}[mode](x, state, reset)
        return torch.where(kept.unsqueeze(-1), y, 0), after if final else ()

    def filled(bad: float) -> State:
        return tuple(torch.full_like(part, bad) if part.is_floating_point() else part for part in state)

    every = torch.ones_like(later)
    for mode in ("forward", "steps"):
        # What is kept and where episodes begin, whether the final state is, and what x and the state are for a number.
        cases: dict[str, tuple[Tensor, Tensor, bool, Callable[[float], tuple[Tensor, State]]]] = {
            "the state before the first step": (every, at_once, True, lambda bad: (x, filled(bad))),
            "the state before an episode": (later, reset, True, lambda bad: (x, filled(bad))),
            "an earlier episode": (later, reset, True, lambda bad: (torch.where(later.unsqueeze(-1), x, bad), state)),
            "a later episode": (~later, reset, False, lambda bad: (torch.where(later.unsqueeze(-1), bad, x), state)),
        }
        for what, (kept, flags, final, spoilt) in cases.items():
            function = partial(run, mode, kept, flags, final)
            with torch.no_grad():
                right = function(x, state)
            right_gradients = gradients(function, named, x, state)
            for bad in (torch.inf, -torch.inf, torch.nan, 1e200):
                case, (spoilt_x, spoilt_state) = f"{what} is {bad}, {mode}", spoilt(bad)
                with torch.no_grad():
                    assert_same(function(spoilt_x, spoilt_state), right, tolerance, case)
                found = gradients(function, named, spoilt_x, spoilt_state)
                assert_near(found["x"][kept], right_gradients["x"][kept], tolerance, f"{case}, gradient of x")
                if kept is every:
                    for name in found:
                        assert_near(found[name], right_gradients[name], tolerance, f"{case}, gradient of {name}")


def rows_are_independent(subject: Subject) -> None:
    """A row alone gives the same; layout does not matter; select_rows and reset_rows do as they say."""
    module, x, reset = subject.build(), noise(BATCH, TIME, WIDTH), resets()["random"]
    state = carried_state(module)
    y, after = module(x, state, reset)
    for row in range(BATCH):
        one = torch.tensor([row])
        alone = module(x[one], select_rows(state, one), reset[one])
        assert_same(alone, (y[one], select_rows(after, one)), 1e-13, f"row {row} alone")
    strided = noise(TIME, WIDTH, BATCH).permute(2, 0, 1)
    assert_same(module(strided, state, reset), module(strided.contiguous(), state, reset), 1e-13, "strided x")

    picked = torch.tensor([2, 0])
    _, stepped = module.step(x[:, 0], state)
    right = module.step(x[picked, 0], tuple(part[picked] for part in state))
    assert_same(module.step(x[picked, 0], select_rows(state, picked)), right, 0, "select_rows by index")
    mask = torch.tensor([True, False, True])
    for part, whole in zip(select_rows(stepped, mask), stepped, strict=True):
        assert_near(part, whole[[0, 2]], 0, "select_rows by mask")
    initial = module.initial_state(BATCH)
    for new, start, old in zip(reset_rows(state, initial, mask), initial, state, strict=True):
        assert new.dtype == old.dtype
        assert_near(new[[0, 2]], start[[0, 2]], 0, "reset_rows, a reset row")
        assert_near(new[1], old[1], 0, "reset_rows, a kept row")


def state_keeps_its_form(subject: Subject) -> None:
    """Batch first, of one shape and dtype however many steps were taken; on the module's device."""
    for dtype in TIGHT:
        module = subject.build(dtype)

        def form(state: State) -> list[tuple[torch.Size, torch.dtype]]:
            return [(part.shape, part.dtype) for part in state]

        initial = module.initial_state(BATCH)
        assert all(len(part) == BATCH for part in initial)
        assert all(part.dtype == dtype for part in initial if part.is_floating_point())
        for time in (1, 2, 7, 50):
            x = noise(BATCH, time, WIDTH, dtype=dtype)
            y, state = module(x)
            assert y.shape == x.shape
            assert y.dtype == dtype
            assert form(state) == form(initial)
            assert form(module(x, state)[1]) == form(initial)
            y, state = steps(module, x, initial, None)
            assert y.shape == x.shape
            assert y.dtype == dtype
            assert form(state) == form(initial)
    assert all(part.device.type == "meta" for part in subject.build().to("meta").initial_state(2))


def one_step_is_step(subject: Subject) -> None:
    """A slice of a single step."""
    for dtype, tolerance in tolerances(subject).items():
        module = subject.build(dtype)
        x, state = noise(BATCH, 1, WIDTH, dtype=dtype), carried_state(module)
        y, after = module.step(x[:, 0], state)
        assert_same(module(x, state), (y[:, None], after), tolerance, "with a state")
        y, after = module.step(x[:, 0], module.initial_state(BATCH))
        assert_same(module(x), (y[:, None], after), tolerance, "without a state")
        every = torch.ones(BATCH, 1, dtype=torch.bool)
        assert_same(module(x, state, every), (y[:, None], after), tolerance, "reset")


def ten_thousand_steps(subject: Subject) -> None:
    """In float32: finite in value and gradient; the same in pieces, and by steps from sampled places."""
    module, time, tolerance = subject.build(torch.float32), 10_000, late_tolerance(subject)
    x = noise(1, time, WIDTH, dtype=torch.float32).requires_grad_()
    reset = noise(1, time, seed=4) > 3  # about one in 700
    y, after = module(x, None, reset)
    loss = (y * noise(*y.shape, dtype=y.dtype, seed=5)).sum()
    for grad in torch.autograd.grad(loss, [x, *module.parameters()]):
        assert grad.isfinite().all()
    with torch.no_grad():
        state, start = module.initial_state(1), 0
        for length in (1, 2499, 3000, 1, 4499):
            piece, ahead = slice(start, start + length), slice(start, start + 3)
            stepped, _ = steps(module, x[:, ahead], state, reset[:, ahead])
            assert_near(stepped, y[:, ahead], tolerance, f"steps from {start}")
            part, state = module(x[:, piece], state, reset[:, piece])
            assert_near(part, y[:, piece], tolerance, f"piece from {start}")
            start += length
    assert start == time
    assert y.isfinite().all()
    assert_same((y, state), (y, after), tolerance, "final")


def half_precision(subject: Subject) -> None:
    """Under bfloat16 autocast: near float32 in every mode, finite gradients, and the state stays float32."""
    module = subject.build(torch.float32)
    x, reset = noise(BATCH, TIME, WIDTH, dtype=torch.float32), resets()["random"]
    state = carried_state(module)
    right = module(x, state, reset)
    for mode, run in (("forward", module), ("steps", partial(steps, module))):
        with torch.autocast(x.device.type, torch.bfloat16):
            y, after = run(x, state, reset)
        assert_same((y, after), right, 0.09 if amplifies(subject) else 0.03, mode)
        assert all(part.dtype == torch.float32 for part in after if part.is_floating_point())
        for grad in torch.autograd.grad(y.float().square().sum(), list(module.parameters()), allow_unused=True):
            assert grad is None or grad.isfinite().all()


def arguments_stay(subject: Subject) -> None:
    """Neither mode writes into x, the state or the reset flags it is given."""
    module, x, reset = subject.build(), noise(BATCH, TIME, WIDTH), resets()["random"]
    state = carried_state(module)
    given = (x, reset, *state)
    kept = [part.clone() for part in given]
    with torch.no_grad():
        module(x, state, reset)
        module.step(x[:, 0], state)
        reset_rows(state, module.initial_state(BATCH), reset[:, 0])
    for part, right in zip(given, kept, strict=True):
        assert_near(part, right, 0, "argument")


def weights_are_all(subject: Subject) -> None:
    """Weights loaded into a new module give the same function; the recurrent ones are among them, once."""
    module = subject.build()
    fresh = Backbone(subject.config) if subject.layers else registered(subject.name).mixer(subject.config)
    fresh.double().load_state_dict(module.state_dict())
    x, state = noise(BATCH, TIME, WIDTH), carried_state(module)
    assert_same(fresh(x, state), module(x, state), 0, "loaded")
    recurrent = [id(parameter) for parameter in module.recurrent_parameters()]
    assert len(recurrent) == len(set(recurrent))
    assert set(recurrent) <= {id(parameter) for parameter in module.parameters()}


LAWS = [
    all_modes_agree,
    gradients_agree,
    absent_means_initial,
    causal,
    nothing_crosses_a_reset,
    infinities_stay_in_their_episode,
    rows_are_independent,
    state_keeps_its_form,
    one_step_is_step,
    ten_thousand_steps,
    half_precision,
    arguments_stay,
    weights_are_all,
]

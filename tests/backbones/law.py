"""The law of decision_rnn/backbones/contract.py: functions that take a mixer or stack and raise if it fails.

A mixer that is registered inherits all of `LAWS` through test_law.py, alone and in a stack; it has to bring a
naive loop (references.py) and, where its defaults are large, a small configuration (`SMALL`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import references
import torch
from torch import Tensor

from decision_rnn.backbones import Backbone, SequenceMixer, State, registered, reset_rows, select_rows

WIDTH, BATCH, TIME = 8, 3, 12

SMALL: dict[str, list[dict[str, Any]]] = {
    "aaren": [{"heads": 2}, {"heads": 8}],
    "lstm": [{}, {"peepholes": True}],
    "lru": [
        {"state_size": 6},
        {"state_size": 6, "parametrization": "exponential", "r_max": 0.3},
        {"state_size": 6, "parametrization": "plain", "r_max": 0.3, "normalization": False},
    ],
    "mamba": [{"state_size": 3}, {"state_size": 2, "kernel": 2, "expansion": 1.5}],
    "mingru": [{}, {"expansion": 1.5}, {"candidate": "signed"}, {"scan": "log"}],
    "minlstm": [{}, {"expansion": 1.5}, {"candidate": "signed"}, {"scan": "log"}],
    "mlstm": [{"heads": 2}, {"heads": 1}],
    "retention": [{"heads": 2}, {"heads": 1, "expansion": 1.5}],
    "rnn": [{}, {"activation": "relu"}],
    "s4d": [{"state_size": 6}, {"state_size": 2}, {"state_size": 4, "start": "real"}],
    "transformer": [{"window": 4, "heads": 2}, {"window": 1}, {"window": 20, "output_gate": True}],
}
"""Configurations to try, by mixer; the first is the one that is stacked."""

TIGHT = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Largest difference allowed, over the largest value of the tensor."""

AMPLIFIES = {"mlstm": 20, "retention": 20}
"""How much wider the float32 bound is for a stack of mixers that magnify the rounding of their input. These two
norm each head, and an episode's first output is norm((q.k) v): where q.k is near 0 it hangs on its sign alone,
and a rounding error shows up to 1 / sqrt(1e-5) times. In float64 the bound is everyone's; bfloat16's is 3 times
wider."""


@dataclass(frozen=True)
class Subject:
    """A mixer, or a stack of `layers` blocks of it: how to make it anew and what it should compute."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    layers: int | None = None
    reference: Callable[..., tuple[Tensor, State]] | None = None

    def __str__(self) -> str:
        options = "".join(f"-{key}{value}" for key, value in self.options.items())
        return self.name + options + (f"-stack{self.layers}" if self.layers else "")

    @property
    def config(self) -> Any:
        return registered(self.name).config(width=WIDTH, layers=self.layers or 1, **self.options)

    def build(self, dtype: torch.dtype = torch.float64) -> SequenceMixer:
        """Always the same. Parameters are moved off their initial values, lest a zero bias hide a fault."""
        with torch.random.fork_rng():
            torch.manual_seed(1)
            module = Backbone(self.config) if self.layers else registered(self.name).mixer(self.config)
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter += 0.2 * torch.randn_like(parameter)
                if rectified(self):  # nothing bounds its state but a recurrent matrix of norm below 1
                    for name, parameter in module.named_parameters():
                        if name.endswith("cell.weight_hh_l0"):
                            parameter *= 0.95 / torch.linalg.matrix_norm(parameter, ord=2)
        return module.to(dtype)

    def naive(self, parameters: dict[str, Tensor], x: Tensor, state: State, reset: Tensor | None):
        loop = self.reference or references.REFERENCES[self.name]
        run = partial(references.stack, loop) if self.layers else loop
        reset = torch.zeros(x.shape[:2], dtype=torch.bool) if reset is None else reset
        return run(self.config, parameters, x, state, reset)


def amplifies(subject: Subject) -> bool:
    return subject.layers is not None and subject.name in AMPLIFIES


def tolerances(subject: Subject) -> dict[torch.dtype, float]:
    """TIGHT, but for the float32 bound of a stack that AMPLIFIES."""
    wider = AMPLIFIES[subject.name] if amplifies(subject) else 1
    return TIGHT | {torch.float32: wider * TIGHT[torch.float32]}


def late_tolerance(subject: Subject) -> float:
    """For thousands of float32 steps: wider where sums of logarithms over all of them lose digits."""
    return 1e-4 if subject.options.get("scan") == "log" else 1e-5


def subjects(name: str) -> list[Subject]:
    """The mixer in all its small configurations, and a stack of the first."""
    small = SMALL.get(name, [{}])
    return [*(Subject(name, options) for options in small), Subject(name, small[0], layers=3)]


# What the laws are made of


def noise(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """The same numbers on every device; on torch's default one, where the law's tensors and modules all lie."""
    wide = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, device="cpu")
    return wide.to(torch.get_default_device(), dtype)


def resets() -> dict[str, Tensor | None]:
    """Where episodes may begin in BATCH rows of TIME steps; rows differ."""

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


SPLITS = [[1] * TIME, [1, 4, 7], [5, 1, 6], [3, 9], [TIME - 1, 1]]


def carried_state(module: SequenceMixer) -> State:
    """A state from the middle of three episodes of different ages, 7, 2 and 1 steps."""
    reset = torch.zeros(BATCH, 7, dtype=torch.bool)
    reset[1, 5] = reset[2, 6] = True
    dtype = next(module.parameters()).dtype
    with torch.no_grad():
        _, state = steps(module, noise(BATCH, 7, WIDTH, dtype=dtype, seed=3), module.initial_state(BATCH), reset)
    return state


def steps(module: SequenceMixer, x: Tensor, state: State, reset: Tensor | None) -> tuple[Tensor, State]:
    """The way of acting: one `step` after the other, rows reset between them."""
    initial, outputs = module.initial_state(len(x)), []
    for t in range(x.shape[1]):
        if reset is not None:
            state = reset_rows(state, initial, reset[:, t])
        y, state = module.step(x[:, t], state)
        outputs.append(y)
    return torch.stack(outputs, dim=1), state


def chunks(
    module: SequenceMixer, x: Tensor, state: State | None, reset: Tensor | None, lengths: list[int]
) -> tuple[Tensor, State]:
    """`forward` over one piece of time after the other, the state carried."""
    outputs, start = [], 0
    for length in lengths:
        piece = slice(start, start + length)
        y, state = module(x[:, piece], state, None if reset is None else reset[:, piece])
        outputs.append(y)
        start += length
    return torch.cat(outputs, dim=1), state


def distance(actual: Tensor, expected: Tensor) -> float:
    """Largest difference over the largest value, places of NaN alike."""
    assert actual.shape == expected.shape
    assert torch.equal(actual.isnan(), expected.isnan()), "NaN in different places"
    actual, expected = actual.detach().double().nan_to_num(), expected.detach().double().nan_to_num()
    return ((actual - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()


def assert_near(actual: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    found = distance(actual, expected)
    assert found <= tolerance, f"{what}: differs by {found:.1e} of the largest value, allowed {tolerance:.0e}"


def assert_same(actual: tuple[Tensor, State], expected: tuple[Tensor, State], tolerance: float, what: str) -> None:
    """Output and final state."""
    assert_near(actual[0], expected[0], tolerance, f"{what}, output")
    for i, (part, right) in enumerate(zip(actual[1], expected[1], strict=True)):
        assert_near(part, right, tolerance, f"{what}, state part {i}")


def gradients(run: Callable[..., tuple[Tensor, State]], named: dict[str, Tensor], x: Tensor, state: State):
    """The gradients of everything: parameters, x and the state before the first step."""
    x = x.clone().requires_grad_()
    state = tuple(part.clone().requires_grad_(part.is_floating_point()) for part in state)
    y, after = run(x, state)
    loss = 0
    for i, part in enumerate((y, *after)):
        if part.is_floating_point():
            loss = loss + (part.nan_to_num() * noise(*part.shape, dtype=part.dtype, seed=10 + i)).sum()
    learnt = {**named, "x": x, **{f"state {i}": part for i, part in enumerate(state) if part.requires_grad}}
    found = torch.autograd.grad(loss, list(learnt.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(learnt, found, strict=True))


# The laws


def all_modes_agree(subject: Subject) -> None:
    """forward == steps == any split == the naive loop: outputs and final state, resets anywhere."""
    for dtype, tolerance in tolerances(subject).items():
        module = subject.build(dtype)
        x = noise(BATCH, TIME, WIDTH, dtype=dtype)
        parameters = {name: p.detach().double() for name, p in module.named_parameters()}
        for pattern, reset in resets().items():
            for start, state in (("initial", None), ("carried", carried_state(module))):
                case = f"{dtype}, reset {pattern}, {start} state"
                given = module.initial_state(BATCH) if state is None else state
                wide = tuple(part.double() for part in given)
                with torch.no_grad():
                    right = subject.naive(parameters, x.double(), wide, reset)
                    assert_same(module(x, state, reset), right, tolerance, f"forward, {case}")
                    assert_same(steps(module, x, given, reset), right, tolerance, f"steps, {case}")
                    for lengths in SPLITS:
                        split = chunks(module, x, state, reset, lengths)
                        assert_same(split, right, tolerance, f"chunks {lengths}, {case}")


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


def remembers(subject: Subject) -> bool:
    """False for attention over a window of one step."""
    return subject.options.get("window") != 1


def rectified(subject: Subject) -> bool:
    """True for the mixer whose output is a ReLU: a channel below zero shows no change."""
    return subject.options.get("activation") == "relu"


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
    rows_are_independent,
    state_keeps_its_form,
    one_step_is_step,
    ten_thousand_steps,
    half_precision,
    arguments_stay,
    weights_are_all,
]

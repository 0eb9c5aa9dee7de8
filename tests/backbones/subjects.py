"""What the laws are tried on, mixers and stacks in small configurations, and how they are run and compared."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import references
import torch
from torch import Tensor

from decision_rnn.backbones import Backbone, SequenceMixer, State, registered, reset_rows

WIDTH, BATCH, TIME = 8, 3, 12

SMALL: dict[str, list[dict[str, Any]]] = {
    "aaren": [{"heads": 2}, {"heads": 8}],
    "conv": [{"kernel": 4}, {"kernel": 2}, {"kernel": 20}],
    "lstm": [{}, {"peepholes": True}],
    "lru": [
        {"state_size": 6},
        {"state_size": 6, "parametrization": "exponential", "r_max": 0.3},
        {"state_size": 6, "parametrization": "plain", "r_max": 0.3, "normalization": False},
    ],
    "mamba": [{"state_size": 3}, {"state_size": 2, "kernel": 2, "expansion": 1.5}],
    "mingru": [{}, {"expansion": 1.5}, {"projection": True}, {"candidate": "signed"}, {"scan": "log"}],
    "minlstm": [{}, {"expansion": 1.5}, {"projection": True}, {"candidate": "signed"}, {"scan": "log"}],
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


OTHER_STACK = {"convolution": 4, "norm": "rms", "mlp_ratio": 0.0}
"""The block of "Were RNNs All We Needed?"."""


def subjects(name: str) -> list[Subject]:
    """The mixer in all its small configurations, and stacks of the first, in either form of the block."""
    small = SMALL.get(name, [{}])
    stacks = [Subject(name, small[0], layers=3), Subject(name, small[0] | OTHER_STACK, layers=2)]
    return [*(Subject(name, options) for options in small), *stacks]


def remembers(subject: Subject) -> bool:
    """False for attention over a window of one step, and for the mixer without memory; a convolution has some."""
    alone = subject.name == "mlp" or subject.options.get("window") == 1
    return not alone or "convolution" in subject.options


def rectified(subject: Subject) -> bool:
    """True for the mixer whose output is a ReLU: a channel below zero shows no change."""
    return subject.options.get("activation") == "relu"


# What is run and compared


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

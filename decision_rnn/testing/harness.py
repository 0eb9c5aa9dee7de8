"""What the properties of the contract share: the mixer under test, its inputs, ways to run it, and comparisons."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from decision_rnn.backbones import SequenceMixer, State
from decision_rnn.backbones.contract import steps as steps

BATCH, TIME = 3, 12
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Largest allowed difference by dtype, relative to the largest value of the tensor; see also `ROUNDINGS`."""
ROUNDINGS = 32
"""A difference is also allowed if errors of so many units in the last place, in weights and inputs, make it in exact
arithmetic: some layers magnify the rounding of what they read."""

PATTERNS = {
    "none": "............ ............ ............",
    "first and last": "x..........x ...........x x...........",
    "consecutive": "...xxx...... xx.......... ..........xx",
    "random": "......xx.... ...xx..x.... ....xx.....x",
    "dense": "..x..x...xx. ...x.xxx.... x..x..xx.x.x",
    "everywhere in one row": "............ xxxxxxxxxxxx ............",
    "everywhere": "xxxxxxxxxxxx xxxxxxxxxxxx xxxxxxxxxxxx",
    "once in every row": ".....x...... ...........x .x..........",
}
"""Where episodes begin, in BATCH rows of TIME steps."""

Mask = Tensor | None
"""Where episodes begin, (batch, time) bool; None for no resets."""
Result = tuple[Tensor, State]
"""Outputs, (batch, time, width), and the state after the last step."""


def add_noise(module: Any) -> Any:
    """Perturb the parameters of a new mixer, so that a zero bias cannot hide an error; returns the mixer."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


@dataclass(kw_only=True)
class MixerCase:
    """A mixer under test.

    Attributes:
        make: Creates the mixer, with weights that depend only on torch's seed.
        width: Channels of its input and output.
        tolerances: The tolerance for each dtype to test, the widest dtype first.
        naive: The equations as a plain loop, `(parameters, x, state, mask) -> (outputs, state)`; if left out, the
            mixer's own steps in the widest dtype are the reference.
        remembers: Whether a step's output may depend on the steps before it.
        long_tolerance: Tolerance over thousands of float32 steps.
    """

    make: Callable[[], SequenceMixer]
    width: int
    tolerances: Mapping[torch.dtype, float]
    naive: Callable[..., Result] | None = None
    remembers: bool = True
    long_tolerance: float = 1e-4

    @property
    def widest(self) -> torch.dtype:
        """The widest dtype, in which properties that concern only one dtype are tested."""
        return next(iter(self.tolerances))

    @property
    def exact(self) -> float:
        """Tolerance for the same computation in another arrangement of rows or memory, in the widest dtype."""
        return self.tolerances[self.widest] / 10

    def build(self, dtype: torch.dtype | None = None) -> Any:
        """The mixer in that dtype, or in the widest; its weights are the same in every call."""
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return self.make()._apply(lambda part: cast(part, dtype or self.widest))

    def expected(
        self, dtype: torch.dtype, compute: Callable[[nn.Module, Callable[..., Result]], Any]
    ) -> tuple[Any, Callable[[], Any]]:
        """What `compute` makes of the reference, and a function for what it makes of the reference with `ROUNDINGS` of
        a dtype in weights and arguments; for the widest, whose errors cannot be measured in a wider one, the former."""
        right = compute(*self.reference(dtype))
        error = 0 if dtype == self.widest else ROUNDINGS * torch.finfo(dtype).eps
        return right, functools.cache(lambda: compute(*self.reference(dtype, error)) if error else right)

    def reference(self, dtype: torch.dtype, error: float = 0) -> tuple[nn.Module, Callable[..., Result]]:
        """A module with the weights of `build(dtype)` in the widest dtype, and what it should compute with them; with
        relative errors in weights and arguments if `error` is above 0."""
        module = self.build(dtype)._apply(lambda part: nudged(cast(part, self.widest), error))
        parameters = dict(module.named_parameters())

        def run(x: Tensor, state: State | None = None, reset: Mask = None) -> Result:
            state = module.initial_state(len(x)) if state is None else state
            reset = torch.zeros(x.shape[:2], dtype=torch.bool) if reset is None else reset
            x, *before = (nudged(cast(part, self.widest), error) for part in (x, *state))
            if self.naive is None:
                return steps(module, x, tuple(before), reset)
            return self.naive(parameters, x, tuple(before), reset)

        return module, run

    def inputs(self, module: SequenceMixer, dtype: torch.dtype | None = None) -> tuple[Tensor, State]:
        """x, (BATCH, TIME, width), and the state after 2, 6 and 7 steps of an episode."""
        dtype = dtype or self.widest
        with torch.no_grad():
            x = noise(BATCH, 7, self.width, dtype=dtype, seed=3)
            _, state = steps(module, x, None, mask_of("consecutive")[:, :7])
        return noise(BATCH, TIME, self.width, dtype=dtype), state


def cast(part: Tensor, dtype: torch.dtype) -> Tensor:
    """A floating-point tensor in a real dtype, or a complex tensor in the complex dtype of that width."""
    if part.is_complex():
        return part.to(dtype.to_complex())
    return part.to(dtype) if part.is_floating_point() else part


def nudged(part: Tensor, error: float) -> Tensor:
    """A tensor with relative errors of that size, of random sign."""
    if not error or not part.is_floating_point():
        return part
    return part * (1 + error * noise(*part.shape, dtype=part.dtype, seed=20).sign())


def noise(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Gaussian noise, the same numbers on every device, on torch's default device, which all properties use."""
    wide = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, device="cpu")
    return wide.to(torch.get_default_device(), dtype)


def joined(states: Sequence[State]) -> State:
    """The rows of several states, one after the other."""
    return tuple(torch.cat(parts) for parts in zip(*states, strict=True))


def mask_of(pattern: str) -> Tensor:
    """A pattern of resets, by name, as a mask, (BATCH, TIME) bool."""
    return torch.tensor([[step == "x" for step in row] for row in PATTERNS[pattern].split()])


def forward(
    module: SequenceMixer, x: Tensor, state: State | None = None, reset: Mask = None, lengths: Sequence[int] = ()
) -> Result:
    """Run `forward`, at once or over consecutive chunks of time of these lengths, with the state carried."""
    outputs, start = [], 0
    for length in lengths or [x.shape[1]]:
        chunk = slice(start, start + length)
        y, state = module(x[:, chunk], state, None if reset is None else reset[:, chunk])
        outputs.append(y)
        start += length
    assert state is not None
    return torch.cat(outputs, dim=1), state


def trainable(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that require gradients, by name."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def traced(
    run: Callable[[Tensor, State], Result], parameters: Mapping[str, Tensor], x: Tensor, state: State
) -> tuple[Result, dict[str, Tensor]]:
    """The result, and the gradients of all inputs: parameters, x and the state before the first step."""
    x = x.clone().requires_grad_()
    state = tuple(part.clone().requires_grad_(part.is_floating_point()) for part in state)
    y, after = run(x, state)
    loss = x.new_zeros(())
    for i, part in enumerate((y, *after)):
        if part.is_floating_point():
            loss = loss + (part.nan_to_num() * noise(*part.shape, dtype=part.dtype, seed=10 + i)).sum()
    inputs = {**parameters, "x": x, **{f"state {i}": part for i, part in enumerate(state) if part.requires_grad}}
    found = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True, materialize_grads=True)
    return (y.detach(), tuple(part.detach() for part in after)), dict(zip(inputs, found, strict=True))


def gradients(
    run: Callable[[Tensor, State], Result], parameters: Mapping[str, Tensor], x: Tensor, state: State
) -> dict[str, Tensor]:
    """The gradients of `traced`."""
    return traced(run, parameters, x, state)[1]


def require(condition: bool | Tensor, message: str) -> None:
    """An assertion that `python -O` keeps."""
    if not condition:
        raise AssertionError(message)


def assert_near(
    actual: Tensor, expected: Tensor, tolerance: float, what: str, nudged: Callable[[], Tensor] | None = None
) -> None:
    """Raise AssertionError if a value differs by more than `tolerance` times the largest finite expected value or, if
    that is more, than the largest difference between `expected` and `nudged`, which has the effect of rounding."""

    def message(text: str) -> str:
        lines = [line for line in text.splitlines() if line and not line.startswith(("Tensor-likes", "Greatest rel"))]
        return f"{what}: {'; '.join(lines)}"

    def largest(part: Tensor) -> float:
        return float(part.detach().abs().where(part.isfinite(), 0).max()) if part.numel() else 0.0

    def check(atol: float) -> None:
        torch.testing.assert_close(actual, expected, rtol=0, atol=atol, equal_nan=True, check_dtype=False, msg=message)

    bound = tolerance * largest(expected) if tolerance else 0.0
    alike = actual.shape == expected.shape and actual.device == expected.device
    if alike and actual.is_floating_point() and ((actual - expected).abs() <= bound).all():
        return  # without `assert_close`, which takes infinities and NaN too, but far longer
    try:
        check(bound)
    except AssertionError:
        if nudged is None:
            raise
        check(max(bound, largest(nudged() - expected)))


def assert_same(
    actual: Result, expected: Result, tolerance: float, what: str, nudged: Callable[[], Result] | None = None
) -> None:
    """`assert_near` for an output and a final state."""
    assert_near(actual[0], expected[0], tolerance, f"{what}, output", nudged and (lambda: nudged()[0]))
    require(len(actual[1]) == len(expected[1]), f"{what}: {len(actual[1])} parts of the state, not {len(expected[1])}")
    for i, (part, right) in enumerate(zip(actual[1], expected[1], strict=True)):
        assert_near(part, right, tolerance, f"{what}, state part {i}", nudged and (lambda i=i: nudged()[1][i]))

"""The contract of sequence mixers as a tool: `check_mixer` checks any layer against it."""

import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from decision_rnn.backbones import BACKBONES, BackboneConfig, SequenceMixer, State, registered
from decision_rnn.backbones.contract import run_stepwise

BATCH, TIME = 6, 12
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Largest allowed difference by dtype, relative to the largest value of the tensor; see also `ROUNDINGS`."""
ROUNDINGS = 32
"""A difference is also allowed if errors of so many units in the last place, in weights and inputs, make it in exact
arithmetic: some layers magnify the rounding of what they read."""
PATTERNS = {
    "none": "............ " * BATCH,
    "once in every row": ".....x...... ...........x .x.......... ......x..... x........... ..x.........",
    "various": "x..........x xx.......... ...xxx...... ....xx.....x ..x..xx.x.x. ..x..x...xx.",
    "everywhere": "xxxxxxxxxxxx " * BATCH,
}
"""Where episodes begin, in BATCH rows of TIME steps."""

Result = tuple[Tensor, State]


@dataclass(kw_only=True)
class MixerCase:
    """A mixer under test.

    Attributes:
        make: Creates the mixer, with weights that depend only on torch's seed.
        width: Channels of its input and output.
        tolerances: The tolerance for each dtype to test, the widest dtype first.
        naive: The equations as a plain loop, `(parameters, x, state, reset) -> (outputs, state)`; if left out, the
            mixer's own steps in the widest dtype are the reference.
        remembers: Whether a step's output may depend on the steps before it.
    """

    make: Callable[[], SequenceMixer]
    width: int
    tolerances: Mapping[torch.dtype, float]
    naive: Callable[..., Result] | None = None
    remembers: bool = True

    @property
    def widest(self) -> torch.dtype:
        """The widest dtype, in which properties that concern only one dtype are tested."""
        return next(iter(self.tolerances))

    def build(self, dtype: torch.dtype | None = None) -> Any:
        """The mixer in that dtype, or in the widest."""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(1)
            return self.make()._apply(lambda part: cast(part, dtype or self.widest))

    def inputs(self, module: SequenceMixer, dtype: torch.dtype | None = None) -> tuple[Tensor, State]:
        """x, (BATCH, TIME, width), and the state after 1 to 7 steps of an episode."""
        dtype = dtype or self.widest
        with torch.no_grad():
            before = noise(BATCH, 7, self.width, dtype=dtype, seed=3)
            _, state = run_stepwise(module, before, None, mask("various")[:, :7])
        return noise(BATCH, TIME, self.width, dtype=dtype), state

    def reference(
        self, dtype: torch.dtype, x: Tensor, state: State | None, reset: Tensor | None, errors: float = 0
    ) -> dict[str, Tensor]:
        """What `build(dtype)` should compute, `traced` in the widest dtype, with so many errors of rounding in weights
        and arguments."""

        def wide(part: Tensor) -> Tensor:
            part = cast(part, self.widest)
            if not errors or not part.is_floating_point():
                return part
            signs = noise(*part.shape, dtype=part.dtype, seed=20).sign()
            return part * (1 + errors * torch.finfo(dtype).eps * signs)

        module = self.build(dtype)._apply(wide)
        state = module.initial_state(len(x)) if state is None else tuple(map(wide, state))
        reset = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device) if reset is None else reset
        run = self.naive and functools.partial(self.naive, dict(module.named_parameters()))
        return traced(run or functools.partial(run_stepwise, module), module, wide(x), state, reset)


def state_form(case: MixerCase) -> None:
    """The state is a flat tuple of real tensors, batch first, of constant form; outputs have the form of x."""
    for dtype in case.tolerances:
        module = case.build(dtype)
        initial = module.initial_state(BATCH)
        require(isinstance(initial, tuple), f"initial_state returns a {type(initial).__name__}, not a tuple")
        for i, part in enumerate(initial):
            tensor = isinstance(part, Tensor) and part.shape[:1] == (BATCH,)
            require(tensor, f"part {i} of the initial state is not a tensor with the batch first")
            real = part.dtype == dtype or not (part.is_floating_point() or part.is_complex())
            require(real, f"part {i} of the initial state is {part.dtype}: it must be real, of {dtype}")
        for time, mode in itertools.product((1, 2, 7, 50), (forward, run_stepwise)):
            x, state = noise(BATCH, time, case.width, dtype=dtype), None
            for _ in range(2):
                with torch.no_grad():
                    y, state = mode(module, x, state)
                after, before = ([(p.dtype, tuple(p.shape)) for p in parts] for parts in ((y, *state), (x, *initial)))
                require(after == before, f"{mode.__name__} over {time} steps returns {after} instead of {before}")


@torch.no_grad()
def modes_agree(case: MixerCase) -> None:
    """`forward`, chunks of it and steps give the same outputs and final state, with resets anywhere."""
    for dtype, pattern in itertools.product(case.tolerances, ("left out", *PATTERNS)):
        modes = MODES if dtype == case.widest else ("forward", "steps")
        for carried in (False, True):
            _compare_modes(case, dtype, pattern, modes, carried)


def gradients_agree(case: MixerCase) -> None:
    """`forward`, chunks and steps give the same gradients of all parameters, of x and of the carried state."""
    for dtype, pattern in itertools.product(case.tolerances, ("left out", "various")):
        _compare_modes(case, dtype, pattern, ("forward", "forward in chunks of [5, 1, 6]", "steps"), carried=True)


def _compare_modes(case: MixerCase, dtype: torch.dtype, pattern: str, modes: Iterable[str], carried: bool) -> None:
    """Compare modes with the reference, up to the effect of rounding, from the initial or from a carried state."""
    module, reset = case.build(dtype), None if pattern == "left out" else mask(pattern)
    x, after = case.inputs(module, dtype)
    state = after if carried else None
    right = case.reference(dtype, x, state, reset)
    rounded = case.reference(dtype, x, state, reset, ROUNDINGS) if dtype != case.widest else right
    for mode in modes:
        result = traced(functools.partial(MODES[mode], module), module, x, state, reset)
        what = f"{mode}, {dtype}, resets {pattern}, {'a carried' if carried else 'no'} state"
        assert_near(result, right, case.tolerances[dtype], what, rounded)


def causal(case: MixerCase) -> None:
    """x at step t changes the outputs from t on and none before, in value and in gradient."""
    t, module, x = 5, case.build(), noise(BATCH, TIME, case.width, dtype=case.widest).requires_grad_()
    y, _ = forward(module, x)
    (slope,) = torch.autograd.grad((y[:, :t] * noise(BATCH, t, case.width, dtype=y.dtype)).sum(), x)
    require(slope[:, :t].abs().amax(-1).gt(0).all(), "the input of a step has no gradient in the outputs from it on")
    require(not slope[:, t:].any(), f"outputs before step {t} have a gradient in x from it on")
    changed, _ = forward(module, torch.cat([x[:, :t], 3 - x[:, t : t + 1], x[:, t + 1 :]], dim=1))
    require(torch.equal(changed[:, :t], y[:, :t]), f"outputs before step {t} change with x at that step")
    response = (changed - y).abs().amax(-1)
    require(response[:, t].min() > 0, f"the output of step {t} does not change with its input")
    later = response[:, t + 1].max() > 1e-6 or not case.remembers
    require(later, f"the output of step {t + 1} does not change with the input of step {t}")


def resets_isolate(case: MixerCase) -> None:
    """A reset cuts off earlier steps and the state before, in value and in gradient, to the last bit."""
    module, reset = case.build(), mask("once in every row")
    later = (reset.cumsum(1) > 0).unsqueeze(2)
    x, state = case.inputs(module)
    other = tuple(torch.full_like(part, 3) if part.is_floating_point() else part for part in state)

    def run(mode: Callable[..., Result], x: Tensor, state: State, reset: Tensor) -> Result:
        y, after = mode(module, x, state, reset)
        return torch.where(later, y, 0), after

    for mode in (forward, run_stepwise):
        right = traced(functools.partial(run, mode), None, x, state, reset)
        changed = traced(functools.partial(run, mode), None, torch.where(later, x, 3 - x), other, reset)
        for name, part in right.items():
            if name.startswith("gradient"):
                crossing = part.where(~later, 0) if name == "gradient of x" else part
                require(not crossing.any(), f"{mode.__name__}: a {name} crosses a reset")
            else:
                same = torch.equal(part.nan_to_num(), changed[name].nan_to_num())
                require(same, f"{mode.__name__}: {name} depends on what is before a reset")


def dense_resets(case: MixerCase) -> None:
    """Resets on and beside powers of two, where chunks and blocks of a kernel begin, and in any density."""
    module, time = case.build(), 600
    powers = torch.tensor([2**i for i in range(2, 10)] + [64 * i for i in range(1, 10)])
    reset = noise(4, time, seed=4) > 1  # a reset every 6 steps
    reset[:3] = False
    for row, offset in enumerate((-1, 0, 1)):
        reset[row, powers + offset] = True
    x, last = noise(4, time, case.width, dtype=case.widest).requires_grad_(), time - 5
    reset[:, last] = True
    y, after = forward(module, x, None, reset)
    with torch.no_grad():
        right = named(run_stepwise(module, x, None, reset))
    assert_near(named((y, after)), right, 10 * case.tolerances[case.widest], f"forward over {time} steps")
    (slope,) = torch.autograd.grad((y[:, last:] * noise(4, time - last, case.width, dtype=y.dtype)).sum(), x)
    require(not slope[:, :last].any(), f"a gradient in x crosses the reset at step {last}")


def bfloat16(case: MixerCase) -> None:
    """Under bfloat16 autocast: close to float32, finite gradients, and the state stays float32."""
    module, reset = case.build(torch.float32), mask("various")
    x, state = case.inputs(module, torch.float32)
    # Fewer errors than `ROUNDINGS`: only the factors of products are rounded.
    coarse = 2.5 * torch.finfo(torch.bfloat16).eps / torch.finfo(torch.float32).eps
    with torch.no_grad():
        right, rounded = (case.reference(torch.float32, x, state, reset, errors) for errors in (0, coarse))
    for mode in (forward, run_stepwise):
        with torch.autocast(x.device.type, torch.bfloat16):
            result = traced(functools.partial(mode, module), module, x, state, reset)
        for name, part in result.items():
            if name.startswith("gradient"):
                require(part.isfinite().all(), f"{mode.__name__}: the {name} is not finite")
            elif name.startswith("state") and part.is_floating_point():
                require(part.dtype == torch.float32, f"{mode.__name__}: {name} is {part.dtype}, not torch.float32")
        assert_near({name: result[name] for name in right}, right, 0.03, mode.__name__, rounded)


PROPERTIES = (state_form, modes_agree, gradients_agree, causal, resets_isolate, dense_resets, bfloat16)
"""All properties. If the first fails, the others, which compare states, are not checked."""


def check_mixer(
    mixer: str | type[SequenceMixer] | SequenceMixer | Callable[[], SequenceMixer],
    config: BackboneConfig | None = None,
    *,
    width: int = 8,
    tolerances: Mapping[torch.dtype, float] = TOLERANCES,
    raise_error: bool = True,
) -> dict[str, str]:
    """Check a sequence mixer against the contract of `SequenceMixer`, property by property.

    A mixer that keeps the contract computes the same outputs, final states and gradients in `forward`, in `step` and in
    any chunks with the state carried, with episodes beginning anywhere. It depends neither on the future nor on steps
    before a reset, also in bfloat16. The reference is the mixer's own `step` in the widest dtype; whether that is the
    paper's layer is not checked. Dropout inside the mixer must be off.

    Args:
        mixer: The name of a registered mixer; a class, called as `mixer(config)`; an instance, which is not changed; or
            a function without arguments that returns one. Parameters of newly created mixers are perturbed, so that a
            zero bias cannot hide an error.
        config: The configuration of a class or name; if left out, its defaults with `width`.
        width: Channels of input and output.
        tolerances: For each dtype, the widest first, the largest allowed difference, relative to the largest value of a
            tensor. Check a layer that always computes in float32 with `{torch.float32: 1e-5}`.
        raise_error: Whether to raise an error if a property fails.

    Returns:
        For each property that the mixer lacks, what differs, where and by how much.

    Raises:
        AssertionError: If a property fails and `raise_error` is set.

    Example:
        >>> check_mixer("mingru")
        {}
    """
    if isinstance(mixer, str):
        config = config or registered(mixer).config(name=mixer, width=width)
        mixer = registered(mixer).cls
    if isinstance(mixer, type):
        if config is None:
            configs: dict[Any, Any] = {entry.cls: entry.config for entry in BACKBONES.values()}
            default = functools.partial(BackboneConfig, name="mixer")
            config = next((configs[base] for base in mixer.__mro__ if base in configs), default)(width=width)
        mixer, width = functools.partial(mixer, config), config.width
    source: Any = mixer
    make: Any = lambda: copy.deepcopy(source) if isinstance(source, nn.Module) else add_noise(source())  # noqa: E731
    case = MixerCase(make=make, width=width, tolerances=tolerances)
    case.remembers = bool(case.build().initial_state(1))
    failures: dict[str, str] = {}
    for check in PROPERTIES:
        try:
            check(case)
        except Exception as error:  # the mixer may raise anything
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            failures[check.__name__] = kind + " ".join(str(error).split())[:500]
            if check is state_form:
                break
    if raise_error and failures:
        raise AssertionError("\n".join(f"{name}: {reason}" for name, reason in failures.items()))
    return failures


def add_noise(module: Any) -> Any:
    """Perturb the parameters of a new mixer, so that a zero bias cannot hide an error; returns the mixer."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


def cast(part: Tensor, dtype: torch.dtype) -> Tensor:
    """A floating-point tensor in a real dtype, or a complex tensor in the complex dtype of that width."""
    kind = dtype.to_complex() if part.is_complex() else dtype
    return part.to(kind) if part.is_floating_point() or part.is_complex() else part


def noise(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Gaussian noise, the same numbers on every device, on torch's default device, which all properties use."""
    wide = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, device="cpu")
    return wide.to(torch.get_default_device(), dtype)


def mask(pattern: str) -> Tensor:
    """A pattern of resets, by name, as a mask, (BATCH, TIME) bool."""
    return torch.tensor([[step == "x" for step in row] for row in PATTERNS[pattern].split()])


def forward(
    module: Any, x: Tensor, state: State | None = None, reset: Tensor | None = None, lengths: Sequence[int] = ()
) -> Result:
    """Run `forward`, at once or over consecutive chunks of time of these lengths, with the state carried."""
    outputs, sizes = [], list(lengths) or [x.shape[1]]
    begins = [None] * len(sizes) if reset is None else reset.split(sizes, dim=1)
    for chunk, begin in zip(x.split(sizes, dim=1), begins, strict=True):
        y, state = module(chunk, state, begin)
        outputs.append(y)
    assert state is not None
    return torch.cat(outputs, dim=1), state


MODES: dict[str, Callable[..., Result]] = {"forward": forward, "steps": run_stepwise}
for _lengths in ([1] * TIME, [1, 4, 7], [5, 1, 6], [TIME - 1, 1]):
    MODES[f"forward in chunks of {_lengths}"] = functools.partial(forward, lengths=_lengths)


def named(result: Result) -> dict[str, Tensor]:
    """An output and a final state as tensors with names."""
    return {"output": result[0], **{f"state part {i}": part for i, part in enumerate(result[1])}}


def traced(
    run: Callable[..., Result], module: nn.Module | None, x: Tensor, state: State | None, reset: Tensor | None = None
) -> dict[str, Tensor]:
    """The outputs and the final state of `run(x, state, reset)` by name and, if gradients are enabled, those of the
    module's parameters, x and the state."""
    x = x.clone().requires_grad_()
    state = state and tuple(part.clone().requires_grad_(part.is_floating_point()) for part in state)
    results = named(run(x, state, reset))
    values = {name: part.detach() for name, part in results.items()}
    if not torch.is_grad_enabled():
        return values
    parts = enumerate(part for part in results.values() if part.is_floating_point())
    pulls = ((part.nan_to_num() * noise(*part.shape, dtype=part.dtype, seed=10 + i)).sum() for i, part in parts)
    inputs = dict(module.named_parameters() if module is not None else (), x=x)
    inputs |= {f"state {i}": part for i, part in enumerate(state or ())}
    inputs = {name: part for name, part in inputs.items() if part.requires_grad}
    grads = torch.autograd.grad(
        sum(pulls, x.new_zeros(())), list(inputs.values()), allow_unused=True, materialize_grads=True
    )
    return values | {f"gradient of {name}": grad for name, grad in zip(inputs, grads, strict=True)}


def require(condition: bool | Tensor, message: str) -> None:
    """An assertion that `python -O` keeps."""
    if not condition:
        raise AssertionError(message)


def assert_near(actual: Any, expected: Any, tolerance: float, what: str, rounded: Any = None) -> None:
    """Raise AssertionError if a value differs by more than `tolerance` times the largest finite expected value or, if
    that is more, than the largest difference between `expected` and `rounded`, which has the effect of rounding.

    Takes tensors, or named tensors, of which those of `actual` are compared.
    """

    if isinstance(actual, dict):
        for name, value in actual.items():
            assert_near(value, expected[name], tolerance, f"{what}, {name}", rounded and rounded[name])
        return
    sizes = [tolerance * expected.detach(), *([] if rounded is None else [rounded - expected])]
    bound = max((float(part.abs().where(part.isfinite(), 0).max()) for part in sizes if part.numel()), default=0.0)
    options: Any = {"rtol": 0, "equal_nan": True, "check_dtype": False, "msg": lambda text: f"{what}: {text}"}
    torch.testing.assert_close(actual, expected, atol=bound, **options)

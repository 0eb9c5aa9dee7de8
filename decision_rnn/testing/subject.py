"""The subject of a test of the law: how to create the mixer, what it should compute, and the tolerances."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from decision_rnn.backbones import Resets, SequenceMixer, State
from decision_rnn.testing.cases import Flags, steps

TIGHT = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Largest allowed difference by dtype, relative to the largest value of the tensor."""

EXACT = {torch.float64: 1e-13, torch.float32: 1e-6}
"""The same for the same computation in another arrangement of rows or memory."""


class Subject:
    """A mixer under the law.

    Attributes:
        width: Channels of its input and output.
        remembers: Whether a step's output may depend on steps before it.
        every_channel_answers: Whether each channel of a step's output must change with that step's input.
        late_tolerance: Tolerance over thousands of float32 steps.
        half_tolerance: Tolerance for bfloat16.
    """

    width: int
    remembers: bool = True
    every_channel_answers: bool = False
    late_tolerance: float = 1e-4
    half_tolerance: float = 0.03

    @property
    def tolerances(self) -> Mapping[torch.dtype, float]:
        """The tolerance for each dtype to test, the widest dtype first."""
        return TIGHT

    @property
    def exact(self) -> float:
        """Tolerance for the same computation in another arrangement, in the widest dtype."""
        return EXACT[self.widest]

    @property
    def widest(self) -> torch.dtype:
        """The widest dtype, in which clauses that test only one dtype are run."""
        return next(iter(self.tolerances))

    def fresh(self) -> SequenceMixer:
        """A new mixer with its initial weights."""
        raise NotImplementedError

    def shake(self, module: SequenceMixer) -> None:
        """Perturb the parameters, so that a zero bias cannot hide an error."""
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))

    def build(self, dtype: torch.dtype | None = None) -> SequenceMixer:
        """The mixer in that dtype, or in the widest; its weights are the same in every call."""
        with torch.random.fork_rng():
            torch.manual_seed(1)
            module = self.fresh()
            with torch.no_grad():
                self.shake(module)
        held: SequenceMixer = module._apply(lambda part: cast(part, dtype or self.widest))
        held.register_forward_pre_hook(_with_resets)
        return held

    def naive(self, parameters: Mapping[str, Tensor], x: Tensor, state: State, reset: Flags) -> tuple[Tensor, State]:
        """The reference result, from the mixer's own steps in the widest dtype; subclasses may use a paper's loop."""
        module = self.build()
        dtype = self.widest
        forms = [part.dtype for part in module.initial_state(1)]
        weights = {f"mixer.{name}": cast(weight, dtype) for name, weight in parameters.items()}
        given = tuple(part.to(form) for part, form in zip(state, forms, strict=True))
        result: tuple[Tensor, State] = functional_call(_Steps(module), weights, (x.to(dtype), given, reset))
        return result


def _with_resets(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Flags, (batch, time) bool, as the `Resets` that mixers take."""
    return (*args[:2], Resets.from_mask(args[2])) if len(args) > 2 and isinstance(args[2], Tensor) else args


class _Steps(nn.Module):
    """`steps` as a module, so that `functional_call` can pass its weights."""

    def __init__(self, mixer: SequenceMixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor, state: State, reset: Flags) -> tuple[Tensor, State]:
        return steps(self.mixer, x, state, reset)


def cast(part: Tensor, dtype: torch.dtype) -> Tensor:
    """A floating-point tensor in a real dtype, or a complex tensor in the complex dtype of that width."""
    if part.is_complex():
        return part.to(dtype.to_complex())
    return part.to(dtype) if part.is_floating_point() else part

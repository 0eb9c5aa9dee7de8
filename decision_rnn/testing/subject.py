"""What is put under the law: how a mixer is made anew, what it should compute, and how near it has to come."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from decision_rnn.backbones import SequenceMixer, State
from decision_rnn.testing.cases import Flags, steps

TIGHT = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Largest difference allowed, over the largest value of the tensor."""

EXACT = {torch.float64: 1e-13, torch.float32: 1e-6}
"""The same where the same numbers are computed in another arrangement."""


class Subject:
    """A mixer under the law.

    Attributes:
        width: Channels of its input and output.
        remembers: Whether a step's output may depend on steps before it.
        every_channel_answers: Whether each channel of a step's output must change with that step's input.
        late_tolerance: For thousands of float32 steps.
        half_tolerance: For bfloat16.
    """

    width: int
    remembers: bool = True
    every_channel_answers: bool = False
    late_tolerance: float = 1e-4
    half_tolerance: float = 0.03

    @property
    def tolerances(self) -> Mapping[torch.dtype, float]:
        """The dtypes that it is held to and how near, the widest first."""
        return TIGHT

    @property
    def exact(self) -> float:
        """How near the same computation in another arrangement comes, in the widest dtype."""
        return EXACT[self.widest]

    @property
    def widest(self) -> torch.dtype:
        """The dtype of all clauses that take one."""
        return next(iter(self.tolerances))

    def fresh(self) -> SequenceMixer:
        """The mixer as it is made, with its initial weights."""
        raise NotImplementedError

    def shake(self, module: SequenceMixer) -> None:
        """Move parameters off their initial values, lest a zero bias hide a fault."""
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))

    def build(self, dtype: torch.dtype | None = None) -> SequenceMixer:
        """The mixer in that dtype, or in the widest; always the same."""
        with torch.random.fork_rng():
            torch.manual_seed(1)
            module = self.fresh()
            with torch.no_grad():
                self.shake(module)
        held: SequenceMixer = module._apply(lambda part: cast(part, dtype or self.widest))
        return held

    def naive(self, parameters: Mapping[str, Tensor], x: Tensor, state: State, reset: Flags) -> tuple[Tensor, State]:
        """What is right, in float64: here the mixer's own steps, for want of a loop written from a paper."""
        module = self.build()
        dtype = self.widest
        forms = [part.dtype for part in module.initial_state(1)]
        weights = {f"mixer.{name}": cast(weight, dtype) for name, weight in parameters.items()}
        given = tuple(part.to(form) for part, form in zip(state, forms, strict=True))
        result: tuple[Tensor, State] = functional_call(_Steps(module), weights, (x.to(dtype), given, reset))
        return result


class _Steps(nn.Module):
    """`steps` as a module, so that its weights can be given."""

    def __init__(self, mixer: SequenceMixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor, state: State, reset: Flags) -> tuple[Tensor, State]:
        return steps(self.mixer, x, state, reset)


def cast(part: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor of numbers in a real dtype, or in the complex one of that width if it is complex."""
    if part.is_complex():
        return part.to(dtype.to_complex())
    return part.to(dtype) if part.is_floating_point() else part

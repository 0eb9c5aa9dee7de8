"""What the law is tested on: every mixer in small configurations, alone and stacked, against the papers' loops.

test_law.py tests every registered mixer, alone and in a stack; a mixer needs a naive loop (references.py) and, if
its defaults are large, a small configuration (`SMALL`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import references
import torch
from torch import Tensor

from decision_rnn.backbones import Backbone, SequenceMixer, State, registered
from decision_rnn.testing import subject as testing
from decision_rnn.testing.subject import TIGHT

WIDTH = 8

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

AMPLIFIES = {"mlstm": 20, "retention": 20}
"""Factor on the float32 bound for stacks of mixers that magnify the rounding of their input. These two normalise
each head, and an episode's first output is norm((q.k) v): where q.k is near 0, it depends on its sign alone, and a
rounding error is magnified up to 1 / sqrt(1e-5) times. The float64 bound is the usual one; that of bfloat16 is 3
times wider."""


@dataclass(frozen=True)
class Subject(testing.Subject):
    """A mixer, or a stack of `layers` blocks of it: how to build it and what it should compute."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    layers: int | None = None
    reference: Callable[..., tuple[Tensor, State]] | None = None

    width = WIDTH

    def __str__(self) -> str:
        options = "".join(f"-{key}{value}" for key, value in self.options.items())
        return self.name + options + (f"-stack{self.layers}" if self.layers else "")

    @property
    def config(self) -> Any:
        return registered(self.name).config(width=WIDTH, layers=self.layers or 1, **self.options)

    @property
    def tolerances(self) -> dict[torch.dtype, float]:
        """TIGHT, except for the float32 bound of stacks of mixers in AMPLIFIES."""
        wider = AMPLIFIES[self.name] if self.amplifies else 1
        return TIGHT | {torch.float32: wider * TIGHT[torch.float32]}

    @property
    def amplifies(self) -> bool:
        return self.layers is not None and self.name in AMPLIFIES

    @property
    def half_tolerance(self) -> float:
        return 0.09 if self.amplifies else 0.03

    @property
    def late_tolerance(self) -> float:
        """Wider where sums of logarithms over all steps lose digits."""
        return 1e-4 if self.options.get("scan") == "log" else 1e-5

    @property
    def remembers(self) -> bool:
        """False for attention with a window of one step and for the MLP, unless their block has a convolution."""
        alone = self.name == "mlp" or self.options.get("window") == 1
        return not alone or "convolution" in self.options

    @property
    def rectified(self) -> bool:
        """True for the mixer whose output is a ReLU."""
        return self.options.get("activation") == "relu"

    @property
    def every_channel_answers(self) -> bool:
        """False for a ReLU, whose channels below zero show no change."""
        return not self.rectified

    def fresh(self) -> SequenceMixer:
        return Backbone(self.config) if self.layers else registered(self.name).cls(self.config)

    def shake(self, module: SequenceMixer) -> None:
        super().shake(module)
        if self.rectified:  # only a recurrent matrix of norm below 1 bounds its state
            for name, parameter in module.named_parameters():
                if name.endswith("cell.weight_hh_l0"):
                    parameter *= 0.95 / torch.linalg.matrix_norm(parameter, ord=2)

    def naive(self, parameters: dict[str, Tensor], x: Tensor, state: State, reset: Tensor | None):
        loop = self.reference or references.REFERENCES[self.name]
        run = partial(references.stack, loop) if self.layers else loop
        reset = torch.zeros(x.shape[:2], dtype=torch.bool) if reset is None else reset
        return run(self.config, parameters, x, state, reset)


OTHER_STACK = {"convolution": 4, "norm": "rms", "mlp_ratio": 0.0}
"""The block of "Were RNNs All We Needed?"."""


def subjects(name: str) -> list[Subject]:
    """The mixer in all its small configurations, and stacks of the first, in both forms of the block."""
    small = SMALL.get(name, [{}])
    stacks = [Subject(name, small[0], layers=3), Subject(name, small[0] | OTHER_STACK, layers=2)]
    return [*(Subject(name, options) for options in small), *stacks]

"""What the contract is tested on: every mixer in small configurations, alone and stacked, against the papers' loops.

A registered mixer needs a naive loop (references.py) and, if its defaults are large, a small configuration (`SMALL`).
"""

from functools import partial
from typing import Any

import references
import torch
from torch import Tensor

from decision_rnn.backbones import Backbone, registered
from decision_rnn.backbones.testing import TOLERANCES, MixerCase, add_noise, traced

WIDTH = 8

MINIMAL: list[dict[str, Any]] = [
    {},
    {"expansion": 1.5},
    {"scan": "log"},
    {"gate": "stretched"},
]
SMALL: dict[str, list[dict[str, Any]]] = {
    "aaren": [{"heads": 2}, {"heads": 8}],
    "conv": [{"kernel": 4}, {"kernel": 2}, {"kernel": 20}],
    "h3": [{"state_size": 6}, {"state_size": 2, "kernel": 2}],
    "lstm": [{}, {"peepholes": True}],
    "lru": [
        {"state_size": 6},
        {"state_size": 6, "parametrization": "exponential", "init_half_life": 1},
        {"state_size": 6, "parametrization": "plain", "init_half_life": 1, "normalization": False},
    ],
    "mamba": [{"state_size": 3}, {"state_size": 2, "kernel": 2, "expansion": 1.5}],
    "mingru": MINIMAL,
    "minlstm": MINIMAL,
    "mlstm": [{"heads": 2}, {"heads": 1}],
    "retention": [{"heads": 2}, {"heads": 1, "expansion": 1.5}],
    "s4d": [{"state_size": 6}, {"state_size": 2}],
    "slstm": [{"heads": 2}],
    "transformer": [{"window": 4, "heads": 2}, {"window": 1}, {"window": 20}],
}
"""Configurations to try, by mixer; the first is the one that is stacked."""

OTHER_STACK = {"convolution": 4, "norm": "rms", "mlp_ratio": 0.0}
"""The block of "Were RNNs All We Needed?"."""


class Subject(MixerCase):
    """A mixer, or a stack of `layers` blocks of it: how to build it and what it should compute."""

    def __init__(self, name: str, options: dict[str, Any] | None = None, layers: int | None = None, reference=None):
        self.name, self.options, self.layers = name, options or {}, layers
        self.config: Any = registered(name).config(width=WIDTH, layers=layers or 1, **self.options)
        loop = reference or getattr(references, name)
        without_memory = name == "mlp" or self.options.get("window") == 1
        super().__init__(
            make=lambda: add_noise(Backbone(self.config) if layers else registered(name).cls(self.config)),
            width=WIDTH,
            tolerances=TOLERANCES,
            naive=partial(references.stack, loop, self.config) if layers else partial(loop, self.config),
            remembers=not without_memory or "convolution" in self.options,
        )
        # Wider where sums of logarithms over all steps lose digits.
        self.long_tolerance = 1e-4 if self.options.get("scan") == "log" else 1e-5

    def __str__(self) -> str:
        options = "".join(f"-{key}{value}" for key, value in self.options.items())
        return self.name + options + (f"-stack{self.layers}" if self.layers else "")


def subjects(name: str) -> list[Subject]:
    """The mixer in all its small configurations, and stacks of the first, in both forms of the block."""
    small = SMALL.get(name, [{}])
    stacks = [Subject(name, small[0], layers=2), Subject(name, small[0] | OTHER_STACK, layers=2)]
    return [*(Subject(name, options) for options in small), *stacks]


def make(name: str, **options: Any) -> Any:
    """A new mixer in float64 as training starts with it, with seed 0."""
    torch.manual_seed(0)
    return registered(name).cls(registered(name).config(**{"width": WIDTH} | options)).double()


def gradients(run: Any, module: Any, x: Tensor, state: tuple[Tensor, ...] | None = None) -> dict[str, Tensor]:
    """The outputs, the final state and the gradients of all inputs of `run(x, state)`; see `testing.traced`."""
    return traced(lambda x, state, _: run(x, state), module, x, state)

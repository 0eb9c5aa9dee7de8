"""What the contract is tested on: every mixer in small configurations, alone and stacked, against the papers' loops.

test_contract.py tests every registered mixer, alone and in a stack; a mixer needs a naive loop (references.py) and, if
its defaults are large, a small configuration (`SMALL`).
"""

from functools import partial
from typing import Any

import references
import torch
from torch import Tensor

from decision_rnn.backbones import Backbone, SequenceMixer, State, registered
from decision_rnn.testing.harness import TOLERANCES, MixerCase, add_noise

WIDTH = 8

SMALL: dict[str, list[dict[str, Any]]] = {
    "aaren": [{"heads": 2}, {"heads": 8}],
    "conv": [{"kernel": 4}, {"kernel": 2}, {"kernel": 20}],
    "h3": [{"state_size": 6}, {"state_size": 2, "kernel": 2, "start": "real"}],
    "hgrn": [{}, {"complex": False}],
    "lstm": [{}, {"peepholes": True}],
    "lru": [
        {"state_size": 6},
        {"state_size": 6, "parametrization": "exponential", "init_half_life": 1},
        {"state_size": 6, "parametrization": "plain", "init_half_life": 1, "normalization": False},
    ],
    "mamba": [{"state_size": 3}, {"state_size": 2, "kernel": 2, "expansion": 1.5}],
    "mingru": [{}, {"expansion": 1.5}, {"projection": True}, {"candidate": "signed"}, {"scan": "log"}],
    "minlstm": [{}, {"expansion": 1.5}, {"projection": True}, {"candidate": "signed"}, {"scan": "log"}],
    "mlstm": [{"heads": 2}, {"heads": 1}],
    "retention": [{"heads": 2}, {"heads": 1, "expansion": 1.5}],
    "rnn": [{}, {"activation": "relu"}],
    "s4d": [{"state_size": 6}, {"state_size": 2}, {"state_size": 4, "start": "real"}],
    "scrn": [{"context_units": 5}, {"learn_alpha": False}],
    "slstm": [{"heads": 2}],
    "transformer": [{"window": 4, "heads": 2}, {"window": 1}, {"window": 20, "output_gate": True}],
}
"""Configurations to try, by mixer; the first is the one that is stacked."""


class Subject(MixerCase):
    """A mixer, or a stack of `layers` blocks of it: how to build it and what it should compute."""

    def __init__(self, name: str, options: dict[str, Any] | None = None, layers: int | None = None, reference=None):
        self.name, self.options, self.layers = name, options or {}, layers
        loop = reference or references.REFERENCES[name]
        self.loop = partial(references.stack, loop) if layers else loop
        without_memory = name == "mlp" or self.options.get("window") == 1
        super().__init__(
            make=self.create,
            width=WIDTH,
            tolerances=TOLERANCES,
            naive=self.paper,
            remembers=not without_memory or "convolution" in self.options,
            # Wider where sums of logarithms over all steps lose digits.
            long_tolerance=1e-4 if self.options.get("scan") == "log" else 1e-5,
        )

    def __str__(self) -> str:
        options = "".join(f"-{key}{value}" for key, value in self.options.items())
        return self.name + options + (f"-stack{self.layers}" if self.layers else "")

    @property
    def config(self) -> Any:
        return registered(self.name).config(width=WIDTH, layers=self.layers or 1, **self.options)

    def create(self) -> SequenceMixer:
        module = add_noise(Backbone(self.config) if self.layers else registered(self.name).cls(self.config))
        if self.options.get("activation") == "relu":  # only a recurrent matrix of norm below 1 bounds its state
            for name, parameter in module.named_parameters():
                if name.endswith("cell.weight_hh_l0"):
                    parameter.data *= 0.95 / torch.linalg.matrix_norm(parameter.data, ord=2)
        return module

    def paper(self, parameters: dict[str, Tensor], x: Tensor, state: State, reset: Tensor) -> tuple[Tensor, State]:
        return self.loop(self.config, parameters, x, state, reset)


OTHER_STACK = {"convolution": 4, "norm": "rms", "mlp_ratio": 0.0}
"""The block of "Were RNNs All We Needed?"."""


def subjects(name: str) -> list[Subject]:
    """The mixer in all its small configurations, and stacks of the first, in both forms of the block."""
    small = SMALL.get(name, [{}])
    stacks = [Subject(name, small[0], layers=2), Subject(name, small[0] | OTHER_STACK, layers=2)]
    return [*(Subject(name, options) for options in small), *stacks]

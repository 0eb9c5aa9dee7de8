"""Every registered mixer, alone and stacked, has every property of the contract, against its paper's equations.

Long sequences of stacks, and of all but the first configuration of a mixer, are slow tests, and so are dense resets in
stacks.
"""

from dataclasses import dataclass

import pytest
import torch
from properties import PROPERTIES, long_sequences
from subjects import Subject, subjects
from torch import nn

from decision_rnn.backbones import BackboneConfig, SequenceMixer, register_backbone, registered_names
from decision_rnn.backbones.contract import steps
from decision_rnn.backbones.testing import dense_resets, modes_agree


def is_slow(check, subject, number):
    return (number and check is long_sequences) or (subject.layers and check is dense_resets)


CASES = [
    pytest.param(check, s, id=f"{s}-{check.__name__}", marks=[pytest.mark.slow] if is_slow(check, s, number) else [])
    for check in PROPERTIES
    for name in registered_names()
    for number, s in enumerate(subjects(name))
]


@pytest.mark.parametrize(("check", "subject"), CASES)
def test_registered_mixer_keeps_contract(check, subject):
    check(subject)


@dataclass(frozen=True, kw_only=True)
class AverageConfig(BackboneConfig):
    name: str = "average"
    rounded: bool = False


class Average(SequenceMixer):
    """h_t = sigmoid(a) * h_{t-1} + x_t, y = h; `rounded` rounds h to bfloat16 everywhere."""

    forward = steps

    def __init__(self, config):
        super().__init__()
        self.rounded = config.rounded
        self.a = nn.Parameter(torch.zeros(config.width))

    def initial_state(self, batch_size):
        return (self.a.new_zeros(batch_size, len(self.a)),)

    def step(self, x, state):
        h = torch.sigmoid(self.a) * state[0] + x
        h = h.bfloat16().to(h.dtype) if self.rounded else h
        return h, (h,)


def average_reference(config, parameters, x, state, reset):
    decay, h, outputs = 1 / (1 + torch.exp(-parameters["a"])), list(state[0]), []
    for t in range(x.shape[1]):
        h = [x[row, t] + (0 if reset[row, t] else decay * h[row]) for row in range(len(x))]
        outputs.append(torch.stack(h))
    return torch.stack(outputs, dim=1), (torch.stack(h),)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("layers", [None, 2])
@pytest.mark.parametrize("check", [check for check in PROPERTIES if check is not long_sequences])
def test_mixer_from_outside_the_package_keeps_contract(check, layers):
    register_backbone(AverageConfig)(Average)
    check(Subject("average", layers=layers, reference=average_reference))


@pytest.mark.usefixtures("registries")
def test_contract_compares_with_the_equations():
    register_backbone(AverageConfig)(Average)
    with pytest.raises(AssertionError, match="forward"):
        modes_agree(Subject("average", {"rounded": True}, reference=average_reference))

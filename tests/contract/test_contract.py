"""Every registered mixer, alone and stacked, has every property of the contract, against its paper's equations.

Long sequences of stacks, of mixers that loop, and of all but the first configuration of a mixer, are slow tests, and so
are dense resets in stacks, and the paper's block of mixers that are not in `BLOCKS`: it is the same code around each.
"""

import pytest
from properties import PROPERTIES, long_sequences
from subjects import subjects

from decision_rnn.backbones import BACKBONES
from decision_rnn.backbones.testing import dense_resets

LOOPS = {"gru", "lstm", "rnn", "scrn", "slstm"}
"""Mixers that run step after step."""
BLOCKS = {"aaren", "lstm", "mamba", "mingru", "s4d", "transformer"}
"""Mixers with states of all kinds: windows and caches, gates, complex numbers, sums of logarithms."""


def is_slow(check, subject, number):
    if subject.config.convolution and subject.name not in BLOCKS:
        return True
    loops = subject.name in LOOPS
    return ((number or loops) and check is long_sequences) or (subject.layers and check is dense_resets)


CASES = [
    pytest.param(check, s, id=f"{s}-{check.__name__}", marks=[pytest.mark.slow] if is_slow(check, s, number) else [])
    for check in PROPERTIES
    for name in BACKBONES.names()
    for number, s in enumerate(subjects(name))
]


@pytest.mark.parametrize(("check", "subject"), CASES)
def test_registered_mixer_keeps_contract(check, subject):
    check(subject)

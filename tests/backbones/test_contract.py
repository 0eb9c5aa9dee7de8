"""Every registered mixer, alone and stacked, has every property of the contract.

Long sequences of stacks, and of all but the first configuration of a mixer, are slow tests, and so are dense resets in
stacks.
"""

import pytest
from subjects import subjects

from decision_rnn.backbones import registered_names
from decision_rnn.testing.properties import PROPERTIES, dense_resets, long_sequences

CASES = [
    pytest.param(
        check,
        subject,
        id=f"{subject}-{check.__name__}",
        marks=[pytest.mark.slow]
        if (number and check is long_sequences) or (subject.layers and check is dense_resets)
        else [],
    )
    for check in PROPERTIES
    for name in registered_names()
    for number, subject in enumerate(subjects(name))
]


@pytest.mark.parametrize(("check", "subject"), CASES)
def test_registered_mixer_keeps_contract(check, subject):
    check(subject)

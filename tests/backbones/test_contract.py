"""Every registered mixer, alone and stacked, has every property of the contract; long sequences of stacks are slow."""

import pytest
from subjects import subjects

from decision_rnn.backbones import registered_names
from decision_rnn.testing.properties import PROPERTIES, long_sequences

CASES = [
    pytest.param(
        check,
        subject,
        id=f"{subject}-{check.__name__}",
        marks=[pytest.mark.slow] if subject.layers and check is long_sequences else [],
    )
    for check in PROPERTIES
    for name in registered_names()
    for subject in subjects(name)
]


@pytest.mark.parametrize(("check", "subject"), CASES)
def test_registered_mixer_keeps_contract(check, subject):
    check(subject)

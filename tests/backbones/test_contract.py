"""Every registered mixer, alone and stacked, has every property of the contract."""

import pytest
from subjects import subjects

from decision_rnn.backbones import registered_names
from decision_rnn.testing.properties import PROPERTIES


@pytest.mark.parametrize("subject", [s for name in registered_names() for s in subjects(name)], ids=str)
@pytest.mark.parametrize("check", PROPERTIES, ids=lambda check: check.__name__)
def test_registered_mixer_keeps_contract(check, subject):
    check(subject)

"""Every registered mixer, alone and stacked, under every law."""

import pytest
from subjects import subjects

from decision_rnn.backbones import registered_names
from decision_rnn.testing.cases import Cases
from decision_rnn.testing.law import LAWS


@pytest.mark.parametrize("subject", [s for name in registered_names() for s in subjects(name)], ids=str)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_registered_mixer_obeys_law(law, subject):
    law(subject, Cases.full())

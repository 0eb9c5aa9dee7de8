"""The law on a GPU: `pytest -n 4 tests/backbones` on a machine that has one; elsewhere skipped."""

import pytest
import torch
from subjects import subjects

from decision_rnn.backbones import registered_names
from decision_rnn.testing.cases import Cases
from decision_rnn.testing.law import LAWS

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)


@pytest.fixture(autouse=True)
def on_cuda():
    """All that the law makes lies there; and torch's recurrent layers compute float32 as it is."""
    with torch.device("cuda"), torch.backends.cudnn.flags(allow_tf32=False):
        yield


@pytest.mark.parametrize("subject", [s for name in registered_names() for s in subjects(name)], ids=str)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law, subject):
    law(subject, Cases.full())

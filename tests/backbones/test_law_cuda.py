"""The law on a GPU: `pytest -n 4 tests/backbones` on a machine that has one; skipped elsewhere."""

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
    """Create the law's tensors on the GPU, and disable TF32 in torch's recurrent layers."""
    with torch.device("cuda"), torch.backends.cudnn.flags(allow_tf32=False):
        yield


@pytest.mark.parametrize("subject", [s for name in registered_names() for s in subjects(name)], ids=str)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_registered_mixer_obeys_law_on_cuda(law, subject):
    law(subject, Cases.full())

"""The contract on a GPU; skipped elsewhere."""

import pytest
import torch
from properties import PROPERTIES
from subjects import subjects

from decision_rnn.backbones import BACKBONES

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)


@pytest.fixture(autouse=True)
def on_cuda():
    """Create all tensors on the GPU, and disable TF32 in torch's recurrent layers."""
    with torch.device("cuda"), torch.backends.cudnn.flags(allow_tf32=False):
        yield


@pytest.mark.parametrize("subject", [s for name in BACKBONES.names() for s in subjects(name)], ids=str)
@pytest.mark.parametrize("check", PROPERTIES, ids=lambda check: check.__name__)
def test_registered_mixer_keeps_contract_on_cuda(check, subject):
    check(subject)

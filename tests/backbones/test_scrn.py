"""SCRN: its alpha and the sizes of its parts. test_contract.py tests its equations."""

import pytest
import torch

from decision_rnn.backbones import registered
from decision_rnn.testing import noise


def make(**options):
    torch.manual_seed(0)
    return registered("scrn").cls(registered("scrn").config(width=8, **options))


def test_scrn_context_is_a_moving_average_with_the_papers_alpha():
    """0.95 is a half-life of 13.5 steps."""
    mixer, x = make(context_units=1, init_half_life=13.5), noise(1, 50, 8, dtype=torch.float32)
    _, (_, s) = mixer(x)
    drive = x[0] @ mixer.context.weight[0]
    right = sum(0.05 * 0.95 ** (49 - t) * drive[t] for t in range(50))
    assert s.item() == pytest.approx(right.item(), rel=2e-3)

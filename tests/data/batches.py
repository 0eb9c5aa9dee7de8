"""Comparison of training batches."""

import torch

from decision_rnn.data.stream import Batch


def assert_same(one: Batch, other: Batch) -> None:
    """Assert that two batches are equal bit for bit."""
    assert all(torch.equal(mine, right) for mine, right in zip(one, other, strict=True))

"""Comparison of training batches."""

import torch

from decision_rnn.data.stream import Batch


def assert_same(one: Batch, other: Batch) -> None:
    """Assert that two batches are equal bit for bit."""
    assert all(torch.equal(mine, right) for mine, right in zip(one[:-1], other[:-1], strict=True))
    for name in ("mask", "rows", "steps"):
        assert torch.equal(getattr(one.reset, name), getattr(other.reset, name))

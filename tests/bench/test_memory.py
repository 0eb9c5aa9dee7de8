"""`peak_memory` against cases that can be counted by hand."""

import pytest
import torch

from decision_rnn.bench.memory import peak_memory

N = 250_000
TENSOR = 4 * N
"""Bytes of one tensor of N numbers."""

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]


@pytest.mark.parametrize("device", DEVICES)
def test_peak_memory_counts_the_most_bytes_allocated_at_once(device):
    before = torch.ones(N, device=device)  # is not counted

    def work():
        a = before + 1
        b = a * 2
        del a
        c = b + before
        d = c.exp()
        del b, c, d
        return before * 3

    assert peak_memory(work, device) == pytest.approx(3 * TENSOR, rel=0.01)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("repeats", [1, 10])
def test_peak_memory_counts_freed_memory_only_once(device, repeats):
    before = torch.ones(N, device=device)

    def work():
        for _ in range(repeats):
            del_me = before + 1
            del del_me

    assert peak_memory(work, device) == pytest.approx(TENSOR, rel=0.01)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("depth", [1, 4])
def test_peak_memory_counts_saved_tensors_and_gradients_of_a_backward_pass(device, depth):
    """A chain of sigmoids saves every output; in the backward pass the two gradients around one sigmoid add to them."""
    x, gradient = torch.zeros(N, device=device, requires_grad=True), torch.ones(N, device=device)

    def work():
        y = x
        for _ in range(depth):
            y = torch.sigmoid(y)
        torch.autograd.grad(y, x, gradient)

    gradients = 1 if depth == 1 else 2  # that of y was allocated before
    assert peak_memory(work, device) == pytest.approx((depth + gradients) * TENSOR, rel=0.01)


@pytest.mark.parametrize(
    ("kernel", "held"),
    [
        (torch.median, TENSOR),  # a copy of x
        (lambda x: torch.kthvalue(x, 7), 3 * TENSOR),  # a copy of x and its int64 indices
    ],
    ids=["median", "kthvalue"],
)
def test_peak_memory_counts_temporary_buffers_of_a_kernel(kernel, held):
    """These kernels return a number or two, and partially sort buffers of their own to find it."""
    x = torch.rand(N)
    results = []
    assert peak_memory(lambda: results.append(kernel(x))) == pytest.approx(held, rel=0.01)
    returned = results[0] if isinstance(results[0], tuple) else results
    assert all(part.numel() == 1 for part in returned)

"""Mamba's scan, as a loop with a hand-written gradient and as a linear recurrence, against a loop over numbers."""

import pytest
import torch

from decision_rnn.backbones import mamba
from decision_rnn.backbones.mamba import selective_scan, stored_scan
from decision_rnn.backbones.testing import noise

BATCH, TIME, INNER, SIZE = 3, 7, 5, 4


def inputs():
    """dt, a, u, b, c and the initial h."""
    steps, maps = (BATCH, TIME, INNER), (BATCH, TIME, SIZE)
    shapes = (steps, (INNER, SIZE), steps, maps, maps, (BATCH, INNER, SIZE))
    dt, a, *others = (noise(*shape, seed=seed) for seed, shape in enumerate(shapes))
    return tuple(x.requires_grad_() for x in (dt.abs(), -a.abs(), *others))


def naive(dt, a, u, b, c, h, reset):
    """Algorithm 2 of Gu & Dao (2023), one number after the other."""
    y, last = [], []
    for row in range(BATCH):
        state = [list(channel) for channel in h[row]]
        for t in range(TIME):
            for d in range(INNER):
                for n in range(SIZE):
                    before = 0 if reset[row, t] else state[d][n]
                    state[d][n] = torch.exp(dt[row, t, d] * a[d, n]) * before + u[row, t, d] * b[row, t, n]
                y.append(sum(state[d][n] * c[row, t, n] for n in range(SIZE)))
        last += [number for channel in state for number in channel]
    return torch.stack(y).view(BATCH, TIME, INNER), torch.stack(last).view(BATCH, INNER, SIZE)


@pytest.mark.parametrize("block", [1, 2, 3, 64])
@pytest.mark.parametrize("scan", [selective_scan, stored_scan])
@pytest.mark.parametrize("places", [[], [(0, 0), (1, 3), (1, 4), (2, 6)]])
def test_selective_scan_and_its_gradients_equal_a_loop(scan, places, block, monkeypatch):
    monkeypatch.setattr(mamba, "BLOCK", block)
    reset = torch.zeros(BATCH, TIME, dtype=torch.bool)
    for row, step in places:
        reset[row, step] = True
    leaves = inputs()
    expected, found = naive(*leaves, reset), scan(*leaves, reset)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(y, leaves, [noise(*part.shape) for part in y]) for y in (expected, found)]
    torch.testing.assert_close(grads[1], grads[0])


def test_incoming_gradients_are_not_changed():
    """Where the transposed gradient of the last state is contiguous, too."""
    dt, a, u, b, c, h = inputs()
    outputs = selective_scan(dt, a[:, :1], u, b[..., :1], c[..., :1], h[..., :1])
    grads = [torch.ones_like(output) for output in outputs]
    torch.autograd.grad(outputs, (dt, a), grads)
    assert all((grad == 1).all() for grad in grads)


@pytest.mark.parametrize("time", [5, 6])
def test_blocks_of_time_change_no_bit(time, monkeypatch):
    """Also if the graph is kept and its gradients are taken twice."""
    leaves = [x if x.dim() == 2 or x.shape[1] == INNER else x[:, :time] for x in inputs()]
    results = []
    for block in (64, 3):
        monkeypatch.setattr(mamba, "BLOCK", block)
        outputs = selective_scan(*leaves)
        ones = [torch.ones_like(output) for output in outputs]
        grads = [torch.autograd.grad(outputs, leaves, ones, retain_graph=True) for _ in range(2)]
        results += [(*outputs, *grad) for grad in grads]
    for result in results[1:]:
        assert all(map(torch.equal, result, results[0]))


@pytest.mark.parametrize("scan", [selective_scan, stored_scan])
def test_memory_for_the_backward_pass_does_not_grow_with_all_states(scan):
    """A quarter of the states of 1,000 steps: those of one block, those between blocks, and the inputs."""
    batch, time, inner, size = 2, 1000, 64, 32
    steps, maps = (batch, time, inner), (batch, time, size)
    dt, a, *others = (noise(*shape) for shape in (steps, (inner, size), steps, maps, maps, (batch, inner, size)))
    saved = {}

    def pack(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = scan(*(x.requires_grad_() for x in (dt.abs(), -a.abs(), *others)))
    assert outputs[0].requires_grad
    assert sum(saved.values()) < batch * time * inner * size * dt.element_size() / 4

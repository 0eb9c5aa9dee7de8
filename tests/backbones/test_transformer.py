"""The transformer's window and memory. test_contract.py tests its equations."""

import pytest
import torch
from subjects import WIDTH, make

from decision_rnn.backbones.contract import run_stepwise
from decision_rnn.backbones.testing import noise


@pytest.mark.parametrize("window", [1, 2, 4, 20])
@pytest.mark.parametrize("mode", ["forward", "steps"])
def test_transformer_attends_to_the_last_window_steps(mode, window):
    """The steps at distance 0 to window - 1 and no others."""
    mixer, time = make("transformer", window=window, heads=2), 45
    x = noise(1, time, WIDTH).requires_grad_()
    y, _ = mixer(x) if mode == "forward" else run_stepwise(mixer, x, mixer.initial_state(1), None)
    for t in (0, window - 1, window, 21, time - 1):
        (grad,) = torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)
        seen = grad[0].abs().amax(-1).nonzero().flatten().tolist()
        assert seen == list(range(max(0, t - window + 1), t + 1))


def test_transformer_memory_starts_as_nan():
    """Reading an unwritten slot by mistake shows, in every property of the contract."""
    keys, values, count = make("transformer").initial_state(2)
    assert keys.isnan().all()
    assert values.isnan().all()
    assert not count.any()

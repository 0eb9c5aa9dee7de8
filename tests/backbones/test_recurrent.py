"""GRU, LSTM and RNN against torch's modules, and their initialisation. test_contract.py tests their equations."""

import pytest
import torch
from subjects import gradients, make
from torch import nn

from decision_rnn.backbones.contract import run_stepwise
from decision_rnn.backbones.testing import assert_near, named, noise

WIDTH, BATCH, TIME = 6, 4, 9


def torch_whole(module, x, state):
    y, after = module(x, tuple(part[None] for part in state) if len(state) == 2 else state[0][None])
    return y, tuple(part[0] for part in (after if len(state) == 2 else (after,)))


def torch_single(cell, x, state):
    outputs = []
    for x_t in x.unbind(1):
        after = cell(x_t, state if len(state) == 2 else state[0])
        state = after if len(state) == 2 else (after,)
        outputs.append(state[0])
    return torch.stack(outputs, dim=1), state


@pytest.mark.parametrize(
    ("name", "module", "cell"),
    [("gru", nn.GRU, nn.GRUCell), ("lstm", nn.LSTM, nn.LSTMCell), ("rnn", nn.RNN, nn.RNNCell)],
)
def test_gru_lstm_and_rnn_equal_torch_modules(name, module, cell):
    """Outputs, states and gradients against nn.GRU over one episode and nn.GRUCell step by step."""
    mixer, x = make(name, width=WIDTH), noise(BATCH, TIME, WIDTH)
    whole, single = module(WIDTH, WIDTH, batch_first=True).double(), cell(WIDTH, WIDTH).double()
    whole.load_state_dict(mixer.cell.state_dict())
    single.load_state_dict({key.removesuffix("_l0"): value for key, value in mixer.cell.state_dict().items()})
    state = tuple(noise(BATCH, WIDTH, seed=1 + i) for i in range(len(mixer.initial_state(1))))
    for run in (mixer, lambda x, state: run_stepwise(mixer, x, state)):
        found = gradients(run, None, x, state)
        assert_near(found, gradients(lambda x, s: torch_whole(whole, x, s), None, x, state), 1e-13, "module")
        assert_near(found, gradients(lambda x, s: torch_single(single, x, s), None, x, state), 1e-13, "cell")
    reset = torch.zeros(BATCH, TIME, dtype=torch.bool)
    reset[1, 4] = True
    y, after = mixer(x, state, reset)
    late = torch_whole(whole, x[1:2, 4:], tuple(torch.zeros(1, WIDTH, dtype=torch.float64) for _ in state))
    assert_near(named((y[1:2, 4:], tuple(part[1:2] for part in after))), named(late), 1e-13, "an episode alone")


def test_lstm_cell_that_keeps_more_takes_in_less():
    """i + f is 1 at the start, but for the random part of the biases."""
    cell = make("lstm", width=64, init_half_life=1000).cell
    i, f, *_ = torch.sigmoid(cell.bias_ih_l0 + cell.bias_hh_l0).chunk(4)
    assert (i + f - 1).abs().max() < 0.1
    assert f.max() > 0.998


def test_lstm_peepholes_are_initialised_like_torch_weights():
    """Uniform within 1 / sqrt(width); there are none without the option."""
    peepholes = make("lstm", width=1000, peepholes=True).peepholes.detach()
    assert peepholes.shape == (3, 1000)
    assert peepholes.abs().max() <= 1000**-0.5
    assert peepholes.std().item() == pytest.approx((1000 * 3) ** -0.5, rel=0.05)
    assert make("lstm").peepholes is None

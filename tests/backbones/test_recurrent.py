"""GRU, LSTM and RNN against torch's modules, and their initialisation. test_contract.py tests their equations."""

import pytest
import torch
from subjects import assert_same, gradients
from torch import nn

from decision_rnn.backbones import registered
from decision_rnn.backbones.contract import steps
from decision_rnn.testing import assert_near, noise

WIDTH, BATCH, TIME = 6, 4, 9
MIXERS = [
    ("gru", {}, nn.GRU, nn.GRUCell, {}),
    ("lstm", {}, nn.LSTM, nn.LSTMCell, {}),
    ("rnn", {}, nn.RNN, nn.RNNCell, {}),
]
IDS = ["gru", "lstm", "rnn"]


def make(name, **options):
    torch.manual_seed(0)
    return registered(name).cls(registered(name).config(**{"width": WIDTH} | options)).double()


def flat(state):
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize(("name", "options", "module", "cell", "kind"), MIXERS, ids=IDS)
def test_gru_lstm_and_rnn_equal_torch_modules_with_copied_weights(name, options, module, cell, kind):
    """Outputs, states and gradients against nn.GRU over one episode and nn.GRUCell step by step."""
    mixer, x = make(name, **options), noise(BATCH, TIME, WIDTH)
    whole, single = module(WIDTH, WIDTH, batch_first=True, **kind).double(), cell(WIDTH, WIDTH, **kind).double()
    whole.load_state_dict(mixer.cell.state_dict())
    single.load_state_dict({key.removesuffix("_l0"): value for key, value in mixer.cell.state_dict().items()})
    parts = len(mixer.initial_state(1))
    state = tuple(noise(BATCH, WIDTH, seed=1 + i) for i in range(parts))

    def given(state):
        return state if parts == 2 else state[0]

    def torch_whole(x, state):
        y, after = whole(x, given(tuple(part[None] for part in state)))
        return y, tuple(part[0] for part in flat(after))

    def torch_single(x, state):
        outputs = []
        for t in range(TIME):
            state = flat(single(x[:, t], given(state)))
            outputs.append(state[0])
        return torch.stack(outputs, dim=1), state

    for run in (mixer, lambda x, state: steps(mixer, x, state, None)):
        for right in (torch_whole, torch_single):
            assert_same(run(x, state), right(x, state), 1e-13, "with a state")
            expected = gradients(right, {}, x, state)
            for key, grad in gradients(run, {}, x, state).items():
                assert_near(grad, expected[key], 1e-13, f"gradient of {key}")
    reset = torch.zeros(BATCH, TIME, dtype=torch.bool)
    reset[1, 4] = True
    y, after = mixer(x, state, reset)
    late, late_after = torch_whole(x[1:2, 4:], tuple(torch.zeros(1, WIDTH, dtype=torch.float64) for _ in state))
    assert_same((y[1:2, 4:], tuple(part[1:2] for part in after)), (late, late_after), 1e-13, "an episode alone")


def test_lstm_cell_that_keeps_more_takes_in_less():
    """i + f is 1 at the start, but for the random part of the biases."""
    cell = make("lstm", width=64, init_half_life=1000).cell
    i, f, *_ = torch.sigmoid(cell.bias_ih_l0 + cell.bias_hh_l0).chunk(4)
    assert (i + f - 1).abs().max() < 0.1
    assert f.max() > 0.998


def test_lstm_with_zero_peepholes_equals_plain_lstm():
    plain, peeping = make("lstm"), make("lstm", peepholes=True)
    peeping.load_state_dict(plain.state_dict() | {"peepholes": torch.zeros(3, WIDTH)})
    x, state = noise(BATCH, TIME, WIDTH), tuple(noise(BATCH, WIDTH, seed=1 + i) for i in range(2))
    assert_same(peeping(x, state), plain(x, state), 1e-13, "forward")
    assert_same(steps(peeping, x, state, None), steps(plain, x, state, None), 1e-13, "steps")


def test_lstm_peepholes_are_initialised_like_torch_weights():
    """Uniform within 1 / sqrt(width); there are none without the option."""
    peepholes = make("lstm", width=1000, peepholes=True).peepholes.detach()
    assert peepholes.shape == (3, 1000)
    assert peepholes.abs().max() <= 1000**-0.5
    assert peepholes.std().item() == pytest.approx((1000 * 3) ** -0.5, rel=0.05)
    assert make("lstm").peepholes is None

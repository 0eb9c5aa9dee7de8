"""Half-lives at the start of training, measured from what layers keep of a state when their input is zero."""

import math

import pytest
import torch

from decision_rnn.backbones import BACKBONES, FadingConfig, memory_exceeds, registered
from decision_rnn.backbones.testing import noise

FADING = sorted(name for name in BACKBONES.names() if issubclass(registered(name).config, FadingConfig))
OPTIONS = {
    "h3": {"state_size": 2},
    "mamba": {"state_size": 1},
    "mlstm": {"heads": 64},
    "retention": {"heads": 64},
    "s4d": {"state_size": 2},
}
"""With one state for each channel or head."""


def make(name, **options):
    torch.manual_seed(0)
    return registered(name).cls(registered(name).config(width=128, **OPTIONS.get(name, {}), **options)).double()


def half_lives(name, **options):
    """Of each channel or head, sorted: from what one step without input leaves of a small change of the state."""
    mixer, zero = make(name, **options), torch.zeros(1, 128, dtype=torch.float64)
    for key, parameter in mixer.named_parameters():
        if key.endswith("weight_hh_l0"):
            parameter.data.zero_()  # a channel's memory of itself, not what the others make of it
    _, before = mixer.step(zero, mixer.initial_state(1))
    parts = {"h3": 2, "hgrn": 2, "lru": 2, "s4d": 2}.get(name, 1)  # complex numbers have two
    fading = slice(-parts, None)  # the last parts of every state
    change = tuple(torch.zeros_like(part) for part in before)
    for part in change[fading]:
        part.fill_(1)
    after, left = torch.func.jvp(lambda *state: mixer.step(zero, state)[1], before, change)
    if parts == 2:
        kept = torch.hypot(*left[fading]) / math.sqrt(2)
    elif name == "retention":  # rotated
        kept = left[0][..., 0].square().mean(-1).sqrt()
    elif name == "mlstm":  # stored divided by exp(m), as the next two
        kept = left[1][..., 0, 0] * torch.exp(after[0] - before[0])
    elif name == "slstm":
        kept = left[3] * torch.exp(after[0] - before[0])
    elif name == "rwkv":
        kept = left[2][:, :128] * torch.exp(after[1] - before[1])
    else:
        kept = left[-1]
    return (math.log(0.5) / torch.log(kept.detach().flatten())).sort().values


@pytest.mark.parametrize("name", FADING)
@pytest.mark.parametrize("init_half_life", [1, 30, 3000])
def test_half_lives_are_spread_evenly_over_their_logarithms_from_one_step_to_memory(name, init_half_life):
    measured = half_lives(name, init_half_life=init_half_life)
    assert len(measured) >= 64
    right = torch.exp(torch.linspace(0, math.log(init_half_life), len(measured), dtype=torch.float64))
    # Biases, or the maps of the input to them, are random around these values.
    assert (torch.log(measured) - torch.log(right)).abs().max() < 0.4


@pytest.mark.parametrize("name", FADING)
def test_a_lone_channel_or_head_has_the_longest_half_life(name):
    config = registered(name).config(init_half_life=100)
    assert config.half_lives(1).tolist() == pytest.approx([100])


def test_a_million_steps_are_resolved_in_float32():
    for name in ("mingru", "lru", "mamba", "hgrn", "rwkv"):
        mixer = make(name, init_half_life=1e6).float()
        _, state = mixer(noise(1, 50, 128, dtype=torch.float32))
        assert all(part.isfinite().all() for part in state)
    bias = registered("mingru").config(init_half_life=1e6).forget_gate_bias(1)
    assert math.log(0.5) / math.log(torch.sigmoid(bias).item()) == pytest.approx(1e6, rel=0.1)


def test_states_outlast_slices_that_are_shorter_than_the_memory():
    assert memory_exceeds(registered("gru").config(init_half_life=20), 20)
    assert not memory_exceeds(registered("gru").config(init_half_life=19), 20)
    assert memory_exceeds(registered("aaren").config(), 1000)
    assert not any(memory_exceeds(registered(name).config(), 1) for name in ("mlp", "conv", "transformer", "rnn"))

"""Invalid options of layers raise errors that name the key."""

import pytest

from decision_rnn.backbones import registered


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        ("aaren", {"heads": 3}, "heads"),
        ("conv", {"kernel": 1}, "kernel"),
        ("gru", {"init_half_life": 0.5}, "init_half_life"),
        ("gru", {"init_half_life": 2e6}, "init_half_life"),
        ("gru", {"norm": "batch"}, "norm"),
        ("gru", {"convolution": 1}, "convolution"),
        ("gru", {"mlp_ratio": 0.01}, "mlp_ratio"),
        ("h3", {"kernel": 1}, "kernel"),
        ("lru", {"state_size": 0}, "state_size"),
        ("lru", {"parametrization": "polar"}, "parametrization"),
        ("mamba", {"expansion": 0.01}, "expansion"),
        ("mingru", {"scan": "log", "candidate": "signed"}, "candidate"),
        ("mlstm", {"heads": 0}, "heads"),
        ("s4d", {"state_size": 5}, "state_size"),
        ("scrn", {"context_units": 0}, "context_units"),
        ("slstm", {"heads": 3}, "heads"),
        ("transformer", {"heads": 8}, "heads"),
    ],
)
def test_invalid_option_raises_naming_the_key(name, options, key):
    with pytest.raises(ValueError, match=key):
        registered(name).config(width=8, **options)

"""Options of layers and the registry of mixers."""

from dataclasses import dataclass

import pytest

from decision_rnn.backbones import (
    BACKBONES,
    Backbone,
    BackboneConfig,
    SequenceMixer,
    register_backbone,
    registered,
)
from decision_rnn.utils.errors import InputError


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        ("aaren", {"heads": 3}, "heads"),
        ("gru", {"init_half_life": 0.5}, "init_half_life"),
        ("gru", {"mlp_ratio": 0.01}, "mlp_ratio"),
        ("mamba", {"expansion": 0.01}, "expansion"),
        ("retention", {"expansion": 0.25}, "expansion"),
        ("retention", {"expansion": 0.5}, "expansion"),  # one channel a head, of which the norm is zero
        ("mlstm", {"heads": 8}, "heads"),
        ("minlstm", {"scan": "log", "gate": "stretched"}, "gate"),
        ("s4d", {"state_size": 5}, "state_size"),
        ("slstm", {"heads": 8}, "heads"),
        ("transformer", {"heads": 8}, "heads"),
    ],
)
def test_invalid_option_raises_naming_the_key(name, options, key):
    with pytest.raises(ValueError, match=key):
        registered(name).config(width=8, **options)


@dataclass(frozen=True, kw_only=True)
class AverageConfig(BackboneConfig):
    name: str = "average"


class Average(SequenceMixer):
    """Never created."""


@pytest.mark.usefixtures("registries")
def test_registered_names_are_sorted_and_include_new_mixer():
    names = (
        "aaren conv gru h3 hgrn lru lstm mamba mingru minlstm mlp mlstm retention rnn rwkv s4d scrn slstm transformer"
    )
    assert BACKBONES.names() == names.split()
    assert register_backbone(AverageConfig)(Average) is Average
    assert BACKBONES.names() == sorted([*names.split(), "average"])
    assert registered("average") == (AverageConfig, Average)


def test_unknown_backbone_name_raises_listing_known_names():
    with pytest.raises(InputError) as error:
        Backbone(BackboneConfig(name="mimgru"))
    for name in ("mimgru", *BACKBONES.names()):
        assert name in str(error.value)


@pytest.mark.usefixtures("registries")
def test_register_refuses_a_name_that_is_taken_or_missing():
    before = registered("mingru")
    with pytest.raises(ValueError, match=r"'mingru'.*decision_rnn\.backbones\..*Average"):
        register_backbone(before.config)(Average)
    with pytest.raises(ValueError, match="BackboneConfig"):
        register_backbone(BackboneConfig)
    assert registered("mingru") is before

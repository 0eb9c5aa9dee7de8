"""The registry of mixers, and the contract on a mixer from outside the package."""

from dataclasses import dataclass

import pytest

from decision_rnn.backbones import (
    Backbone,
    BackboneConfig,
    SequenceMixer,
    register_backbone,
    registered,
    registered_names,
)
from decision_rnn.utils.errors import InputError

pytestmark = pytest.mark.usefixtures("registries")


@dataclass(frozen=True, kw_only=True)
class AverageConfig(BackboneConfig):
    name: str = "average"
    rounded: bool = False


class Average(SequenceMixer):
    """Never created."""


def test_registered_names_are_sorted_and_include_new_mixer():
    names = set(registered_names())
    assert {"gru", "lru", "lstm", "mingru", "minlstm", "rnn", "transformer"} <= names
    assert {"aaren", "conv", "mamba", "mlp", "mlstm", "retention", "s4d"} <= names
    assert {"h3", "hgrn", "rwkv", "scrn", "slstm"} <= names
    assert register_backbone(AverageConfig)(Average) is Average
    assert registered_names() == sorted(registered_names())
    assert registered("average").cls is Average
    assert registered("average").config is AverageConfig


def test_unknown_backbone_name_raises_listing_known_names():
    with pytest.raises(InputError) as error:
        registered("mimgru")
    for name in ("mimgru", *registered_names()):
        assert name in str(error.value)
    with pytest.raises(InputError, match="mimgru"):
        Backbone(BackboneConfig(name="mimgru"))


def test_register_with_taken_name_raises():
    before = registered("mingru")

    @dataclass(frozen=True, kw_only=True)
    class OtherConfig(BackboneConfig):
        name: str = "mingru"

    with pytest.raises(ValueError, match=r"OtherConfig.*mingru"):
        register_backbone(OtherConfig)(Average)
    assert registered("mingru") is before


def test_register_config_without_default_name_raises():
    @dataclass(frozen=True, kw_only=True)
    class NamelessConfig(BackboneConfig):
        pass

    with pytest.raises(ValueError, match="NamelessConfig"):
        register_backbone(NamelessConfig)

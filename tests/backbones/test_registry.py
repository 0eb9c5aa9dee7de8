"""The registry of mixers, and the contract on a mixer from outside the package."""

from dataclasses import dataclass

import pytest
import torch
from subjects import Subject
from torch import nn

from decision_rnn.backbones import (
    Backbone,
    BackboneConfig,
    SequenceMixer,
    register,
    registered,
    registered_names,
    reset_rows,
)
from decision_rnn.testing import properties
from decision_rnn.utils.errors import InputError

pytestmark = pytest.mark.usefixtures("registries")


@dataclass(frozen=True, kw_only=True)
class AverageConfig(BackboneConfig):
    name: str = "average"
    rounded: bool = False


class Average(SequenceMixer):
    """h_t = sigmoid(a) * h_{t-1} + x_t, y = h; `rounded` rounds h to bfloat16 in every mode."""

    def __init__(self, config):
        super().__init__()
        self.rounded = config.rounded
        self.a = nn.Parameter(torch.zeros(config.width))

    def initial_state(self, batch_size):
        return (self.a.new_zeros(batch_size, len(self.a)),)

    def forward(self, x, state=None, reset=None):
        state, outputs = self.initial_state(len(x)) if state is None else state, []
        for t in range(x.shape[1]):
            if reset is not None:
                state = reset_rows(state, self.initial_state(len(x)), reset[:, t])
            y, state = self.step(x[:, t], state)
            outputs.append(y)
        return torch.stack(outputs, dim=1), state

    def step(self, x, state):
        h = torch.sigmoid(self.a) * state[0] + x
        h = h.bfloat16().to(h.dtype) if self.rounded else h
        return h, (h,)


def average_reference(config, parameters, x, state, reset):
    decay, h, outputs = 1 / (1 + torch.exp(-parameters["a"])), list(state[0]), []
    for t in range(x.shape[1]):
        h = [x[row, t] + (0 if reset[row, t] else decay * h[row]) for row in range(len(x))]
        outputs.append(torch.stack(h))
    return torch.stack(outputs, dim=1), (torch.stack(h),)


@pytest.mark.parametrize(
    ("check", "layers"),
    [
        pytest.param(
            check,
            layers,
            marks=[pytest.mark.slow] if layers and check is properties.long_sequences else [],
            id=f"{check.__name__}-{layers}",
        )
        for check in properties.PROPERTIES
        for layers in (None, 2)
    ],
)
def test_mixer_from_outside_the_package_keeps_the_contract(check, layers):
    register(AverageConfig)(Average)
    check(Subject("average", layers=layers, reference=average_reference))


def test_contract_compares_with_the_equations_if_there_are_any():
    register(AverageConfig)(Average)
    with pytest.raises(AssertionError, match="Greatest absolute difference"):
        properties.modes_agree(Subject("average", {"rounded": True}, reference=average_reference))


def test_registered_names_are_sorted_and_include_new_mixer():
    names = set(registered_names())
    assert {"gru", "lru", "lstm", "mingru", "minlstm", "rnn", "transformer"} <= names
    assert {"aaren", "conv", "mamba", "mlp", "mlstm", "retention", "s4d"} <= names
    assert {"h3", "hgrn", "rwkv", "scrn", "slstm"} <= names
    assert register(AverageConfig)(Average) is Average
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
        register(OtherConfig)(Average)
    assert registered("mingru") is before


def test_register_config_without_default_name_raises():
    @dataclass(frozen=True, kw_only=True)
    class NamelessConfig(BackboneConfig):
        pass

    with pytest.raises(ValueError, match="NamelessConfig"):
        register(NamelessConfig)

"""The registry of mixers, and the law on a mixer from outside the package, with and without faults."""

from dataclasses import dataclass

import pytest
import torch
from subjects import Subject
from torch import nn

from decision_rnn.backbones import (
    Backbone,
    BackboneConfig,
    SequenceMixer,
    contract,
    register,
    registered,
    registered_names,
)
from decision_rnn.testing import law
from decision_rnn.testing.cases import Cases


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """A copy of the registry for each test."""
    monkeypatch.setattr(contract.BACKBONES, "entries", dict(contract.BACKBONES.entries))


@dataclass(frozen=True, kw_only=True)
class AverageConfig(BackboneConfig):
    """Exponential moving average; `fault` breaks it in one way."""

    name: str = "average"
    fault: str = ""


class Average(SequenceMixer):
    """h_t = sigmoid(a) * h_{t-1} + x_t, y = h."""

    def __init__(self, config):
        super().__init__()
        self.fault = config.fault
        self.a = nn.Parameter(torch.zeros(config.width))
        self.scale = torch.rand(()) if self.fault == "hides a weight" else 1

    def initial_state(self, batch_size):
        return (self.a.new_zeros(batch_size, len(self.a)),)

    def forward(self, x, state=None, reset=None):
        outputs = []
        if state is None or self.fault == "starts anew":
            state = self.initial_state(len(x))
        if self.fault == "writes into x":
            x.data[:, -1] += 1
        for t in range(x.shape[1]):
            if reset is not None and reset.mask[:, t].any() and self.fault != "ignores resets":
                state = contract.reset_rows(state, self.initial_state(len(x)), reset.mask[:, t])
            if self.fault == "drops the gradient of the state":
                state = tuple(part.detach() for part in state)
            y, state = self.step(x[:, t], state)
            outputs.append(y)
        y = torch.stack(outputs, dim=1)
        if self.fault == "divides by products":
            products = torch.sigmoid(self.a) ** torch.arange(1, x.shape[1] + 1)[:, None]
            y = products * (x / products).cumsum(1)
        if self.fault == "sees the future":
            y = y + 1e-9 * y[:, -1:]
        if self.fault == "mixes rows":
            y = y + 1e-9 * y.mean(0)
        if self.fault == "keeps everything":
            state = (*state, y)
        return y, state

    def step(self, x, state):
        h = torch.sigmoid(self.a) * state[0] + self.scale * x
        if self.fault == "rounds the state":
            h = h.bfloat16().to(h.dtype)
        if self.fault == "keeps a half-precision state" and torch.is_autocast_enabled("cpu"):
            h = h.bfloat16()
        return h, (h,)


def average_reference(config, parameters, x, state, reset):
    decay, h, outputs = 1 / (1 + torch.exp(-parameters["a"])), list(state[0]), []
    for t in range(x.shape[1]):
        h = [x[row, t] + (0 if reset[row, t] else decay * h[row]) for row in range(len(x))]
        outputs.append(torch.stack(h))
    return torch.stack(outputs, dim=1), (torch.stack(h),)


def average(fault="", layers=None):
    return Subject("average", {"fault": fault} if fault else {}, layers, reference=average_reference)


@pytest.mark.parametrize("layers", [None, 2])
@pytest.mark.parametrize("check", law.LAWS, ids=lambda check: check.__name__)
def test_mixer_from_outside_the_package_obeys_the_law(check, layers):
    register(AverageConfig)(Average)
    check(average(layers=layers), Cases.full())


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("ignores resets", law.all_modes_agree),
        ("ignores resets", law.nothing_crosses_a_reset),
        ("drops the gradient of the state", law.gradients_agree),
        ("sees the future", law.causal),
        ("mixes rows", law.rows_are_independent),
        ("keeps everything", law.state_keeps_its_form),
        ("rounds the state", law.all_modes_agree),
        ("keeps a half-precision state", law.half_precision),
        ("starts anew", law.absent_means_initial),
        ("starts anew", law.one_step_is_step),
        ("hides a weight", law.weights_are_all),
        ("divides by products", law.ten_thousand_steps),
        ("writes into x", law.arguments_stay),
    ],
)
def test_law_catches_faulty_mixer(fault, check):
    register(AverageConfig)(Average)
    with pytest.raises((AssertionError, ValueError)):
        check(average(fault), Cases.full())


def test_registered_names_are_sorted_and_include_new_mixer():
    names = set(registered_names())
    assert {"gru", "lru", "lstm", "mingru", "minlstm", "rnn", "transformer"} <= names
    assert {"aaren", "conv", "mamba", "mlp", "mlstm", "retention", "s4d"} <= names
    assert register(AverageConfig)(Average) is Average
    assert registered_names() == sorted(registered_names())
    assert registered("average").cls is Average
    assert registered("average").config is AverageConfig


def test_unknown_backbone_name_raises_listing_known_names():
    with pytest.raises(KeyError) as error:
        registered("mimgru")
    for name in ("mimgru", *registered_names()):
        assert name in str(error.value)
    with pytest.raises(KeyError, match="mimgru"):
        Backbone(BackboneConfig(name="mimgru"))


def test_register_with_taken_name_raises():
    before = registered("mingru")

    @dataclass(frozen=True, kw_only=True)
    class OtherConfig(BackboneConfig):
        name: str = "mingru"

    with pytest.raises(ValueError, match=r"'mingru' is taken by decision_rnn\.backbones\.mingru\.MinGRU"):
        register(OtherConfig)(Average)
    assert registered("mingru") is before


def test_register_config_without_default_name_or_with_dotted_name_raises():
    @dataclass(frozen=True, kw_only=True)
    class NamelessConfig(BackboneConfig):
        pass

    @dataclass(frozen=True, kw_only=True)
    class DottedConfig(BackboneConfig):
        name: str = "my.average"

    with pytest.raises(ValueError, match="NamelessConfig must give its field `name` a default"):
        register(NamelessConfig)
    with pytest.raises(ValueError, match=r"'my\.average' contains a dot"):
        register(DottedConfig)

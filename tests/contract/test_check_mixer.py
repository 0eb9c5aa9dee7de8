"""`check_mixer` and the other properties: a layer of the user's own keeps the contract; layers broken on purpose fail
the property that they violate."""

from dataclasses import dataclass

import properties
import pytest
import references
import torch
from subjects import WIDTH, Subject
from torch import nn

from decision_rnn.backbones import BackboneConfig, SequenceMixer, register_backbone, reset_rows
from decision_rnn.backbones.testing import MixerCase, add_noise, check_mixer, modes_agree


class Average(SequenceMixer):
    """h_t = sigmoid(a) * h_{t-1} + x_t, y = h; `fault` breaks it in one way."""

    def __init__(self, fault=""):
        super().__init__()
        self.fault = fault
        self.a = nn.Parameter(torch.zeros(WIDTH))
        self.norm = nn.BatchNorm1d(WIDTH, affine=False)
        self.memory = None
        self.scale = torch.rand(()) if fault == "hides a weight" else 1

    def initial_state(self, batch_size):
        zeros = self.a.new_zeros(batch_size, WIDTH)
        return {
            "complex state": (zeros + 0j,),
            "batch second": (zeros.T,),
            "a list": [zeros],
            "nested": ((zeros, zeros),),
        }.get(self.fault, (zeros,))

    def forward(self, x, state=None, reset=None):
        fault, initial = self.fault, self.initial_state(len(x))
        if state is None or fault == "starts anew":
            state = initial
        if fault == "keeps its state" and self.memory is not None and len(self.memory) == len(x):
            state = (self.memory,)
        if reset is not None:
            reset = {
                "resets a step late": torch.cat([torch.zeros_like(reset[:, :1]), reset[:, :-1]], dim=1),
                "resets a step early": torch.cat([reset[:, 1:], torch.zeros_like(reset[:, :1])], dim=1),
                "resets all rows": reset.any(0, keepdim=True).expand_as(reset),
            }.get(fault, reset)
        outputs = []
        for t in range(x.shape[1]):
            forgotten = f"forgets resets every {t and t & -t} steps"  # at a multiple of a power of two
            if reset is not None and fault == "keeps a thousandth":
                state = (torch.where(reset[:, t, None], 1e-3 * state[0], state[0]),)
            elif reset is not None and fault not in ("forgets resets", forgotten):
                state = reset_rows(state, initial, reset[:, t])
            if fault == "drops the gradient of the state":
                state = (state[0].detach(),)
            _, state = self.step(x[:, t], state)
            outputs.append(state[0])
        y = torch.stack(outputs, dim=1)
        if fault == "keeps its state":
            self.memory = state[0].detach()
        if fault == "sees the future":
            y = y + 1e-9 * y[:, -1:]
        if fault == "mixes rows":
            y = y + 1e-9 * y.mean(0)
        if fault == "norms over the batch in training":
            y = self.norm(y.transpose(1, 2)).transpose(1, 2)
        if fault == "the state of the step before":
            state = (outputs[-2] if len(outputs) > 1 else outputs[-1],)
        if fault == "keeps everything":
            state = (*state, y)
        if fault == "writes into x":
            x.data[:, -1] += 1
        if fault == "divides by products":
            products = torch.sigmoid(self.a) ** torch.arange(1, x.shape[1] + 1)[:, None]
            y = products * (x / products).cumsum(1)
        return y, state

    def step(self, x, state):
        decay = torch.sigmoid(self.a)
        if self.fault == "complex step":
            decay = (decay + 0j).real
        h = decay * state[0] + self.scale * x
        if self.fault == "keeps a half-precision state" and torch.is_autocast_enabled("cpu"):
            h = h.bfloat16()
        if self.fault == "rounds":
            h = h.bfloat16().to(h.dtype)
        return (2 * h if self.fault == "step doubles" else h), (h,)

    def recurrent_parameters(self):
        return {"names a parameter twice": [self.a, self.a], "names no parameter": [1]}.get(self.fault, [self.a])


FAULTS = {
    "complex state": "state_form",
    "batch second": "state_form",
    "a list": "state_form",
    "nested": "state_form",
    "keeps everything": "state_form",
    "forgets resets": "modes_agree",
    "resets a step late": "modes_agree",
    "resets a step early": "modes_agree",
    "resets all rows": "modes_agree",
    "the state of the step before": "modes_agree",
    "starts anew": "modes_agree",
    "step doubles": "modes_agree",
    "drops the gradient of the state": "gradients_agree",
    "sees the future": "causal",
    "keeps a thousandth": "resets_isolate",
    "forgets resets every 128 steps": "dense_resets",
    "forgets resets every 512 steps": "dense_resets",
    "keeps a half-precision state": "bfloat16",
}
OTHER_FAULTS = {
    "mixes rows": properties.rows_are_independent,
    "keeps its state": properties.calls_are_pure,
    "writes into x": properties.calls_are_pure,
    "norms over the batch in training": properties.train_equals_eval,
    "hides a weight": properties.state_dict_is_complete,
    "names a parameter twice": properties.state_dict_is_complete,
    "names no parameter": properties.state_dict_is_complete,
    "complex step": properties.step_is_real,
    "divides by products": properties.long_sequences,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_mixer_finds_fault(fault):
    failures = check_mixer(lambda: Average(fault), width=WIDTH, raise_error=False)
    assert FAULTS[fault] in failures


@pytest.mark.parametrize(("fault", "check"), OTHER_FAULTS.items())
def test_other_properties_find_fault(fault, check):
    def case(fault):
        return MixerCase(make=lambda: add_noise(Average(fault)), width=WIDTH, tolerances={torch.float64: 1e-12})

    with pytest.raises(AssertionError):
        check(case(fault))
    check(case(""))


def test_check_mixer_raises_assertion_error_naming_the_property():
    with pytest.raises(AssertionError, match="causal"):
        check_mixer(lambda: Average("sees the future"), width=WIDTH)


def test_check_mixer_reports_exception_of_the_layer():
    class Raises(Average):
        def step(self, x, state):
            raise RuntimeError("no steps\nhere")

    failures = check_mixer(Raises, width=WIDTH, raise_error=False)
    assert list(failures) == ["state_form"]
    assert "RuntimeError: no steps here" in failures["state_form"]


def test_check_mixer_passes_an_instance_and_leaves_it_unchanged():
    module = Average()
    before = {name: part.clone() for name, part in module.state_dict().items()}
    assert check_mixer(module, width=WIDTH) == {}
    for name, part in module.state_dict().items():
        assert torch.equal(part, before[name])
        assert part.dtype == before[name].dtype


def test_check_mixer_passes_one_channel_and_draws_nothing():
    before = torch.get_rng_state()
    assert check_mixer("mingru", width=1) == {}
    assert torch.equal(torch.get_rng_state(), before)


@dataclass(frozen=True, kw_only=True)
class ConfiguredConfig(BackboneConfig):
    name: str = "configured"
    fault: str = ""


class Configured(Average):
    def __init__(self, config):
        assert config.width == WIDTH
        super().__init__(getattr(config, "fault", ""))


@pytest.mark.usefixtures("registries")
def test_check_mixer_builds_name_or_class_from_config():
    assert not check_mixer(Configured, width=WIDTH)
    register_backbone(ConfiguredConfig)(Configured)
    assert not check_mixer("configured", width=WIDTH)
    broken = ConfiguredConfig(width=WIDTH, fault="step doubles")
    assert "modes_agree" in check_mixer(Configured, broken, raise_error=False)


def configured_reference(config, parameters, x, state, reset):
    h = references.linear_recurrence(references.sigmoid(parameters["a"]), x, state[0], reset)
    return h, (h[:, -1],)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("layers", [None, 2])
@pytest.mark.parametrize("check", [check for check in properties.PROPERTIES if check is not properties.long_sequences])
def test_mixer_from_outside_the_package_keeps_contract(check, layers):
    register_backbone(ConfiguredConfig)(Configured)
    check(Subject("configured", layers=layers, reference=configured_reference))


@pytest.mark.usefixtures("registries")
def test_contract_compares_with_the_equations():
    """Where all modes of a layer agree, but on other numbers."""
    register_backbone(ConfiguredConfig)(Configured)
    with pytest.raises(AssertionError, match="forward"):
        modes_agree(Subject("configured", {"fault": "rounds"}, reference=configured_reference))

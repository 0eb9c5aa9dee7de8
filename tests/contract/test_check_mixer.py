"""`check_mixer` and `decision-rnn check`: layers broken on purpose fail the property that they violate."""

from dataclasses import dataclass

import pytest
import torch
from guide import example
from torch import nn

from decision_rnn.backbones import BackboneConfig, SequenceMixer, register, reset_rows
from decision_rnn.backbones.mingru import MinGRU
from decision_rnn.testing import check_mixer
from decision_rnn.testing.properties import PROPERTIES
from decision_rnn.utils.errors import InputError

pytestmark = pytest.mark.usefixtures("registries")

WIDTH = 4


class Average(SequenceMixer):
    """h_t = sigmoid(a) * h_{t-1} + x_t, y = h; `fault` breaks it in one way."""

    def __init__(self, fault=""):
        super().__init__()
        self.fault = fault
        self.a = nn.Parameter(torch.zeros(WIDTH))
        self.norm = nn.BatchNorm1d(WIDTH, affine=False)
        self.kept = None
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
        if state is None or self.fault == "starts anew":
            state = self.initial_state(len(x))
        if self.fault == "keeps its state" and self.kept is not None and len(self.kept) == len(x):
            state = (self.kept,)
        outputs = []
        for t in range(x.shape[1]):
            if reset is not None and self.fault == "multiplies by zero":
                state = (state[0] * ~reset[:, t, None],)
            elif reset is not None and self.fault == f"forgets resets every {t and t & -t} steps":
                pass  # at a multiple of a power of two
            elif reset is not None and self.fault != "forgets resets":
                state = reset_rows(state, self.initial_state(len(x)), reset[:, t])
            if self.fault == "drops the gradient of the state":
                state = (state[0].detach(),)
            h = torch.sigmoid(self.a) * state[0] + self.scale * x[:, t]
            outputs.append(h)
            state = (h,)
        y = torch.stack(outputs, dim=1)
        if self.fault == "keeps its state":
            self.kept = state[0].detach()
        if self.fault == "sees the future":
            y = y + 1e-9 * y[:, -1:]
        if self.fault == "mixes rows":
            y = y + 1e-9 * y.mean(0)
        if self.fault == "norms over the batch in training":
            y = self.norm(y.transpose(1, 2)).transpose(1, 2)
        if self.fault == "the state of the step before":
            state = (outputs[-2] if len(outputs) > 1 else outputs[-1],)
        if self.fault == "keeps everything":
            state = (*state, y)
        if self.fault == "writes into x":
            x.data[:, -1] += 1
        if self.fault == "divides by products":
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
        return (2 * h if self.fault == "step doubles" else h), (h,)

    def recurrent_parameters(self):
        return {"names a parameter twice": [self.a, self.a], "names no parameter": [1]}.get(self.fault, [self.a])


def report_of(make, *names, **options):
    """The report on these properties only; on all if none are given."""
    skip = {check.__name__: "not asked for" for check in PROPERTIES if names and check.__name__ not in names}
    return check_mixer(make, width=WIDTH, skip=skip, raise_error=False, **options)


FAULTS = [
    ("complex state", "state_form", "it must be real"),
    ("batch second", "state_form", "the batch first"),
    ("a list", "state_form", "the initial state is a list of ['Tensor']: it must be a flat tuple of tensors"),
    ("nested", "state_form", "the initial state is a tuple of ['tuple']: it must be a flat tuple of tensors"),
    ("keeps everything", "state_form", "the initial state [(torch.float64, (3, 4))]"),
    ("forgets resets", "modes_agree", "resets first and last, no state, output: Mismatched elements"),
    ("the state of the step before", "modes_agree", "no state, state part 0"),
    ("starts anew", "modes_agree", "torch.float64, resets left out, no state, output"),
    ("step doubles", "modes_agree", "Greatest absolute difference: "),
    ("drops the gradient of the state", "gradients_agree", "forward, torch.float64, resets left out, gradient of a"),
    ("sees the future", "causal", "gradient of outputs before step 5 in x from it on"),
    ("forgets resets", "resets_isolate", "gradient of"),
    ("multiplies by zero", "resets_isolate", "is inf"),
    ("mixes rows", "rows_are_independent", "row 0 alone"),
    ("keeps its state", "calls_are_pure", "after other calls"),
    ("writes into x", "calls_are_pure", "x, after calls"),
    ("norms over the batch in training", "train_equals_eval", "forward after train()"),
    ("hides a weight", "state_dict_is_complete", "the state dict in a new module"),
    ("names a parameter twice", "state_dict_is_complete", "recurrent_parameters yields a parameter twice"),
    ("names no parameter", "state_dict_is_complete", "something that is not a parameter of the module"),
    ("complex step", "step_is_real", "first in aten."),
    ("forgets resets every 128 steps", "dense_resets", "forward over 600 steps, output"),
    ("forgets resets every 512 steps", "dense_resets", "forward over 600 steps, output"),
    ("divides by products", "long_sequences", "is not finite"),
    ("keeps a half-precision state", "bfloat16", "it must stay torch.float32"),
]


@pytest.mark.parametrize(("fault", "name", "message"), FAULTS)
def test_check_mixer_reports_the_failed_property_and_what_differs(fault, name, message):
    failed = report_of(lambda: Average(fault), name).failed
    assert list(failed) == [name]
    assert message in failed[name]
    assert "\n" not in failed[name]


def test_check_mixer_passes_mixer_without_fault():
    report = report_of(lambda: Average())
    assert (report.failed, report.skipped) == ({}, {})


def test_check_mixer_raises_an_assertion_error_with_the_report():
    skip = {check.__name__: "not asked for" for check in PROPERTIES if check.__name__ not in ("state_form", "causal")}
    with pytest.raises(AssertionError, match="fails 1 of 13 properties: 1 passed, 11 skipped") as caught:
        check_mixer(lambda: Average("sees the future"), width=WIDTH, skip=skip)
    text = str(caught.value)
    assert "failed   causal: x at step t changes the outputs from t on and none before" in text
    assert "passed   state_form" in text
    assert "skipped  bfloat16" in text
    assert "not asked for" in text


def test_check_mixer_reports_exception_of_the_layer_and_skips_the_rest_if_the_state_form_fails():
    class Raises(Average):
        def step(self, x, state):
            raise RuntimeError("no steps\nhere")

    report = report_of(lambda: Raises())
    assert report.failed == {"state_form": "raises RuntimeError: no steps here"}
    assert set(report.skipped.values()) == {"state_form fails"}
    assert len(report.skipped) == len(PROPERTIES) - 1


def test_check_mixer_accepts_an_instance_and_leaves_it_unchanged():
    module = Average()
    before = {name: part.clone() for name, part in module.state_dict().items()}
    report = report_of(module, "modes_agree", "state_dict_is_complete")
    assert not report.failed
    assert "no second one can be made" in report.skipped["state_dict_is_complete"]
    for name, part in module.state_dict().items():
        assert torch.equal(part, before[name])
        assert part.dtype == before[name].dtype


@dataclass(frozen=True, kw_only=True)
class ConfiguredConfig(BackboneConfig):
    name: str = "configured"
    fault: str = ""


class Configured(Average):
    def __init__(self, config):
        assert config.width == WIDTH
        super().__init__(getattr(config, "fault", ""))


def test_check_mixer_builds_class_from_config_registered_or_not():
    assert not report_of(Configured, "modes_agree").failed
    register(ConfiguredConfig)(Configured)
    assert not report_of(Configured, "modes_agree").failed
    assert report_of(Configured, "modes_agree", config=ConfiguredConfig(width=WIDTH, fault="step doubles")).failed


@pytest.mark.parametrize(
    ("mixer", "options", "message"),
    [
        (nn.GRU, {}, "GRU has no initial_state, step, recurrent_parameters: wrap it in a SequenceMixer"),
        (Average(), {}, "width is missing"),
        (3, {"width": 4}, "int cannot be made"),
        (lambda: nn.Linear(4, 4), {"width": 4}, "has no initial_state, step"),
        (lambda: 1 / 0, {"width": 4}, r"cannot be made \(division by zero\)"),
        (MinGRU, {"skip": {"causl": "?"}}, "unknown property 'causl'; did you mean causal?"),
    ],
)
def test_check_mixer_with_invalid_arguments_raises_input_error(mixer, options, message):
    with pytest.raises(InputError, match=message):
        check_mixer(mixer, **options)


# The command line


def test_cli_check_of_registered_name_passes(inline_cli):
    done = inline_cli("check", "mingru", "--width", "4")
    assert done.returncode == 0, done.stderr
    assert "MinGRU keeps the contract: 13 passed" in done.stdout


@pytest.mark.slow
def test_cli_check_of_tutorial_mixer_in_working_folder_passes(inline_cli, tmp_path):
    (tmp_path / "layers_of_the_guide.py").write_text(example("layers.py"))
    done = inline_cli("check", "layers_of_the_guide.Average")
    assert done.returncode == 0, done.stdout + done.stderr


BROKEN = """
from decision_rnn.backbones.mingru import MinGRU


class Broken(MinGRU):
    def initial_state(self, batch_size):
        return list(super().initial_state(batch_size))


number = 3
"""


def test_cli_check_exits_1_for_broken_class_and_2_for_bad_input(inline_cli, tmp_path):
    (tmp_path / "layers_that_break.py").write_text(BROKEN)
    done = inline_cli("check", "layers_that_break.Broken")
    assert done.returncode == 1
    assert "Broken fails 1 of 13 properties" in done.stdout
    assert "the initial state is a list of ['Tensor']: it must be a flat tuple of tensors" in done.stdout
    for arguments, message in [
        (["layers_that_break.Absent"], "the module layers_that_break has no class 'Absent'"),
        (["layers_that_break.number"], "the module layers_that_break has no class 'number'"),
        (["no_such_module.Mine"], "the module 'no_such_module' cannot be imported"),
        (["mimgru"], "unknown backbone 'mimgru'"),
        (["mingru", "--width", "0"], "width is '0'"),
        (["torch.nn.GRU"], "GRU has no initial_state"),
        ([], "mixer"),
    ]:
        done = inline_cli("check", *arguments)
        assert done.returncode == 2, (arguments, done.stdout)
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1

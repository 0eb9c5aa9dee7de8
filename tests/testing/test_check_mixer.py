"""`check_mixer` and `decision-rnn check`: layers broken on purpose are caught by the clause that they break."""

from dataclasses import dataclass

import pytest
import torch
from guide import example
from torch import nn

from decision_rnn.backbones import BackboneConfig, SequenceMixer, contract, register, reset_rows
from decision_rnn.backbones.mingru import MinGRU
from decision_rnn.errors import InputError
from decision_rnn.testing import LawBrokenError, check_mixer
from decision_rnn.testing.law import LAWS

WIDTH = 4


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """A copy of the registry for each test."""
    monkeypatch.setattr(contract.BACKBONES, "entries", dict(contract.BACKBONES.entries))


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
                state = (state[0] * ~reset.mask[:, t, None],)
            elif reset is not None and self.fault != "forgets resets":
                state = reset_rows(state, self.initial_state(len(x)), reset.mask[:, t])
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
        if self.fault == "norms over rows":
            y = (y - y.mean(0)) / (y.var(0, correction=0) + 1).sqrt()
        if self.fault == "norms over the batch in training":
            y = self.norm(y.transpose(1, 2)).transpose(1, 2)
        if self.fault == "the state of the step before":
            state = (outputs[-2] if len(outputs) > 1 else outputs[-1],)
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
        return [self.a, self.a] if self.fault == "names a parameter twice" else [self.a]


def report_of(make, *clauses, **options):
    """The report on these clauses only; on all clauses if none are given."""
    skip = {law.__name__: "not asked for" for law in LAWS if clauses and law.__name__ not in clauses}
    return check_mixer(make, width=WIDTH, skip=skip, raise_error=False, **options)


FAULTS = [
    ("forgets resets", "nothing_crosses_a_reset", (1, 2)),
    ("forgets resets", "all_modes_agree", (1, 1)),
    ("sees the future", "causal", (1, 2)),
    ("norms over rows", "rows_are_independent", (2, 1)),
    ("norms over the batch in training", "training_changes_nothing", (2, 1)),
    ("keeps its state", "nothing_is_kept_between_calls", None),
    ("the state of the step before", "all_modes_agree", (1, 2)),
    ("drops the gradient of the state", "gradients_agree", (1, 1)),
    ("step doubles", "one_step_is_step", (1, 1)),
    ("step doubles", "all_modes_agree", (1, 1)),
    ("complex state", "state_keeps_its_form", (1, 1)),
    ("batch second", "state_keeps_its_form", (1, 1)),
    ("a list", "state_keeps_its_form", (1, 1)),
    ("nested", "state_keeps_its_form", (1, 1)),
    ("complex step", "step_is_real", (1, 1)),
    ("multiplies by zero", "infinities_stay_in_their_episode", (1, 2)),
    ("starts anew", "absent_means_initial", (1, 1)),
    ("divides by products", "ten_thousand_steps", None),
    ("keeps a half-precision state", "half_precision", (1, 1)),
    ("writes into x", "arguments_stay", (1, 1)),
    ("hides a weight", "weights_are_all", (1, 1)),
    ("names a parameter twice", "weights_are_all", (1, 1)),
]


@pytest.mark.parametrize(("fault", "clause", "smallest"), FAULTS)
def test_check_mixer_reports_the_broken_clause_and_smallest_case(fault, clause, smallest):
    report = report_of(lambda: Average(fault), clause)
    assert not report.obeys
    failure = report[clause].failure
    assert failure is not None, str(report)
    if smallest is not None:
        assert (failure.batch, failure.time) == smallest, str(report)


@pytest.mark.parametrize("clause", sorted({clause for _, clause, _ in FAULTS}))
def test_check_mixer_passes_mixer_without_fault(clause):
    report = report_of(lambda: Average(), clause)
    assert report[clause].outcome == "passed", str(report)


def test_law_broken_error_names_the_clause_smallest_case_and_values():
    skip = {law.__name__: "not asked for" for law in LAWS if law.__name__ not in ("state_keeps_its_form", "causal")}
    with pytest.raises(LawBrokenError) as caught:
        check_mixer(lambda: Average("sees the future"), width=WIDTH, skip=skip)
    text = str(caught.value)
    assert isinstance(caught.value, AssertionError)
    assert "breaks the clause causal: x at t changes the outputs from t on and none before" in text
    assert "smallest failing case: 1 row, 2 steps, parted at step 1 of 0 to 1\n" in text
    assert "expected 0, found" in text
    assert "passed     state_keeps_its_form" in text
    assert "not tried  half_precision: not asked for" in text
    assert caught.value.finding.name == "causal"


def test_check_mixer_failure_holds_expected_and_found_values():
    failure = report_of(lambda: Average("step doubles"), "one_step_is_step")["one_step_is_step"].failure
    assert 2 * failure.found == pytest.approx(failure.expected)


def test_check_mixer_reports_exception_of_the_layer_as_broken_clause():
    class Raises(Average):
        def step(self, x, state):
            raise RuntimeError("no steps\nhere")

    report = report_of(lambda: Raises(), "state_keeps_its_form")
    assert report["state_keeps_its_form"].failure.what == "raises RuntimeError: no steps here"


def test_check_mixer_skips_other_clauses_if_state_form_is_broken():
    report = report_of(lambda: Average("a list"))
    assert [finding.outcome for finding in report.findings] == ["broken"] + ["not tried"] * (len(LAWS) - 1)
    assert report["causal"].reason == "state_keeps_its_form is broken"


def test_check_mixer_accepts_an_instance_and_leaves_it_unchanged():
    module = Average()
    before = {name: part.clone() for name, part in module.state_dict().items()}
    report = report_of(module, "one_step_is_step", "weights_are_all")
    assert report.obeys
    assert report["weights_are_all"].reason == "an instance was given, and no second one can be made"
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
    clause = "one_step_is_step"
    assert report_of(Configured, clause).obeys
    register(ConfiguredConfig)(Configured)
    assert report_of(Configured, clause).obeys
    config = ConfiguredConfig(width=WIDTH, fault="step doubles")
    assert not report_of(Configured, clause, config=config).obeys


@pytest.mark.parametrize(
    ("mixer", "options", "message"),
    [
        (nn.GRU, {}, "GRU has no initial_state, step, recurrent_parameters: wrap it in a SequenceMixer"),
        (Average(), {}, "width is missing"),
        (3, {"width": 4}, "3 is no mixer"),
        (lambda: nn.Linear(4, 4), {"width": 4}, "has no initial_state, step"),
        (lambda: 1 / 0, {"width": 4}, r"cannot be made \(division by zero\)"),
        (Configured, {"width": 4, "config": BackboneConfig(name="x", width=5)}, "width is 4 and config.width 5"),
        (MinGRU, {"skip": {"causl": "?"}}, "unknown clause 'causl'; did you mean causal?"),
    ],
)
def test_check_mixer_with_invalid_arguments_raises_input_error(mixer, options, message):
    with pytest.raises(InputError, match=message):
        check_mixer(mixer, **options)


# The command line


def test_cli_check_of_registered_name_passes(inline_cli):
    done = inline_cli("check", "mingru", "--width", "4")
    assert done.returncode == 0, done.stderr
    assert "MinGRU obeys the law: 16 passed" in done.stdout


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
    assert "Broken breaks 1 of 16 clauses" in done.stdout
    assert "initial_state returns list: it must be a flat tuple" in done.stdout
    for arguments, message in [
        (["layers_that_break.Absent"], "the module layers_that_break has no class 'Absent'"),
        (["layers_that_break.number"], "the module layers_that_break has no class 'number'"),
        (["no_such_module.Mine"], "the module 'no_such_module' cannot be imported"),
        (["mimgru"], "unknown backbone 'mimgru'"),
        (["mingru", "--width", "0"], "width is 0"),
        (["torch.nn.GRU"], "GRU has no initial_state"),
        ([], "mixer"),
    ]:
        done = inline_cli("check", *arguments)
        assert done.returncode == 2, (arguments, done.stdout)
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1

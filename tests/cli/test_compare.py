"""The plan of `decision-rnn compare`: variants from options and files, controls, datasets; failed runs."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from small_comparison import Inline, pendulum_episodes, small

from decision_rnn import Backbone, write_store
from decision_rnn.agent import NoConditionConfig
from decision_rnn.backbones import count_parameters
from decision_rnn.cli.compare import make_command_plan
from decision_rnn.cli.main import main
from decision_rnn.cli.parser import command_parser
from decision_rnn.comparison.compare import make_executor
from decision_rnn.comparison.plan import Plan
from decision_rnn.utils.errors import InputError

File = Callable[[str], str]
COMPARISONS = Path(__file__).parents[2] / "configs" / "comparisons"


@pytest.fixture
def file(tmp_path: Path) -> File:
    """Writes a configuration file and returns its name."""

    def write(text: str) -> str:
        (tmp_path / "compared.yaml").write_text(text)
        return str(tmp_path / "compared.yaml")

    return write


def asked(*arguments: str) -> Plan:
    return make_command_plan(command_parser("compare").read(arguments))


def labels(plan: Plan) -> list[str]:
    return [variant.label for variant in plan.variants]


VARIANTS = """
datasets: [hopper-medium, standin/walker2d-medium]
seeds: 5
checkpoint_episodes: 7
controls: [bc, mlp]
training: {steps: 50, context: 10}
backbone: {name: transformer, match_parameters: 30k}
evaluation: {episodes: 9, window: 5}
variants:
  lru: {backbone: lru}
  wide: {backbone: {width: 48, heads: 2}, evaluation: {inference: window, window: 20}}
  long: {training: {context: 40}, condition: none, objective: mse, evaluation: {inference: window}}
"""


@pytest.mark.parametrize("path", sorted(COMPARISONS.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_comparison_configs_can_be_planned(path: Path, file: File) -> None:
    """Also from the configuration that a comparison writes."""
    plan = asked("--config", str(path))
    assert asked("--config", file(yaml.safe_dump(plan.keys, sort_keys=False))) == plan
    assert len(plan.variants) > 1
    assert f"--config configs/comparisons/{path.name} " in path.read_text().splitlines()[0]


def test_decision_transformer_has_the_published_hyperparameters() -> None:
    """Chen et al. 2021, table 8; warm-up takes a tenth of all steps, like the 10,000 of 100,000 in the paper."""
    plan = asked("--config", str(COMPARISONS / "decision-transformer.yaml"))
    first, config = plan.variants[0].config, {v.label: v.config for v in plan.variants}["decision-transformer"]
    backbone, training = config.backbone, config.training
    assert (backbone.name, backbone.width, backbone.layers, backbone.heads) == ("transformer", 128, 3, 1)
    assert (backbone.dropout, backbone.mlp_ratio, backbone.norm, backbone.convolution) == (0.1, 4, "layer", 0)
    assert (config.agent.tokens, config.agent.timestep_embedding) == ("interleaved", True)
    assert (config.condition.takes_target, config.objective.name) == (True, "mse")
    assert not config.condition.rtg_quantile
    assert not training.ema_decay
    assert (training.batch_size, training.context, config.tbptt_segments) == (64, 20, 1)
    assert (training.learning_rate, training.weight_decay, training.gradient_clip) == (1e-4, 1e-4, 0.25)
    assert (training.schedule, training.warmup_steps) == ("constant", training.steps * 10_000 / 100_000)
    assert (config.evaluation.inference, config.evaluation.window, backbone.window) == ("window", 20, 3 * 20)
    assert training.steps == first.training.steps
    assert first.evaluation.inference == "recurrent"
    assert first.agent.tokens == "step"  # controls derive from the first variant, not from the published one


def test_variants_of_a_config_file_override_its_shared_options(file: File) -> None:
    words = ["--config", file(VARIANTS), "--seed", "3", "--training.steps", "60"]
    plan = asked(*words)
    assert plan.datasets == ("standin/hopper-medium", "standin/walker2d-medium")
    assert list(plan.seeds) == [3, 4, 5, 6, 7]
    assert {variant.config.evaluation.checkpoint_episodes for variant in plan.variants} == {7}
    assert labels(plan) == ["lru", "wide", "long", "bc", "mlp"]
    lru, wide, long, cloning, mlp = (variant.config for variant in plan.variants)
    configs = lru, wide, long, cloning, mlp
    assert [each.backbone.name for each in configs] == ["lru", "transformer", "transformer", "lru", "mlp"]
    assert [each.training.context for each in configs] == [10, 10, 40, 10, 10]
    assert {each.training.steps for each in configs} == {60}  # from the command line
    states = [(each.evaluation.inference, each.evaluation.window) for each in configs]
    assert states == [("recurrent", 5), ("window", 20), ("window", 5), ("recurrent", 5), ("recurrent", 5)]
    assert {each.evaluation.episodes for each in configs} == {9}
    assert (wide.backbone.width, wide.backbone.heads) == (48, 2)
    for config in (lru, long, mlp):  # match_parameters sets each width
        assert abs(count_parameters(Backbone(config.backbone)) / 30_000 - 1) < 0.1
    assert long.objective.name == "mse"
    assert cloning == replace(lru, condition=NoConditionConfig())
    assert [variant.control for variant in plan.variants] == [False, False, False, True, True]
    assert str(plan.output) == "runs/compare-standin-hopper-medium+standin-walker2d-medium"
    assert asked("--config", file(yaml.safe_dump(plan.keys, sort_keys=False))) == plan
    over = asked(*words, "--evaluation.inference", "recurrent")  # in the variants too
    assert {variant.config.evaluation.inference for variant in over.variants} == {"recurrent"}


def test_backbones_option_or_key_adds_variants_to_those_of_a_config_file(file: File) -> None:
    text = "dataset: hopper-medium\ncontrols: none\nvariants: {deep: {backbone: {layers: 6}}}\n"
    assert labels(asked("--config", file(text))) == ["deep"]
    assert labels(asked("--config", file(text), "--backbones", "lru")) == ["deep", "lru"]
    assert labels(asked("--config", file(text + "backbones: [gru, lru]\n"))) == ["deep", "gru", "lru"]
    plan = asked("walker2d-medium", "--config", file("dataset: hopper-medium\nbackbones: gru,lru\ncontrols: none\n"))
    assert labels(plan) == ["gru", "lru"]
    assert plan.datasets == ("standin/walker2d-medium",)


def test_controls_come_last_and_only_if_not_already_compared() -> None:
    plan = asked("hopper-medium,walker2d-medium", "--backbones", "transformer,conv", "--backbone.dropout", "0.1")
    assert labels(plan) == ["transformer", "conv", "bc", "bc-10%", "bc-mlp", "mlp"]
    assert {variant.config.backbone.dropout for variant in plan.variants} == {0.1}
    assert plan.variants[3].config.top_fraction == 0.1
    options = ["--backbone.heads", "2", "--backbone.convolution", "4"]  # which the default backbone lacks
    plan = asked("hopper-medium", "--backbones", "transformer", *options, "--controls", "mlp")
    assert plan.variants[0].config.backbone.convolution == 4
    assert plan.variants[1].config.backbone.convolution == 0  # without memory
    cloned = ["hopper-medium", "--backbones", "mingru", "--condition", "none"]
    assert labels(asked(*cloned, "--controls", "bc,bc-10%")) == ["mingru", "bc-10%"]
    assert labels(asked(*cloned, "--controls", "none")) == ["mingru"]


def test_default_jobs_are_the_cores_but_at_most_the_number_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decision_rnn.comparison.compare.available_cores", lambda: 5)
    for runs, options, jobs in ((3, [], 3), (9, [], 5), (9, ["--jobs", "7"], 7)):
        plan = asked("hopper-medium", "--backbones", "mingru", "--controls", "none", *options)
        assert make_executor(plan, runs).jobs == jobs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("datset: hopper-medium", ["datset", "dataset"]),
        ("variants: {a: 3}", ["variants"]),
        ("variants: {a: {trainig: {steps: 3}}}", ["variant a", "'trainig'"]),
        ("variants: {a: {training: {stepz: 3}}}", ["variant a", "training.stepz", "training.steps"]),
        ("variants: {a: {evaluation: {seed: 3, window: 3}}}", ["variant a", "evaluation.seed"]),
        ("variants: {a: {backbone: mingur}}", ["mingur", "mingru"]),
        ("variants: {a: {backbone: {name: lru, heads: 2}}}", ["variant a", "backbone.heads"]),
        ("dataset: a\ndatasets: [b]", ["dataset", "datasets"]),
        ("controls: [cnov]", ["cnov", "conv"]),
    ],
)
def test_invalid_comparison_config_file_raises_a_one_line_input_error(file: File, text: str, words: list[str]) -> None:
    datasets = [] if "dataset" in text else ["hopper-medium"]
    with pytest.raises(InputError) as caught:
        asked(*datasets, "--config", file(text))
    assert "\n" not in str(caught.value)
    assert [word for word in words if word not in str(caught.value)] == []


def test_compare_with_a_failed_run_exits_with_code_1(
    file: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The learning rate makes the loss overflow."""
    monkeypatch.setattr("decision_rnn.comparison.compare.make_executor", lambda *_: Inline())
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    write_store("local/mine", pendulum_episodes(0), environment_id="Pendulum-v1")
    training = {"learning_rate": 1e30, "log_every": 1, "precision": "fp32"}
    keys = small(tmp_path / "runs", **{"variants": {"bad": {"training": training}, "good": {}}, "training.steps": 20})
    assert main(["compare", "--config", file(yaml.safe_dump(keys))]) == 1
    printed = capfd.readouterr()
    assert "2 runs, 0 of them done" in printed.out
    assert re.search("local-mine/bad-seed0 failed: .*learning_rate", printed.err)
    assert "Traceback" not in printed.err
    comparison = json.loads((tmp_path / "runs" / "comparison.json").read_text())
    assert [trial["variant"] for trial in comparison["trials"]] == ["good"]
    assert [failed["variant"] for failed in comparison["failed"]] == ["bad"]
    assert comparison["command"].startswith("decision-rnn compare --config ")

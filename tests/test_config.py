"""Run configurations: strict parsing, overrides and round trips."""

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from run_config import parse_run

from decision_rnn.agent import NoConditionConfig, TimeToGoalConfig
from decision_rnn.backbones import Backbone, count_parameters
from decision_rnn.cli.parser import command_parser
from decision_rnn.config import EvaluationConfig, TrainingConfig, from_dict, to_dict
from decision_rnn.evaluation.actor import evaluation_settings
from decision_rnn.runs.folder import write_config
from decision_rnn.utils.errors import InputError

CONFIGS = Path(__file__).parents[1] / "configs"


def parse(*arguments: str) -> object:
    return parse_run("decision-rnn train", arguments)[0]


def test_command_line_sets_options_of_every_config_section() -> None:
    words = "hopper-medium --backbone lru --backbone.init_half_life=90 --training.steps 7 --training.learning_rate=1e-4"
    words += " --seed 3 --agent.tokens interleaved --condition none --evaluation.target_returns [3000,10]"
    config = parse(*words.split())
    assert (config.dataset, config.seed) == ("hopper-medium", 3)
    assert (config.backbone.name, config.backbone.init_half_life) == ("lru", 90)
    assert (config.training.steps, config.training.learning_rate) == (7, 1e-4)
    assert (config.agent.tokens, config.condition.takes_target) == ("interleaved", False)
    assert config.evaluation.target_returns == (3000.0, 10.0)


@pytest.mark.parametrize(
    ("spelled", "numbers"),
    [
        ("3000", (3000.0,)),
        ("3000,2000", (3000.0, 2000.0)),
        ("[3000, 2000]", (3000.0, 2000.0)),
        ("1e3", (1000.0,)),
        ("1.5e3,auto", (1500.0, float("inf"))),
        ("-300,-200", (-300.0, -200.0)),
    ],
)
def test_target_returns_have_the_same_spellings_everywhere(
    spelled: str, numbers: tuple[float, ...], tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"dataset: hopper-medium\nevaluation: {{target_returns: [{spelled.strip('[]')}]}}\n")
    words = ["hopper-medium", "--evaluation.target_returns", spelled]
    assert parse(*words).evaluation.target_returns == numbers
    assert parse("--config", str(file)).evaluation.target_returns == numbers
    assert command_parser("evaluate").read(["run", "--target-returns", spelled]).settings["target_returns"] == numbers
    assert evaluation_settings(EvaluationConfig(), target_returns=spelled).target_returns == numbers
    if len(numbers) == 1:
        assert command_parser("play").read(["run", "--target_return", spelled]).target_return == numbers[0]


def test_every_configuration_survives_replace() -> None:
    training = TrainingConfig()
    assert replace(training, steps=100).warmup == 25
    assert replace(training, optimizer="muon").peak_learning_rate == 4e-3
    assert replace(training, learning_rate=0.1).peak_learning_rate == 0.1
    config = from_dict({"dataset": "x"})
    longer = replace(
        config, training=replace(config.training, context=60), backbone=replace(config.backbone, init_half_life=60)
    )
    assert longer.tbptt_segments == 50
    assert replace(longer, training=replace(longer.training, context=61)).tbptt_segments == 1
    hindsight = from_dict({"dataset": "x", "training.goal_relabeling": "hindsight"})
    assert (hindsight.goal_discount, hindsight.condition) == (0.99, TimeToGoalConfig())
    assert replace(hindsight, condition=NoConditionConfig()).goal_discount == 1
    for section in (training, config, config.agent, config.backbone, config.condition, config.evaluation):
        assert replace(section) == section
        with pytest.raises(FrozenInstanceError):
            section.name = "other"  # type: ignore[union-attr]


def test_construction_and_replace_validate() -> None:
    with pytest.raises(ValidationError, match="steps"):
        TrainingConfig(steps=0)
    with pytest.raises(ValidationError, match="warmup_steps"):
        replace(TrainingConfig(), steps=100, warmup_steps=101)


def test_saved_configuration_keeps_what_was_left_open() -> None:
    saved = to_dict(from_dict({"dataset": "x", "training": {"optimizer": "muon"}}))
    assert saved["training"]["learning_rate"] is saved["training"]["warmup_steps"] is None
    assert from_dict(saved) == from_dict({"dataset": "x", "training": {"optimizer": "muon"}})


def test_command_line_overrides_config_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    backbone, training = "{name: lru, init_half_life: 80}", "{steps: 5, context: 7}"
    file.write_text(f"dataset: hopper-medium\nbackbone: {backbone}\ntraining: {training}\n")
    config = parse("--config", str(file), "--training.steps", "6")
    assert (config.backbone.name, config.backbone.init_half_life) == ("lru", 80)
    assert (config.training.steps, config.training.context) == (6, 7)
    file.write_text("dataset: d4rl/hopper-medium-v2\npath: here.hdf5\nbackbone: minlstm\n")
    config = parse("--config", str(file))
    assert (config.backbone.name, config.path) == ("minlstm", "here.hdf5")
    assert parse("--config", str(file), "--path", "there.hdf5").path == "there.hdf5"


@pytest.mark.parametrize(
    ("words", "segments"),
    [
        ("--backbone gru --backbone.init_half_life 21", 50),
        ("--backbone gru --backbone.init_half_life 19", 1),
        ("--backbone gru --backbone.init_half_life 20 --training.context 21", 1),
        ("--backbone aaren", 50),
        ("--backbone gru --agent.tokens interleaved --agent.previous_action true --backbone.init_half_life 59", 1),
        ("--backbone gru --agent.tokens interleaved --agent.previous_action true --backbone.init_half_life 60", 50),
        ("--backbone transformer", 1),
        ("--backbone mlp", 1),
        ("--backbone lru --backbone.init_half_life 100 --training.tbptt_segments 1", 1),
        ("--backbone lru --backbone.init_half_life 1 --training.tbptt_segments 7", 7),
    ],
)
def test_state_is_carried_by_default_if_it_outlasts_a_segment(words: str, segments: int) -> None:
    assert parse("hopper-medium", *words.split()).tbptt_segments == segments


HINDSIGHT = "--training.goal_relabeling hindsight"


@pytest.mark.parametrize(
    ("words", "objective", "optimizer", "rate", "discount"),
    [
        (HINDSIGHT, "gmm", "muon", 4e-3, 0.99),
        (f"{HINDSIGHT} --objective mse --training.goal_discount 1", "mse", "muon", 4e-3, 1),
        (f"{HINDSIGHT} --objective.num_components 3 --training.optimizer adamw", "gmm", "adamw", 1e-3, 0.99),
        (f"{HINDSIGHT} --condition none", "mse", "adamw", 1e-3, 1),
        (f"{HINDSIGHT} --condition none --training.goal_discount 0.9", "mse", "adamw", 1e-3, 0.9),
        ("", "mse", "adamw", 1e-3, 1),
    ],
)
def test_defaults_are_others_where_agents_are_conditioned_on_time(
    words: str, objective: str, optimizer: str, rate: float, discount: float
) -> None:
    config = parse("local/reach", *words.split())
    training = config.training
    assert (config.objective.name, config.goal_discount) == (objective, discount)
    assert (training.optimizer, training.peak_learning_rate) == (optimizer, rate)
    assert from_dict(to_dict(config), "again") == config  # as a run's own file is read


@pytest.mark.parametrize("task", ["hopper", "halfcheetah", "walker2d"])
def test_decision_transformer_configs_are_the_papers(task: str) -> None:
    """Chen et al. 2021, table 8; batch 64, 100k steps and targets as in their code."""
    config = parse("--config", str(CONFIGS / f"decision-transformer/{task}.yaml"))
    training, backbone, evaluation = config.training, config.backbone, config.evaluation
    targets = {"hopper": (3600, 1800), "halfcheetah": (12000, 6000), "walker2d": (5000, 2500)}
    assert (config.dataset, evaluation.target_returns) == (f"d4rl/{task}-medium-v2", targets[task])
    assert (training.steps, training.batch_size, training.context) == (100_000, 64, 20)
    assert (training.learning_rate, training.weight_decay, training.warmup_steps) == (1e-4, 1e-4, 10_000)
    assert (training.gradient_clip, training.schedule, backbone.dropout) == (0.25, "constant", 0.1)
    assert (backbone.name, backbone.width, backbone.layers, backbone.heads, backbone.window) == (
        ("transformer", 128, 3, 1, 60)  # three tokens of 20 steps
    )
    assert (config.agent.tokens, config.agent.timestep_embedding) == ("interleaved", True)
    assert (evaluation.inference, evaluation.window) == ("window", 20)
    assert config.condition.rtg_quantile == 0
    assert (training.ema_decay, training.precision) == (0, "fp32")
    other = parse("minari/mujoco/hopper/medium-v0", "--config", str(CONFIGS / f"decision-transformer/{task}.yaml"))
    assert (other.dataset, other.training) == ("minari/mujoco/hopper/medium-v0", training)


def test_ogbench_gcbc_config_matches_ogbenchs_agent() -> None:
    """Park et al. 2025, their `impls/agents/gcbc.py`; a goal from all later steps alike, `actor_geom_sample` False."""
    config = parse("--config", str(CONFIGS / "ogbench-gcbc.yaml"))
    training = config.training
    assert (config.backbone.name, config.backbone.width) == ("mlp", 512)
    assert (training.batch_size, training.context, training.learning_rate) == (1024, 1, 3e-4)
    assert (training.schedule, training.warmup_steps, training.weight_decay) == ("constant", 0, 0)
    assert (training.ema_decay, training.gradient_clip) == (0, 0)
    assert (training.goal_relabeling, config.goal_discount) == ("hindsight", 1)
    assert (config.condition.name, config.objective.name) == ("none", "mse")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", ["dataset"]),
        ("hopper-medium --backbone mingur", ["mingur", "mingru"]),
        ("hopper-medium --training.stepz 5", ["training.stepz", "training.steps"]),
        ("hopper-medium --steps 5", ["--steps", "training.steps"]),
        ("hopper-medium --training.top_fraction 0.1", ["training.top_fraction", " top_fraction"]),
        ("hopper-medium --evaluaton.seed 3", ["evaluaton.seed", "evaluation.seed"]),
        ("hopper-medium --conf nowhere.yaml", ["conf", "config"]),  # no abbreviations
        ("hopper-medium --config nowhere.yaml", ["nowhere.yaml"]),
        ("hopper-medium --training.steps", ["training.steps", "expected one argument"]),
        ("hopper-medium --validation --overwrite", ["validation", "expected one argument"]),
        ("hopper-medium --training.steps 2k", ["training.steps", "2k"]),
        ("hopper-medium --condition none --condition.rtg_quantile 1", ["condition.rtg_quantile"]),
        ("hopper-medium --backbone.heads 2", ["backbone.heads"]),
        ("hopper-medium --training.p_swappedgoal 0.5", ["training.p_swappedgoal need"]),
        ("hopper-medium --evaluation.target_returns many", ["evaluation.target_returns", "many"]),
        ("hopper-medium --backbone.match_parameters many", ["backbone.match_parameters", "many"]),
        ("hopper-medium --backbone.match_parameters 7", ["backbone.match_parameters", "65"]),
        ("hopper-medium --backbone.match_parameters 9k --backbone.width 8", ["backbone.width"]),
    ],
)
def test_invalid_option_raises_one_line_naming_it(arguments: str, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        parse(*arguments.split())
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("training: {stepz: 5}", ["training.stepz", "training.steps"]),
        ("{dataset: x, training: 5}", ["training", "5"]),
        ("training: {steps: null}", ["training.steps"]),
        ("plugins: 5", ["plugins", "5"]),
        ("backbone: {name: 5}", ["backbone.name", "5"]),
        ("backbone: {name: [lru]}", ["backbone.name", "lru"]),
        ("backbone:\n  name:", ["backbone.name", "None"]),
        ("- 1\n- 2", []),
        ("a: [", []),
    ],
)
def test_invalid_file_raises_one_line_naming_file_and_key(tmp_path: Path, text: str, words: list[str]) -> None:
    file = tmp_path / "faulty.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        parse("--config", str(file))
    for word in (str(file), *words):
        assert word in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("written", ["600k", "600000", "0.6M", "600_000", "6e5"])
def test_match_parameters_sets_the_backbone_width(written: str) -> None:
    """A minGRU of width w has 3 * (10 w^2 + 11 w) + 2 w parameters: the nearest to 600k is w = 141."""
    config = parse("hopper-medium", "--backbone.match_parameters", written)
    assert config.backbone.width == 141
    assert "match_parameters" not in to_dict(config)["backbone"]  # only the width found is saved
    assert from_dict(to_dict(config), "here") == config


def test_match_parameters_accounts_for_other_backbone_options() -> None:
    small, large = (
        parse("hopper-medium", "--backbone", "lru", f"--backbone.state_size={size}", "--backbone.match_parameters=50k")
        for size in (7, 70)
    )
    assert large.backbone.width < small.backbone.width
    assert abs(count_parameters(Backbone(small.backbone)) - 50_000) < 1_000


def test_name_of_another_condition_replaces_the_options_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    write_config(parse("hopper-medium", "--condition.rtg_quantile", "0.5"), tmp_path)
    assert parse("--config", str(file), "--condition", "none").condition == NoConditionConfig()
    assert parse("--config", str(file), "--condition", "return_to_go").condition.rtg_quantile == 0.5


def test_name_of_another_backbone_removes_the_options_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    words = "--backbone mingru --backbone.gate stretched --backbone.layers 2 --backbone.width 24"
    write_config(parse("hopper-medium", *words.split()), tmp_path)
    lru = parse("--config", str(file), "--backbone", "lru").backbone
    assert (lru.name, lru.layers, lru.width) == ("lru", 2, 24)
    with pytest.raises(InputError, match=r"backbone\.gate"):  # which the command line adds
        parse("--config", str(file), "--backbone", "lru", "--backbone.gate", "stretched")
    file.write_text("dataset: hopper-medium\nbackbone: {gat: stretched}\n")
    with pytest.raises(InputError, match=r"backbone\.gat'"):
        parse("--config", str(file), "--backbone", "lru")


def test_text_that_is_something_else_in_yaml_stays_text() -> None:
    config = parse("local/007", "--path", "2024-05-01", "--validation", "off")
    assert (config.path, config.validation) == ("2024-05-01", "off")


def test_section_without_keys_has_its_defaults(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("dataset: hopper-medium\ntraining:\nbackbone:\n")
    assert parse("--config", str(file)) == parse("hopper-medium")


def test_width_and_match_parameters_override_each_other_but_not_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("dataset: hopper-medium\nbackbone: {match_parameters: 600k}\n")
    assert parse("--config", str(file)).backbone.width == 141
    assert parse("--config", str(file), "--backbone.width", "64").backbone.width == 64
    file.write_text("dataset: hopper-medium\nbackbone: {width: 64}\n")
    assert parse("--config", str(file), "--backbone.match_parameters", "600000").backbone.width == 141
    file.write_text("dataset: hopper-medium\nbackbone: {width: 64, match_parameters: 600k}\n")
    with pytest.raises(InputError, match=r"backbone\.width"):
        parse("--config", str(file))


def test_a_chunk_is_no_longer_than_a_segment() -> None:
    """Its last actions would have no target in training, and still be executed."""
    chunk = ["--objective", "action_chunk", "--objective.chunk_size", "21"]
    assert parse("hopper-medium", *chunk, "--training.context", "21").objective.chunk_size == 21
    with pytest.raises(InputError, match=r"objective\.chunk_size.*training\.context"):
        parse("hopper-medium", *chunk)

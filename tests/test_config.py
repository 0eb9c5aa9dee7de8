"""Run configurations: strict parsing, overrides and round trips."""

from pathlib import Path

import pytest
import yaml

from decision_rnn.agent import NoConditionConfig, ReturnToGoConfig
from decision_rnn.backbones import Backbone, count_parameters
from decision_rnn.cli.arguments import parse_run
from decision_rnn.cli.evaluate import parser as evaluate_parser
from decision_rnn.cli.play import parser as play_parser
from decision_rnn.config import EvaluationConfig, to_dict
from decision_rnn.config_parser import flatten, from_dict, translated
from decision_rnn.training.configuration import evaluation_settings
from decision_rnn.utils.errors import InputError

CONFIGS = Path(__file__).parents[1] / "configs"


def parse(*arguments: str) -> object:
    return parse_run("decision-rnn train", arguments)[0]


def test_command_line_sets_options_of_every_config_section() -> None:
    words = (
        "hopper-medium --backbone lru --backbone.memory=90 --training.steps 7 --training.learning_rate=1e-4 --seed 3"
    )
    words += " --agent.tokens interleaved --condition none --evaluation.target_returns [3000,10]"
    config = parse(*words.split())
    assert (config.dataset, config.seed, config.backbone.name, config.backbone.memory) == (
        "hopper-medium",
        3,
        "lru",
        90,
    )
    assert (config.training.steps, config.training.learning_rate) == (7, 1e-4)
    assert (config.agent.tokens, config.takes_target) == ("interleaved", False)
    assert config.evaluation.target_returns == (3000.0, 10.0)


@pytest.mark.parametrize(
    ("spelled", "numbers"),
    [
        ("3000", (3000.0,)),
        ("3000,2000", (3000.0, 2000.0)),
        ("[3000, 2000]", (3000.0, 2000.0)),
        ("1e3", (1000.0,)),
        ("1.5e3,-2k", (1500.0, -2000.0)),
        ("[600k, 0.6M]", (600_000.0, 600_000.0)),
        ("-300,-200", (-300.0, -200.0)),
    ],
)
def test_target_returns_have_the_same_spellings_everywhere(
    spelled: str, numbers: tuple[float, ...], tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"dataset: hopper-medium\nevaluation: {{target_returns: {spelled if '[' in spelled else 2}}}\n")
    words = ["hopper-medium", "--evaluation.target_returns", spelled]
    assert parse(*words).evaluation.target_returns == numbers
    assert parse("--config", str(file)).evaluation.target_returns == (numbers if "[" in spelled else (2.0,))
    assert evaluate_parser().read(["run", "--target_returns", spelled]).target_returns == numbers
    assert evaluation_settings(EvaluationConfig(), target_returns=spelled).target_returns == numbers
    if len(numbers) == 1:
        assert play_parser().read(["run", "--target_returns", spelled]).target_returns == numbers[0]


def test_numbers_of_thousands_are_understood_by_every_key() -> None:
    config = parse("hopper-medium", "--training.steps", "2k", "--backbone.match_parameters", "1.2e5")
    assert config.training.steps == 2000
    assert parse("hopper-medium", "--backbone.match_parameters", "120k").backbone == config.backbone


def test_command_line_overrides_config_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("dataset: hopper-medium\nbackbone: {name: lru, memory: 80}\ntraining: {steps: 5, context: 7}\n")
    config = parse("--config", str(file), "--training.steps", "6")
    assert (config.backbone.name, config.backbone.memory) == ("lru", 80)
    assert (config.training.steps, config.training.context) == (6, 7)
    file.write_text("dataset: d4rl/hopper-medium-v2\npath: here.hdf5\nbackbone: minlstm\n")
    assert (parse("--config", str(file)).backbone.name, parse("--config", str(file)).path) == ("minlstm", "here.hdf5")
    assert parse("--config", str(file), "--path", "there.hdf5").path == "there.hdf5"


@pytest.mark.parametrize(
    ("words", "slices"),
    [
        ("--backbone gru --backbone.memory 21", 50),
        ("--backbone gru --backbone.memory 19", 1),
        ("--backbone gru --backbone.memory 20 --training.context 21", 1),
        ("--backbone aaren", 50),
        ("--backbone transformer", 1),
        ("--backbone mlp", 1),
        ("--backbone lru --backbone.memory 100 --training.tbptt_segments 1", 1),
        ("--backbone lru --backbone.memory 1 --training.tbptt_segments 7", 7),
    ],
)
def test_tbptt_segments_default_is_50_where_the_state_outlasts_a_slice_and_1_elsewhere(words: str, slices: int) -> None:
    assert parse("hopper-medium", *words.split()).training.tbptt_segments == slices


@pytest.mark.parametrize(
    ("words", "discount"),
    [
        ("--training.goal_relabeling hindsight", 0.99),
        ("--training.goal_relabeling hindsight --training.goal_discount 1", 1),
        ("--training.goal_relabeling hindsight --condition none", 1),
        ("--training.goal_relabeling hindsight --condition none --training.goal_discount 0.9", 0.9),
        ("", 1),
    ],
)
def test_goal_discount_default_is_near_where_agents_are_asked_for_few_steps(words: str, discount: float) -> None:
    config = parse("local/reach", *words.split())
    assert config.training.goal_discount == discount
    assert from_dict(to_dict(config), "again") == config  # as a run's own file is read


@pytest.mark.parametrize(
    ("words", "objective", "optimizer", "rate"),
    [
        ("--training.goal_relabeling hindsight", "gaussian_mixture", "muon", 4e-3),
        ("--training.goal_relabeling hindsight --objective.modes 3", "gaussian_mixture", "muon", 4e-3),
        ("--training.goal_relabeling hindsight --objective supervised", "supervised", "muon", 4e-3),
        ("--training.goal_relabeling hindsight --training.optimizer adamw", "gaussian_mixture", "adamw", 1e-3),
        ("--training.goal_relabeling hindsight --condition none", "supervised", "adamw", 1e-3),
        ("", "supervised", "adamw", 1e-3),
    ],
)
def test_objective_and_optimizer_defaults_are_others_where_agents_are_asked_for_few_steps(
    words: str, objective: str, optimizer: str, rate: float
) -> None:
    config = parse("local/reach", *words.split())
    assert config.objective.name == objective
    assert (config.training.optimizer, config.training.learning_rate) == (optimizer, rate)
    assert from_dict(to_dict(config), "again") == config


@pytest.mark.parametrize(
    ("saved", "memory"),
    [
        ({"name": "mingru", "forget_bias": 0.0}, 1),
        ({"name": "mingru", "forget_bias": 5.0}, 103.2),  # sigmoid(5)^103.2 = 1/2
        ({"name": "mingru", "forget_bias": -5.0}, 1),
        ({"name": "minlstm", "forget_bias": 50.0}, 1.7),  # (2/3)^1.7 = 1/2
        ({"name": "gru"}, 1),
        ({"name": "lstm", "forget_bias": 1.0}, 2.2),
        ({"name": "lru", "r_min": 0.0, "r_max": 0.99}, 69),
        ({"name": "lru", "r_min": 0.0, "r_max": 1.0}, 1e6),
        ({"name": "s4d", "dt_min": 1e-3, "dt_max": 0.1, "start": "lin"}, 1386.3),
        ({"name": "s4d", "dt_min": 1e-3, "dt_max": 0.1, "start": "real"}, 693.1),
        ({"name": "mamba"}, 693.1),
        ({"name": "retention", "heads": 4}, 177.1),
        ({"name": "mlstm"}, 280),
        ({"name": "lru", "memory": 5.0}, 5),
    ],
)
def test_configuration_saved_by_version_0_2_has_the_longest_half_life_of_its_layer(
    saved: dict[str, object], memory: float
) -> None:
    config = from_dict({"dataset": "hopper-medium", "backbone": saved}, "here")
    assert config.backbone.memory == pytest.approx(memory, rel=0.01)


def test_a_plugins_own_time_scales_are_kept_and_a_built_in_layers_are_refused_by_their_old_keys() -> None:
    with pytest.raises(InputError, match=r"forget_bias is no key any more.*: backbone\.memory is the longest"):
        parse("hopper-medium", "--backbone", "mingru", "--backbone.forget_bias", "1")
    saved = {"dataset": "hopper-medium", "backbone": {"name": "other", "forget_bias": 1.0}}
    assert translated(flatten(saved, "here"))["backbone.forget_bias"] == 1.0


OLD = {
    "best_fraction": (0.1, "top_fraction"),
    "training.averaging": (0.9, "training.ema_decay"),
    "training.carry": (3, "training.tbptt_segments"),
    "agent.return_limit": (0.5, "condition.rtg_cap"),
    "agent.return_noise": (0.2, "condition.noise"),
    "agent.return_conditioning": (False, "condition.name .*none for false"),
    "evaluation.state": ("carry", "evaluation.state .*recurrent for carry"),
}


@pytest.mark.parametrize("key", OLD)
def test_renamed_key_is_refused_with_its_new_name_in_files_and_on_the_command_line(key: str, tmp_path: Path) -> None:
    value, name = OLD[key]
    section, _, inner = key.rpartition(".")
    file = tmp_path / "old.yaml"
    file.write_text(yaml.safe_dump({section: {inner: value}} if section else {inner: value}))
    for arguments in (["--config", str(file)], [f"--{key}", str(value).lower()]):
        with pytest.raises(InputError, match=f"{key}.* has been renamed: use {name}"):
            parse("hopper-medium", *arguments)


def test_configuration_saved_by_version_0_2_is_translated() -> None:
    saved = {"dataset": "hopper-medium", "best_fraction": 0.1, "backbone": {"name": "lru"}}
    saved |= {"agent": {"tokens": "step", "return_conditioning": True, "return_limit": 0.5, "return_noise": 0.2}}
    saved |= {"training": {"averaging": 0.9, "carry": 3}, "evaluation": {"state": "carry"}}
    config = from_dict(saved, "here")
    assert (config.top_fraction, config.training.ema_decay, config.training.tbptt_segments) == (0.1, 0.9, 3)
    assert config.condition == ReturnToGoConfig(reach=0.0, rtg_cap=0.5, noise=0.2)
    assert config.evaluation.state == "recurrent"
    saved["agent"]["return_conditioning"] = False
    assert from_dict(saved, "here").condition == NoConditionConfig()


def test_hopper_medium_paper_config_matches_decision_transformer_paper() -> None:
    """Chen et al. 2021, table 8; batch 64 and 100k steps as in their code."""
    config = parse("--config", str(CONFIGS / "hopper-medium-paper.yaml"))
    training = config.training
    assert (training.steps, training.batch_size, training.context) == (100_000, 64, 20)
    assert (training.learning_rate, training.weight_decay, training.warmup_steps) == (1e-4, 1e-4, 10_000)
    assert (training.gradient_clip, training.schedule, config.backbone.dropout) == (0.25, "constant", 0.1)
    assert (config.condition.rtg_cap, config.condition.noise) == (0, 0)
    assert (training.ema_decay, training.return_weighting) == (0, 0)


def test_ogbench_gcbc_config_matches_ogbenchs_agent() -> None:
    """Park et al. 2025, their `impls/agents/gcbc.py`; a goal from all later steps alike, `actor_geom_sample` False."""
    config = parse("--config", str(CONFIGS / "ogbench-gcbc.yaml"))
    training = config.training
    assert (config.backbone.name, config.backbone.width) == ("mlp", 512)
    assert (training.batch_size, training.context, training.learning_rate) == (1024, 1, 3e-4)
    assert (training.schedule, training.warmup_steps, training.weight_decay) == ("constant", 0, 0)
    assert (training.ema_decay, training.gradient_clip) == (0, 0)
    assert (training.goal_relabeling, training.goal_discount, training.p_randomgoal) == ("hindsight", 1, 0)
    assert (config.condition.name, config.objective.name) == ("none", "supervised")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", ["no dataset", "hopper-medium"]),
        ("hopper-medium --backbone mingur", ["mingur", "mingru, minlstm", "did you mean mingru"]),
        ("hopper-medium --condition nothing", ["nothing", "none, return_to_go", "--plugins"]),
        ("hopper-medium --training.stepz 5", ["training.stepz", "did you mean training.steps"]),
        ("hopper-medium --steps 5", ["--steps", "did you mean training.steps"]),
        ("hopper-medium --training.top_fraction 0.1", ["training.top_fraction", "did you mean top_fraction"]),
        ("hopper-medium --evaluaton.seed 3", ["evaluaton.seed", "did you mean evaluation.seed"]),
        ("hopper-medium --conf nowhere.yaml", ["conf", "did you mean config"]),  # no abbreviations
        ("hopper-medium --config nowhere.yaml", ["nowhere.yaml", "No such file"]),
        ("hopper-medium --training.steps many", ["training.steps", "many", "a whole number"]),
        ("hopper-medium --training.steps", ["training.steps has no value"]),
        ("hopper-medium --training.steps 0", ["training.steps", "at least 1"]),
        ("hopper-medium --training.recurrent_rate -1", ["training.recurrent_rate is '-1'", "at least 0"]),
        ("hopper-medium --training.return_weighting 1e3", ["training.return_weighting", "at most 100"]),
        ("hopper-medium --condition.rtg_cap 2", ["condition.rtg_cap", "from 0"]),
        (
            "hopper-medium --condition none --condition.noise 1",
            ["condition none has no condition.noise", "--condition none --help"],
        ),
        ("hopper-medium --training.schedule square", ["training.schedule", "square", "cosine or constant"]),
        ("hopper-medium --backbone.heads 2", ["mingru has no backbone.heads", "--help"]),
        ("hopper-medium --evaluation.target_returns []", ["evaluation.target_returns is '[]'", "a list"]),
        ("hopper-medium --evaluation.target_returns many", ["target_returns is 'many'", "list", "3600,1800"]),
        ("hopper-medium --backbone.match_parameters many", ["match_parameters", "many", "600k"]),
        ("hopper-medium --backbone.match_parameters 7", ["match_parameters", "nearest", "65"]),
        ("hopper-medium --backbone.match_parameters 9k --backbone.width 8", ["backbone.width", "leave"]),
        ("hopper-medium --backbone.match_par=9k", ["mingru has no backbone.match_par", "--help"]),
    ],
)
def test_invalid_command_line_option_raises_one_line_error_naming_it(arguments: str, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        parse(*arguments.split())
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("training: {stepz: 5}", ["stepz", "training.steps"]),
        ("training: 5", ["training is 5", "keys and values"]),
        ("backbone: {name: gru9}", ["gru9", "known"]),
        ("backbone: {width: wide}", ["backbone.width", "wide"]),
        ("training: {steps: null}", ["training.steps is null: it must be a whole number"]),
        ("plugins: 5", ["plugins is 5", "a list of names"]),
        ("- 1\n- 2", ["list"]),
        ("a: [", ["not YAML"]),
    ],
)
def test_invalid_config_file_raises_one_line_error_naming_the_key(tmp_path: Path, text: str, words: list[str]) -> None:
    file = tmp_path / "faulty.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        parse("--config", str(file))
    for word in (str(file), *words):
        assert word in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("written", ["600k", "600000", "0.6M", "600_000", "0.600m"])
def test_match_parameters_sets_the_backbone_width(written: str) -> None:
    """A minGRU of width w has 3 * (10 w^2 + 11 w) + 2 w parameters: the nearest to 600k is w = 141."""
    config = parse("hopper-medium", "--backbone.match_parameters", written)
    assert config.backbone.width == 141
    assert "match_parameters" not in to_dict(config)["backbone"]  # only the width found is saved
    assert from_dict(to_dict(config), "here") == config


def test_match_parameters_accounts_for_other_backbone_options() -> None:
    config = parse("hopper-medium", "--backbone", "lru", "--backbone.state_size=7", "--backbone.match_parameters=50k")
    assert (config.backbone.name, config.backbone.state_size) == ("lru", 7)
    assert abs(count_parameters(Backbone(config.backbone)) - 50_000) < 1_000
    assert (
        parse("hopper-medium", "--backbone", "lru", "--backbone.match_parameters=50k").backbone.width
        < config.backbone.width
    )


def test_width_and_match_parameters_override_each_other_but_not_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("dataset: hopper-medium\nbackbone: {match_parameters: 600k}\n")
    assert parse("--config", str(file)).backbone.width == 141
    assert parse("--config", str(file), "--backbone.width", "64").backbone.width == 64
    file.write_text("dataset: hopper-medium\nbackbone: {width: 64}\n")
    assert parse("--config", str(file), "--backbone.match_parameters", "600000").backbone.width == 141
    file.write_text("dataset: hopper-medium\nbackbone: {width: 64, match_parameters: 600k}\n")
    with pytest.raises(InputError, match=r"backbone\.match_parameters finds the width"):
        parse("--config", str(file))

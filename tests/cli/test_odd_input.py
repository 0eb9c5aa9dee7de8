"""Odd arguments and files are accepted or refused in one line that names the key; no traceback, no parser output."""

import warnings
from pathlib import Path

import pytest

from decision_rnn.cli.arguments import parse_run
from decision_rnn.cli.main import main
from decision_rnn.cli.parser import CommandParser
from decision_rnn.data.sources.own import write_store
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError

KEYS = (
    *(
        "--path",
        "--partial",
        "--plugins",
        "--seed",
        "--backbone",
        "--backbone.mlp_ratio",
        "--backbone.match_parameters",
    ),
    *(
        "--observation.mask",
        "--backbone.projection",
        "--training",
        "--training.steps",
        "--training.learning_rate",
    ),
    *("--training.schedule", "--evaluation.target_returns", "--config", "--nothing", "--"),
)
VALUES = ("", "0", "-1", "1e4", "nan", ".nan", "-.inf", "1_000", "null", "[]", "[a]", "[.inf]", "{a: 1}", "{", "'")
VALUES += ("9" * 400, "ü", "\udcff", "/", "!!python/object:a b", "*x", "2000-13-13", "--seed")


def one_sentence(message: str) -> bool:
    return "\n" not in message and "<class" not in message and "typing." not in message and len(message) < 800


def outcome(*arguments: str) -> str | None:
    """The error message of `train` with these arguments; None if they are valid."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            parse_run("decision-rnn train", ["hopper-medium", *arguments])
        except InputError as error:
            return str(error)
    return None


@pytest.mark.parametrize("key", KEYS)
def test_odd_option_values_are_accepted_or_refused_in_one_line(key: str) -> None:
    for value in VALUES:
        message = outcome(key, value)
        assert message is None or one_sentence(message), (value, message)


@pytest.mark.parametrize("key", ["dataset", "plugins", "backbone", "training", "jobs", "config", "1", "[a]", "null"])
def test_odd_config_file_values_are_accepted_or_refused_in_one_line(key: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    for value in VALUES:
        file.write_text(f"{key}: {value}\n", errors="surrogateescape")
        message = outcome("--config", str(file))
        assert message is None or one_sentence(message), (value, message)


@pytest.mark.parametrize(
    "key", ["steps", "learning_rate", "schedule", "[a]", "null", "{steps: 3}", "backbone", "training.steps"]
)
def test_odd_values_in_a_config_file_section_are_accepted_or_refused_in_one_line(key: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    for value in VALUES:
        file.write_text(f"training:\n  {key}: {value}\n", errors="surrogateescape")
        message = outcome("--config", str(file))
        assert message is None or one_sentence(message), (value, message)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--training.learning_rate", ".nan"], "training.learning_rate is '.nan': it must be a finite number"),
        (["--training.learning_rate", ".inf"], "training.learning_rate is '.inf': it must be a finite number"),
        (["--training.learning_rate", "-1"], "training.learning_rate is -1.0: it must be at least 0"),
        (["--backbone.mlp_ratio", ".nan"], "backbone.mlp_ratio is '.nan': it must be a finite number"),
        (["--training.steps", "1e4"], "command line: training.steps is '1e4': it must be a whole number"),
        (["--training.steps", "9" * 30], "training.steps is '999999999999999999999999999999': it must be a finite"),
        (["--seed", "-1"], "seed is -1: it must be at least 0"),
        (
            ["--evaluation.target_returns", "[.nan]"],
            "evaluation.target_returns is '[.nan]': it must be a finite number",
        ),
        (["--backbone.projection", "maybe"], "backbone.projection is 'maybe': it must be true or false"),
        (["--config", "/"], "cannot read the configuration /: Is a directory"),
        (["--training.schedule", "square"], "training.schedule is 'square': it must be cosine or constant"),
    ],
)
def test_config_error_names_the_key_and_the_values_it_takes(arguments: list[str], sentence: str) -> None:
    assert sentence in (outcome(*arguments) or "")


def test_gradient_clip_may_be_infinite() -> None:
    assert outcome("--training.gradient_clip", ".inf") is None


def test_null_in_a_config_file_is_checked_like_any_value(tmp_path: Path) -> None:
    file = tmp_path / "null.yaml"
    file.write_text("training: {steps: null}\n")
    source = f"{file} and the command line"
    assert outcome("--config", str(file)) == f"{source}: training.steps is null: it must be a whole number"
    file.write_text("evaluation: {target_returns: null}\npath: null\n")
    assert outcome("--config", str(file)) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "--"],
        ["train", "a", "b"],
        ["train", ""],
        ["train", "--config", "a\nb"],
        ["train", "hopper-medium", "--output"],
        ["compare", "hopper-medium", "--seeds", "1.5"],
        ["compare", "hopper-medium", "--backbones"],
        ["evaluate"],
        ["evaluate", ""],
        ["evaluate", "a", "b"],
        ["evaluate", ".", "--target_returns", "3600"],
        ["evaluate", ".", "--evaluation.episodes", "3"],
        ["data", ""],
        ["data", "list", "x"],
        ["data", "info"],
        ["data", "info", ""],
        ["data", "info", "\udcff/x"],
        ["bench", ""],
        ["bench", "train", "--rounds", "x"],
        ["bench", "data", "x"],
        ["", ""],
    ],
)
def test_every_command_refuses_invalid_arguments_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("decision-rnn: ")
    assert one_sentence(message.removesuffix("\n"))


@pytest.mark.parametrize("key", ["training.batch_size", "training.context", "backbone.width"])
def test_train_options_that_need_too_much_memory_print_one_line(
    key: str, store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path))
    write_store("own/mine", store.read_episodes(), environment_id="Hopper-v5")
    options = ["--evaluation.episodes", "0", "--training.steps", "1", "--output", str(tmp_path / "run")]
    code = main(["train", "own/mine", f"--{key}", str(10**15), *options])
    message = capsys.readouterr().err
    assert one_sentence(message.removesuffix("\n")), message
    assert code == (1 if "not enough memory" in message else 2)
    assert code == 1 or key in message


def test_parse_command_error_names_the_argument_and_the_values_it_takes() -> None:
    parser = CommandParser("test")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("place", type=str)
    with pytest.raises(InputError, match="command line: jobs is 'x': it must be a whole number"):
        parser.read(["here", "--jobs", "x"])
    with pytest.raises(InputError, match="place"):
        parser.read(["--jobs", "1"])

"""Odd arguments and files are accepted or refused in one line that names the key; no traceback, no parser output."""

import warnings
from pathlib import Path

import pytest
from run_config import parse_run

from decision_rnn.cli.main import main
from decision_rnn.data.sources.local import write_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError

KEYS = ("--path", "--partial", "--plugins", "--seed", "--backbone", "--backbone.mlp_ratio", "--backbone.projection")
KEYS += ("--backbone.match_parameters", "--condition", "--observation.mask", "--training", "--training.steps")
KEYS += (
    "--training.learning_rate",
    "--training.schedule",
    "--evaluation.target_returns",
    "--config",
    "--nothing",
    "--",
)
FILES = [
    f"{key}: VALUE" for key in ("dataset", "plugins", "backbone", "training", "jobs", "config", "1", "[a]", "null")
]
FILES += [f"training:\n  {key}: VALUE" for key in ("steps", "learning_rate", "schedule", "[a]", "null", "{steps: 3}")]
FILES += ["training:\n  training.steps: VALUE", "training.steps: VALUE", "backbone:\n  name: VALUE"]
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


@pytest.mark.parametrize("text", FILES)
def test_odd_config_file_values_are_accepted_or_refused_in_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    for value in VALUES:
        file.write_text(text.replace("VALUE", value) + "\n", errors="surrogateescape")
        message = outcome("--config", str(file))
        assert message is None or one_sentence(message), (value, message)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--training.learning_rate", ".nan"], "training.learning_rate is '.nan': it must be a number of at least 0"),
        (["--training.learning_rate", ".inf"], "training.learning_rate is '.inf': it must be a finite number"),
        (["--training.learning_rate", "-1"], "training.learning_rate is '-1': it must be a number of at least 0"),
        (["--backbone.mlp_ratio", ".nan"], "backbone.mlp_ratio is '.nan': it must be a finite number"),
        (["--training.steps", "1e4"], "command line: training.steps is '1e4': it must be a whole number"),
        (["--training.steps", "9" * 30], "training.steps is '999999999999999999999999999999': it must be a finite"),
        (
            ["--evaluation.target_returns", "[.nan]"],
            "evaluation.target_returns is '[.nan]': it must be a finite number",
        ),
        *(
            (
                ["--evaluation.target_returns", value],
                f"evaluation.target_returns is '{value}': it must be auto, a number or a list of numbers, such as "
                "3600,1800, or null",
            )
            for value in ("nan", "[]")
        ),
        (["--backbone.projection", "maybe"], "backbone.projection is 'maybe': it must be true or false"),
    ],
)
def test_config_error_names_the_key_and_the_values_it_takes(arguments: list[str], sentence: str) -> None:
    assert sentence in (outcome(*arguments) or "")


def test_gradient_clip_may_be_infinite_and_optional_keys_null() -> None:
    words = "--training.gradient_clip .inf --evaluation.target_returns null --path null --training.recurrent_rate null"
    assert outcome(*words.split()) is None


REFUSED = """
train
train hopper-medium --output
train hoper-medium | hoper-medium | hopper-medium
train hopper-medium --backbone transformer --backbone.heads 3 | backbone.heads
train hopper-medium --output /dev/null/run | /dev/null/run | Not a directory
trian | trian | train
compare hopper-medium --seeds 1.5 | seeds is '1.5': it must be a whole number
compare hopper-medium --seeds 0 | --seeds
compare hopper-medium --backbones , | --backbones
compare hopper-medium --backbones mingru,nothing | nothing | known
compare hopper-medium --backbone lru | --backbones
compare hopper-medium --backbones transformer,mingru --backbone.heads 2 | mingru has no backbone.heads
evaluate
evaluate . | is not the folder of an agent
evaluate nowhere | nowhere | there is no run nowhere
evaluate . --target_returns many | a list of numbers
evaluate . --target_returns nan | a list of numbers, such as 3600,1800, or null
evaluate . --targets [3600] | --targets
evaluate . --evaluation.episodes 3
evaluate . --processes 0 | processes is '0' | at least 1
play . --target-return 3600 | has been renamed: use --target_returns
data info
bench nothing | nothing | rollout
bench train --rounds x
bench backbones --backbones mingur | mingur | mingru
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *((line.split(" | ")[0].split(), line.split(" | ")[1:]) for line in REFUSED.strip().splitlines()),
        (["train", ""], []),
        (["train", "hopper-medium", "--output", ""], ["--output is empty: give a path, or leave it out"]),
        (["train", "--config", "a\nb"], []),
        (["data", ""], []),
        (["data", "info", "\udcff/x"], []),
        (["", ""], []),
    ],
)
def test_every_command_refuses_invalid_arguments_in_one_line(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("decision-rnn: ")
    assert one_sentence(message.removesuffix("\n"))
    for word in words:
        assert word in message


@pytest.mark.parametrize("key", ["training.batch_size", "training.context", "backbone.width"])
def test_train_options_that_need_too_much_memory_print_one_line(
    key: str, store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path))
    write_store("local/mine", store.read_episodes(), environment_id="Hopper-v5")
    options = ["--evaluation.episodes", "0", "--training.steps", "1", "--output", str(tmp_path / "run")]
    code = main(["train", "local/mine", f"--{key}", str(10**15), *options])
    message = capsys.readouterr().err
    assert one_sentence(message.removesuffix("\n")), message
    assert code == (1 if "not enough memory" in message else 2)
    assert code == 1 or key in message

"""Odd values in options and files are accepted or refused in one line; no traceback."""

import warnings
from pathlib import Path

import pytest
from run_config import parse_run

from decision_rnn.cli.main import main
from decision_rnn.data.sources.local import write_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError

KEYS = ("plugins", "seed", "backbone", "backbone.mlp_ratio", "backbone.match_parameters", "condition", "training")
KEYS += ("training.steps", "training.learning_rate", "training.schedule", "evaluation.target_returns", "nothing")
VALUES = ("", "0", "-1", "1e4", "nan", ".nan", "-.inf", "null", "[]", "[a]", "{a: 1}", "{", "9" * 400, "ü", "\udcff")
VALUES += ("!!python/object:a b", "*x", "2000-13-13")


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
def test_odd_values_are_accepted_or_refused_in_one_line(key: str, tmp_path: Path) -> None:
    section, _, name = key.rpartition(".")
    for value in VALUES:
        text = f"{section}:\n  {name}: {value}\n" if section else f"{key}: {value}\n"
        (tmp_path / "odd.yaml").write_text(text, errors="surrogateescape")
        for words in ([f"--{key}={value}"], ["--config", str(tmp_path / "odd.yaml")]):
            message = outcome(*words) or ""
            assert "\n" not in message, (value, message)
            assert len(message) < 800, (value, message)


def test_optional_keys_may_be_null() -> None:
    words = "--evaluation.target_returns null --path null --training.learning_rate null"
    assert outcome(*words.split()) is None


@pytest.mark.parametrize("key", ["training.batch_size", "training.context", "backbone.width"])
def test_options_that_need_too_much_memory_print_one_line(
    key: str, store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path))
    write_store("local/mine", store, environment_id="Hopper-v5")
    options = ["--evaluation.episodes", "0", "--training.steps", "1", "--output", str(tmp_path / "run")]
    code = main(["train", "local/mine", f"--{key}", str(10**15), *options])
    (line,) = capsys.readouterr().err.splitlines()
    assert code == (1 if "not enough memory" in line else 2)
    assert code == 1 or key in line

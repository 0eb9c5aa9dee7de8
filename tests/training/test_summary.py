"""What `train` prints at the end: losses, the score on held-out episodes, and commands."""

import json
import re
import shlex
from pathlib import Path

import pytest
from small_comparison import pendulum_episodes

from decision_rnn import train, write_store
from decision_rnn.cli.main import main
from decision_rnn.cli.parser import command_parser

SMALL = ["--training.context", "4", "--training.log_every", "2", "--backbone.width", "16", "--backbone.layers", "1"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    assert main(["train", *words, *SMALL, "--quiet"]) == 0
    return capsys.readouterr().out.splitlines()


def commands(lines: list[str]) -> list[list[str]]:
    """The words of the commands, all of which are valid."""
    proposed = [shlex.split(line)[1:] for line in lines[lines.index("next:") + 1 :]]
    for name, *words in proposed:
        command_parser(name).read(words)
    return proposed


def test_log_ends_with_a_table_a_score_and_commands(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, name in enumerate(("local/log", "local/held-out")):
        write_store(name, pendulum_episodes(seed), overwrite=True)
    stops = ["--training.steps", "60", "--training.early_stopping_patience", "2"]
    lines = printed(capsys, "local/log", "--output", "run", "--validation", "local/held-out", *stops)
    logged = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    lowest = min(logged, key=lambda line: line["validation_loss"])
    named = {"first": logged[0], "lowest held-out": lowest, "last": logged[-1]}
    for label, line in named.items():
        values = [f"{line['step']}", f"{line['loss']:.4g}", f"{line['validation_loss']:.4g}"]
        assert [row.removeprefix(label).split() for row in lines if row.startswith(label)] == [values]
    assert logged[-3] == lowest  # two checks later training stopped
    predictors = ["agent", "linear regression", "mean action", "previous action"]
    assert sum(re.split(r"\s\s+", line.strip()) == predictors for line in lines) == 1
    evaluate, compare, export = commands(lines)
    assert evaluate[:2] == ["evaluate", "run/checkpoints/best"]
    assert compare[:4] == ["compare", "local/log", "--validation", "local/held-out"]
    assert export == ["export", "run/checkpoints/best"]
    assert main(evaluate) == 0
    assert f"step {lowest['step']}:" in capsys.readouterr().out
    train("local/log", output="python", steps=2, training={"context": 4})
    lines = capsys.readouterr().out.splitlines()
    assert commands(lines) == [["data", "split", "local/log"], ["export", "python"]]
    assert not any("held-out" in line for line in lines)


def test_data_with_an_environment_end_with_scores_and_the_held_out_score(
    inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["local/swing", "--validation", "local/swing", "--training.steps", "2"]
    lines = printed(capsys, *words, "--evaluation.episodes", "1", "--output", "played")
    assert any("normalised score" in line for line in lines)
    assert sum("mean action" in line for line in lines) == 1
    lines = printed(capsys, *words, "--evaluation.episodes", "0", "--output", "not-played")
    assert sum("mean action" in line for line in lines) == 1
    assert commands(lines)[0][:2] == ["evaluate", "not-played"]

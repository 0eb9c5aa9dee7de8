"""The selective copying script: its sequences, training on a tiny task, and reuse of finished rows."""

import json
import sys
from pathlib import Path

import pytest
import selective_copying as script
import torch


def test_sequences_place_tokens_in_order_among_blanks() -> None:
    protocol = script.Protocol(length=20, tokens=5, vocabulary=8)
    symbols, tokens = script.sequences(protocol, 300, torch.Generator().manual_seed(0))
    assert symbols.shape == (300, 25)
    assert (symbols[:, 20:] == 7).all()
    for row, right in zip(symbols[:, :20], tokens, strict=True):
        assert row[row != 0].tolist() == right.tolist()
    assert set(tokens.flatten().tolist()) == set(range(1, 7))
    assert (symbols[:, :20] != 0).any(0).all()  # every position holds a token in some sequence


def test_train_row_stops_when_the_task_is_solved() -> None:
    """A random guess is right one time in three."""
    protocol = script.Protocol(length=3, tokens=1, vocabulary=5, width=16, steps=1000, learning_rate=1e-2)
    row = script.train_row("mingru", 2, protocol)
    assert row["accuracy"] > 0.98
    assert row["steps"] < 1000
    assert [step for step, _ in row["curve"]] == list(range(100, row["steps"] + 1, 100))
    assert script.train_row("mingru", 2, protocol)["curve"] == row["curve"]


def test_selective_copying_script_keeps_finished_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "ROOT", tmp_path)

    def run(*arguments: str) -> None:
        tiny = ["--name", "tiny", "--length", "3", "--width", "16", "--steps", "2", "--batch_size", "2"]
        monkeypatch.setattr(sys, "argv", ["selective_copying.py", *tiny, *arguments])
        script.main()

    run("--tokens", "2", "--backbones", "mingru", "--layers", "1")
    results = tmp_path / "results" / "tiny"
    first = results / "rows" / "mingru-1.json"
    marked = json.loads(first.read_text()) | {"accuracy": 0.125}
    first.write_text(json.dumps(marked))
    run("--tokens", "2", "--backbones", "mingru,lru", "--layers", "2,1")
    assert json.loads(first.read_text()) == marked
    table = (results / "README.md").read_text()
    assert "| mingru | 12.5 (2) | " in table
    assert "| backbone | 1 layer | 2 layers | parameters |" in table
    assert len(list((results / "rows").iterdir())) == 4
    assert (results / "accuracy.png").stat().st_size > 1000
    run("--tokens", "2", "--backbones", "rnn,rnn-relu", "--layers", "1")  # two variants of one backbone
    activations = [json.loads(path.read_text())["config"]["activation"] for path in sorted(first.parent.glob("rnn*"))]
    assert activations == ["tanh", "relu"]
    names = [line.split("|")[1].strip() for line in (results / "README.md").read_text().splitlines() if "|" in line]
    assert {"rnn", "rnn-relu"} <= set(names)
    with pytest.raises(SystemExit, match="another protocol"):
        run("--tokens", "1", "--backbones", "mingru")

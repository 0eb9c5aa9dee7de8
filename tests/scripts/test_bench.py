"""The benchmarks: their timing, and that each runs on small sizes; no test asserts a time."""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "scripts" / "bench"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a script of scripts/bench by name; none of them stays imported."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = [path.stem for path in FOLDER.glob("*.py")]
    monkeypatch.setattr(importlib.import_module("measure"), "SECONDS", 0.0)
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


def options(**values: object) -> argparse.Namespace:
    return argparse.Namespace(rounds=1, device="cpu", backbones=None, **values)


def test_rows_compare_medians_with_the_baseline(load: Any) -> None:
    measure = load("measure")
    rows = measure.compare({"a": 0.002, "b": 0.004}, "b", "ms", 1e3)
    assert [(row.name, row.value, row.baseline_value, row.ratio) for row in rows] == [("a", 2, 4, 2), ("b", 4, 4, 1)]
    table = measure.format_rows(rows)
    assert "| a | 2 ms | 2.00 | b, 4 ms |" in table
    assert "| b | 4 ms | 1.00 | itself |" in table


def test_candidates_run_in_turn(load: Any) -> None:
    calls: list[str] = []
    works = {name: lambda name=name: calls.append(name) for name in "ab"}
    assert load("measure").measure(works, rounds=2).keys() == {"a", "b"}
    assert "".join(calls)[-4:] == "abab"


def test_training_steps_have_a_row_for_each_precision(
    load: Any, small_store: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = load("train")
    for name, size in {"BATCH": 4, "CONTEXT": 5, "WIDTH": 16, "LAYERS": 1}.items():
        monkeypatch.setattr(train, name, size)
    rows = train.bench(argparse.Namespace(rounds=1, device="cpu", backbones="mingru"))
    assert {"train/mingru/fp32", "train/mingru/bf16", "products/mingru/fp32"} < {row.name for row in rows}
    assert all(row.value > 0 and row.ratio > 0 for row in rows)


def test_batches_and_layers_have_rows(load: Any, small_store: object, monkeypatch: pytest.MonkeyPatch) -> None:
    data, layers = load("data"), load("layers")
    monkeypatch.setattr(data, "SIZES", ((4, 5),))
    assert [row.name for row in data.bench(options())] == ["data/batch-4x5", "data/copy-4x5"]
    rows = layers.bench(argparse.Namespace(rounds=1, device="cpu", backbones="lru", lengths="5"))
    assert {row.name for row in rows} == {f"layers/{name}/5" for name in ("lru", "torch.nn.GRU", "torch.nn.LSTM")}


def test_products_of_a_work_are_its_matrix_products(load: Any) -> None:
    products = load("products")
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    calls = []
    replay = products.products_of(lambda: calls.append(torch.relu(a @ b)))
    replay()
    assert len(calls) == 1


@pytest.mark.slow
def test_actions_and_evaluations_have_rows(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    act, rollout = load("act"), load("rollout")
    monkeypatch.setattr(act, "BATCHES", (1,))
    monkeypatch.setattr(rollout, "EPISODES", 2)
    agent = argparse.Namespace(rounds=1, agent="pretrained/hopper-medium")
    assert {row.name for row in act.bench(agent)} == {f"act/{name}-1" for name in ("runtime", "eager", "window-20")}
    assert [row.name for row in rollout.bench(agent)] == ["rollout/episodes-2", "rollout/episodes-2/all-cores"]

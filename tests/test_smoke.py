"""From data to a score in one small run: every module imports, an agent trains, resumes, acts and is scored."""

import importlib
import pkgutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from swing import CAR, SMALL, push

import decision_rnn
from decision_rnn.cli.main import main

EXTRAS = {
    "av",
    "huggingface_hub",
    "ocbench",
    "ogbench",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "onnxscript",
    "pandas",
    "popgym",
    "pyarrow",
    "ray",
}
"""Packages that a plain installation lacks."""


def test_every_module_imports() -> None:
    for module in pkgutil.walk_packages(decision_rnn.__path__, "decision_rnn."):
        if module.name.endswith(("__main__", "recurrence_triton")):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
    for name in decision_rnn.__all__:  # a submodule of that name would hide it
        assert getattr(decision_rnn, name).__name__ == name


def test_small_run_from_data_to_score(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    monkeypatch.setattr(gymnasium.spec(CAR), "max_episode_steps", 100)
    decision_rnn.record(push, CAR, "local/smoke", episodes=4, progress=False)

    run = decision_rnn.train("local/smoke", SMALL, steps=10, output="run", progress=False)
    assert run.agent.step == 10
    result = run.evaluate([50.0], episodes=2, progress=False)
    assert np.isfinite(result.targets[0].returns).all()

    agent = decision_rnn.load_agent(folders / "run")
    assert agent.step == 10
    assert main(["evaluate", "run", "--episodes", "1"]) == 0
    train = ["train", "local/smoke", "--output", "second", "--training.steps", "4", "--evaluation.episodes", "1"]
    assert main([*train, "--backbone", "lru", "--backbone.width", "16", "--backbone.layers", "1"]) == 0

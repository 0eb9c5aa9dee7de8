"""Runs the docstring examples of the public API."""

import doctest
import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import decision_rnn
from decision_rnn import Run

EXAMPLES = (
    "EnvironmentActor",
    "Run",
    pytest.param("compare", marks=pytest.mark.slow),  # its worker processes import torch
    "evaluate",
    "load_agent",
    "merge_datasets",
    "open_dataset",
    "record",
    "train",
    "write_store",
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_example_runs(name: str, run: Run, folder: Path, inside: Path) -> None:
    if name != "train":  # its example creates this folder
        shutil.copytree(folder / "swing-up", "swing-up")
    names = {"decision_rnn": decision_rnn, "np": np, "gymnasium": gymnasium, "run": Run("swing-up")}
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(decision_rnn, name), name, globs=names)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0

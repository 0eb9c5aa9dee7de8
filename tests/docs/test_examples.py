"""The docstring examples of the public names run."""

import doctest
import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from small_comparison import Inline

import decision_rnn
from decision_rnn import Run

NAMES = [name for name in decision_rnn.__all__ if ">>>" in (getattr(decision_rnn, name).__doc__ or "")]


@pytest.mark.parametrize("name", NAMES)
def test_docstring_example_runs(name: str, run: Run, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other processes do not know that the car's episodes end early here.
    monkeypatch.setattr("decision_rnn.comparison.compare.make_executor", lambda *_: Inline())
    if name != "train":  # its example creates this folder
        shutil.copytree(run.folder, "swing-up")
    names = {"decision_rnn": decision_rnn, "np": np, "gymnasium": gymnasium, "run": Run("swing-up")}
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(decision_rnn, name), name, globs=names)
    assert doctest.DocTestRunner().run(example).failed == 0

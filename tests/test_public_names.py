"""The package's public names exist, and importing the package does not import torch."""

import importlib
import subprocess
import sys

import decision_rnn


def test_every_name_in_all_exists() -> None:
    importlib.import_module("decision_rnn.cli.main")
    importlib.import_module(
        "decision_rnn.evaluation.results"
    )  # a submodule with a public name would hide it from here on
    for name in decision_rnn.__all__:
        assert getattr(decision_rnn, name).__name__ == name


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import decision_rnn, decision_rnn.data.standin.collection, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

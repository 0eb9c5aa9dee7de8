"""The package's public names exist, and importing the package does not import torch."""

import importlib

import decision_rnn


def test_every_name_in_all_exists() -> None:
    importlib.import_module("decision_rnn.cli.main")
    importlib.import_module(
        "decision_rnn.evaluation.results"
    )  # a submodule with a public name would hide it from here on
    for name in decision_rnn.__all__:
        assert getattr(decision_rnn, name).__name__ == name

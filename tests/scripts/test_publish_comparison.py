"""A folder of results holds what a comparison wrote, and passes the check of numbers."""

import sys
from pathlib import Path

import publish_comparison
import pytest
from check_claims import faults
from made_comparison import of_scores

from decision_rnn import read_comparison
from decision_rnn.comparison.results import write_comparison


def test_published_folder_holds_the_data_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, folder = tmp_path / "runs", tmp_path / "results" / "memory" / "lists"
    runs.mkdir()
    comparison = of_scores({"mingru": [70.0, 72.0], "mlp": [50.0, 51.0]})
    write_comparison(runs, comparison)
    (runs / "config.yaml").write_text("datasets: [hopper-medium]\n")
    monkeypatch.setattr(sys, "argv", ["publish_comparison.py", str(runs), str(folder), "Ordered lists"])
    publish_comparison.main()
    assert {file.name for file in folder.iterdir()} == {"README.md", "comparison.json", "config.yaml", "scores.svg"}
    assert read_comparison(folder) == comparison
    assert (folder / "README.md").read_text().startswith("# Ordered lists\n\n![Scores](scores.svg)\n\n")
    assert not list(faults(tmp_path))

"""The notebook runs from its first cell to its last, in a fresh folder, and shows what its text says."""

from pathlib import Path
from typing import Any

import pytest
from guide import ROOT

nbformat = pytest.importorskip("nbformat", reason="needs pip install nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="needs pip install nbclient ipykernel")
pytest.importorskip("ipykernel", reason="needs pip install nbclient ipykernel")


@pytest.mark.slow
def test_notebook_runs_and_its_agent_follows_its_target(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "docs" / "first-agent.ipynb", as_version=4)
    names = "list(zip(targets, achieved)), (comparison.to_dataframe()['variant'].tolist())"
    notebook.cells.append(nbformat.v4.new_code_cell(names))
    for cell in notebook.cells:
        cell.source = cell.source.replace("steps=150", "steps=10")  # of the comparison, whose scores nothing reads
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folders)}}).execute()
    outputs: list[Any] = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output["data"] for output in outputs if "data" in output]
    followed, variants = eval(shown[-1]["text/plain"])
    assert all(abs(target - achieved) < 12 for target, achieved in followed)
    assert set(variants) == {"mingru", "mlp"}
    assert len([each for each in shown if "image/png" in each]) == 2
    assert len([each for each in shown if "image/gif" in each]) == 1
    assert "<table" in shown[-2]["text/html"]

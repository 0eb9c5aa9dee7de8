"""Reports under results/ end with the command, commit, seeds, hardware and versions in one format."""

import sys
from pathlib import Path

import pytest
from results_folder import provenance, table, write_report


def test_report_ends_with_how_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/scripts/standins.py", "--name", "two words"])
    text, made = table(["a", "b"], [["1", "2"]]), provenance(seeds=[0, 1], packages=["h5py"], notes="a note")
    write_report(tmp_path / "new" / "README.md", f"# Title\n\n{text}\n", made)
    *lines, last = (tmp_path / "new" / "README.md").read_text().splitlines()
    assert lines == ["# Title", "", "| a | b |", "| --- | --- |", "| 1 | 2 |", ""]
    for part in ("python scripts/standins.py --name 'two words'", "seeds 0, 1", "GPU", "torch ", "h5py ", "a note."):
        assert part in last

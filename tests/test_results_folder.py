"""Reports under results/ end with the command, commit, seeds, hardware and versions in one format."""

import sys
from pathlib import Path

import pytest
from results_folder import Made, write_report


def test_write_report_appends_how_it_was_made(tmp_path: Path) -> None:
    machine = {"cpu": "a processor", "cores": 2, "threads": 1, "gpu": None}
    made = Made("python scripts/x.py --name 'a b'", ["abc", "def"], [0, 1], machine, {"torch": "2.9"}, "a note")
    write_report(tmp_path / "new" / "README.md", "# Title\n\nText.\n", made)
    text = (tmp_path / "new" / "README.md").read_text()
    assert text.startswith("# Title\n\nText.\n\n")
    for part in ("python scripts/x.py --name 'a b'", "abc, def", "0, 1", "a processor", "torch 2.9", "a note"):
        assert part in text.splitlines()[-1]


def test_made_here_records_the_command_as_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/scripts/standins.py", "--name", "two words"])
    made = Made.here(seeds=[3])
    assert made.command == "python scripts/standins.py --name 'two words'"
    assert {"python", "torch", "mujoco", "decision-rnn"} <= made.versions.keys()

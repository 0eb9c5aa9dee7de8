"""Reports under results/ end with the command, commit, seeds, hardware and versions in one format."""

import ast
import sys
from pathlib import Path

import pytest
import results_folder
from results_folder import Made, write_report

SCRIPTS = Path(__file__).parents[1] / "scripts"
REPORTING = [
    path.stem
    for path in sorted(SCRIPTS.glob("*.py"))
    if path.stem != "results_folder" and ("RESULTS" in (text := path.read_text()) or '"results"' in text)
]
"""The scripts that write into results/."""


def test_write_report_appends_command_commit_seeds_hardware_and_versions(tmp_path: Path) -> None:
    machine = {"cpu": "a processor", "cores": 2, "threads": 1, "gpu": None}
    made = Made(
        "python scripts/x.py --name 'a b'", ["abc", "def"], [0, 1], machine, {"torch": "2.6"}, "beside other work"
    )
    write_report(tmp_path / "new" / "README.md", "# Title\n\nText.\n", made)
    assert (tmp_path / "new" / "README.md").read_text() == (
        "# Title\n\nText.\n\nMade by `python scripts/x.py --name 'a b'` at commit abc, def; seeds 0, 1; a processor, "
        f"2 cores, GPU: none; {results_folder.platform.system()}; torch 2.6; beside other work.\n"
    )


def test_made_here_records_the_command_as_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/scripts/standins.py", "--name", "two words"])
    made = Made.here(seeds=[3])
    assert "Made by `python scripts/standins.py --name 'two words'` at commit " in str(made)
    assert "; seed 3; " in str(made)
    assert {"python", "torch", "mujoco", "decision-rnn"} <= made.versions.keys()


def test_reporting_scripts_are_found() -> None:
    assert {"acting", "rtg_caps", "selective_copying", "standins", "third_party_layers"} < set(REPORTING)


@pytest.mark.parametrize("name", REPORTING)
def test_every_reporting_script_calls_write_report(name: str) -> None:
    tree = ast.parse((SCRIPTS / f"{name}.py").read_text())
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert "write_report" in called
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert not any("Made by `" in text for text in texts)

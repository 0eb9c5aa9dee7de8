"""scripts/acting.py: the report of results/deploy, with few steps."""

from pathlib import Path

import acting
import pytest


def test_acting_report_names_steps_policy_command_seed_and_versions(
    policy_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--steps", "200", "--policy", str(policy_path), "--output", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["scripts/acting.py", *options])
    acting.main()
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("# 200 steps of acting\n")
    assert "a mingru of 2 layers of width 16" in text
    last = text.splitlines()[-1]
    assert last.startswith("Made by `python scripts/acting.py --steps 200 ")
    assert "; seed 0; " in last
    assert "onnxruntime " in last

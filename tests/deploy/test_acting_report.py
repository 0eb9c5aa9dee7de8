"""results/deploy: the report of many steps of acting, on few of them."""

from pathlib import Path

import acting
import pytest


def test_report_has_the_steps_and_what_made_it(
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

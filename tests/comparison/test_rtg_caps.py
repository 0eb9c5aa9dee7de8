"""scripts/rtg_caps.py: the report on trained agents, with their seeds and commits."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import rtg_caps
from made_comparison import made_comparison


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results folder for a comparison on own/a (seeds 3 and 10) and own/b (seed 3); a score is the seed plus the
    return limit."""
    made = made_comparison(("mingru",), 1, ("own/a", "own/b"), (), (), checkpoints=0, episodes=2)
    first, second = made.trials
    cells = [
        replace(first, seed=10, commit="of-ten"),
        replace(first, seed=3, commit="of-three"),
        replace(second, seed=3, commit="of-three"),
    ]
    cells = [replace(cell, run=f"{cell.dataset.replace('/', '-')}/mingru-seed{cell.seed}") for cell in cells]
    (tmp_path / "runs").mkdir()
    comparison = replace(made, trials=tuple(cells))
    (tmp_path / "runs" / "comparison.json").write_text(json.dumps(comparison.to_dict()))

    def load_agent(run: Path) -> SimpleNamespace:
        spec = SimpleNamespace(target_returns=(3600.0, 1800.0))
        return SimpleNamespace(provenance=spec, seed=int(run.name.partition("-seed")[2]))

    def evaluate(trained: SimpleNamespace, target: float | str, rtg_cap: float, **options: object) -> SimpleNamespace:
        assert target == ("best" if rtg_cap else 3600)
        return SimpleNamespace(targets=[SimpleNamespace(score_mean=trained.seed + rtg_cap)])

    monkeypatch.setattr(rtg_caps, "load_agent", load_agent)
    monkeypatch.setattr(rtg_caps, "evaluate", evaluate)
    output = str(tmp_path / "results")
    monkeypatch.setattr("sys.argv", ["scripts/rtg_caps.py", str(tmp_path / "runs"), "--output", output])
    return tmp_path / "results"


def test_rtg_caps_report_names_seeds_and_commits_of_the_agents(runs: Path) -> None:
    rtg_caps.main()
    text = (runs / "README.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "| 3600 |" in line]
    assert [row[:4] for row in rows] == [["own/a", "3600", "3, 10", "6.5 ± 4.9"], ["own/b", "3600", "3", "3.0"]]
    last = text.splitlines()[-1]
    assert last.startswith("Made by `python scripts/rtg_caps.py ")
    assert "; seeds 3, 10; " in last
    assert last.endswith("; the agents were made at commit of-three, of-ten.")
    assert "by the defaults" not in text
    scores = json.loads((runs / "scores.json").read_text())
    assert scores["own/a"]["0.0"] == [3, 10]
    assert scores["own/b"]["0.9"] == [3.9]

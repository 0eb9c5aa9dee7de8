"""scripts/machines.py: the scores of the same variants on two machines, and their difference."""

import json
from dataclasses import replace
from pathlib import Path

import machines
import pytest
from made_comparison import HARDWARE, made_comparison
from scipy import stats

from decision_rnn.comparison.record import Comparison, Role
from decision_rnn.comparison.summary import summarise


def saved(folder: Path, comparison: Comparison) -> str:
    folder.mkdir()
    (folder / "comparison.json").write_text(json.dumps(comparison.to_dict()))
    return str(folder)


def elsewhere(comparison: Comparison) -> Comparison:
    """The same comparison on another machine, where every score is 10 points higher."""
    cells = [
        replace(
            cell,
            hardware={**HARDWARE, "cpu": "Other CPU"},
            targets=tuple(replace(target, score_mean=target.score_mean + 10) for target in cell.targets),
        )
        for cell in comparison.trials
    ]
    return replace(comparison, trials=tuple(cells))


def scores(comparison: Comparison, variant: str, role: Role) -> tuple[float, ...]:
    (summary,) = (summary for summary in summarise(comparison) if summary.variant == variant)
    return next(target.per_seed for target in summary.targets if role in target.target.roles)


def test_machines_compares_shared_variants_by_welchs_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = made_comparison(labels=("a", "b"), controls=(), cloning=("cloning",))
    second = elsewhere(made_comparison(labels=("a",), controls=(), cloning=("cloning",), seeds=6))
    folders = saved(tmp_path / "first", first), saved(tmp_path / "second", second)
    monkeypatch.setattr("sys.argv", ["scripts/machines.py", *folders])
    machines.main()
    printed = capsys.readouterr().out
    assert printed.startswith("first: Test CPU, 2 cores, GPU: none\nsecond: Other CPU, 2 cores, GPU: none\n")
    assert "| b |" not in printed
    for variant, role in (("a", "paper"), ("a", "best"), ("cloning", "bc")):
        ours, theirs = scores(first, variant, role), scores(second, variant, role)
        low, high = stats.ttest_ind(theirs, ours, equal_var=False).confidence_interval()
        assert f"{sum(theirs) / 6 - sum(ours) / 5:+.1f} [{low:+.1f}, {high:+.1f}]" in printed
    other = saved(tmp_path / "other", made_comparison(labels=("c",), controls=(), cloning=()))
    monkeypatch.setattr("sys.argv", ["scripts/machines.py", folders[0], other])
    with pytest.raises(SystemExit, match="2"):
        machines.main()
    assert "have no variant on the same dataset: name two that do" in capsys.readouterr().err

"""scripts/asked_achieved.py: the plot of target against achieved return shows the medians of the episodes."""

import json
import math
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import asked_achieved
import pytest
from made_comparison import made_comparison
from matplotlib.figure import Figure


def test_asked_achieved_curves_are_the_median_returns_of_each_seed_by_target() -> None:
    comparison = made_comparison(labels=["mingru", "lru"], seeds=3)
    (dataset,) = comparison.datasets
    found = asked_achieved.curves(comparison, dataset, "lru")
    of_seeds = [
        {target["target_return"]: statistics.median(target["returns"]) for target in cell["targets"]}
        for cell in comparison.to_dict()["trials"]
        if cell["variant"] == "lru"
    ]
    assert len(of_seeds) == 3
    for asked, medians in found.items():
        assert medians == pytest.approx([of_seed[asked] for of_seed in of_seeds])
    assert list(found) == sorted({target.target_return for target in dataset.targets})


def test_asked_achieved_draws_best_where_the_limit_is() -> None:
    comparison = made_comparison(labels=["mingru"], seeds=1)
    cell, (dataset,) = comparison.trials[0], comparison.datasets
    best = replace(cell.targets[0], target_return=math.inf, asked_mean=2296.0)
    comparison = replace(comparison, trials=(replace(cell, targets=(best, *cell.targets[1:])),))
    found = asked_achieved.curves(comparison, dataset, "mingru")
    assert found[math.inf] == [pytest.approx(statistics.median(best.returns))]
    assert asked_achieved.limit_of(comparison, dataset, "mingru") == 2296
    asked_achieved.draw(Figure().subplots(), comparison, dataset, "mingru")


def test_asked_achieved_plot_has_a_panel_for_each_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = made_comparison(labels=["mingru"], seeds=2, datasets=("standin/hopper-medium", "standin/hopper-mixed"))
    (tmp_path / "comparison.json").write_text(json.dumps(comparison.to_dict()))
    drawn: list[str] = []
    draw = asked_achieved.draw

    def watched(axes, comparison, dataset, variant):  # type: ignore[no-untyped-def]
        draw(axes, comparison, dataset, variant)
        drawn.append(axes.get_title())

    monkeypatch.setattr(asked_achieved, "draw", watched)
    monkeypatch.setattr(sys, "argv", ["asked_achieved.py", str(tmp_path)])
    asked_achieved.main()
    assert drawn == ["hopper-medium", "hopper-mixed"]
    assert (tmp_path / "asked-achieved.png").read_bytes().startswith(b"\x89PNG")

"""A folder of results holds what a comparison wrote, and passes the check of numbers."""

import sys
from dataclasses import replace
from pathlib import Path

import publish_comparison
import pytest
import yaml
from check_claims import faults
from made_comparison import of_scores

from decision_rnn import InputError, read_comparison
from decision_rnn.comparison.results import write_comparison


def test_published_folder_holds_the_data_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, folder = tmp_path / "runs", tmp_path / "results" / "memory" / "lists"
    runs.mkdir()
    comparison = of_scores({"mingru": [70.0, 72.0], "mlp": [50.0, 51.0]})
    write_comparison(runs, comparison)
    (runs / "config.yaml").write_text("datasets: [hopper-medium]\nseeds: [0, 1]\nvariants: {}\n")
    monkeypatch.setattr(sys, "argv", ["publish_comparison.py", str(runs), str(folder), "Ordered lists"])
    publish_comparison.main()
    assert {file.name for file in folder.iterdir()} == {"README.md", "comparison.json", "config.yaml", "scores.svg"}
    assert read_comparison(folder) == comparison
    assert (folder / "README.md").read_text().startswith("# Ordered lists\n\n![Scores](scores.svg)\n\n")
    assert not list(faults(tmp_path))


def publish(monkeypatch: pytest.MonkeyPatch, folder: Path, scores: dict[Path, dict[str, dict[int, float]]]) -> None:
    """Write a comparison to each folder, of scores by variant and seed, and publish them together."""
    for path, variants in scores.items():
        path.mkdir(exist_ok=True)
        comparison = of_scores({label: list(by_seed.values()) for label, by_seed in variants.items()})
        seeds = tuple(next(iter(variants.values())))
        trials = tuple(replace(trial, seed=seeds[trial.seed]) for trial in comparison.trials)
        write_comparison(path, replace(comparison, seeds=seeds, trials=trials))
        keys = {"datasets": ["hopper-medium"], "seeds": list(seeds), "variants": {label: {} for label in variants}}
        (path / "config.yaml").write_text(yaml.safe_dump(keys))
    monkeypatch.setattr(sys, "argv", ["publish_comparison.py", *map(str, scores), str(folder), "Joined"])
    publish_comparison.main()


def test_comparisons_of_other_seeds_and_variants_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = {"mingru": {0: 70.0, 1: 72.0}, "mlp": {0: 50.0, 1: 51.0}}
    seeds = {"mingru": {4: 80.0}, "mlp": {4: 55.0}}
    variants = {"lru": {0: 60.0, 1: 61.0, 4: 65.0}}
    folder = tmp_path / "results"
    publish(monkeypatch, folder, {tmp_path / "a": first, tmp_path / "b": seeds, tmp_path / "c": variants})
    comparison = read_comparison(folder)
    assert comparison.seeds == (0, 1, 4)
    scores = {row["variant"]: row["score"] for row in comparison.table() if row["target_return"] == 3600}
    assert scores == pytest.approx({"mingru": (70 + 72 + 80) / 3, "mlp": (50 + 51 + 55) / 3, "lru": 62})
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config == {
        "datasets": ["hopper-medium"],
        "seeds": [0, 1, 4],
        "variants": {"mingru": {}, "mlp": {}, "lru": {}},
    }


@pytest.mark.parametrize("second", [{"mingru": {1: 70.0}}, {"mingru": {2: 70.0}, "lru": {2: 70.0}}])
def test_run_that_is_there_twice_or_missing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: dict[str, dict[int, float]]
) -> None:
    with pytest.raises(InputError, match="once"):
        publish(monkeypatch, tmp_path / "results", {tmp_path / "a": {"mingru": {1: 70.0}}, tmp_path / "b": second})

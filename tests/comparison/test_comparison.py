"""Comparisons: what is kept from before and what must not be, what may stand in one table, a run that fails."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.comparison import cells
from decision_rnn.comparison.compare import compare
from decision_rnn.comparison.table import format_comparison
from decision_rnn.comparison.variants import Variant
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.results import read_result, write_result

Make = Callable[..., RunConfig]


def scores(comparison: dict[str, Any]) -> list[list[float]]:
    return [[target["score"] for target in entry["targets"]] for entry in comparison["variants"]]


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps of the agents that comparisons evaluate from here on."""
    steps: list[int] = []

    def counted(trained: Any, settings: EvaluationConfig) -> Any:
        steps.append(trained.step)
        return evaluate(trained, settings)

    monkeypatch.setattr(cells, "evaluate", counted)
    return steps


def test_a_result_on_other_contents_of_the_dataset_is_not_kept(
    write: Callable[[int], Path], small: Make, tmp_path: Path
) -> None:
    mine = write(0)
    variants = [Variant("mingru", small())]
    first = compare(variants, [0], tmp_path / "runs")
    assert compare(variants, [0], tmp_path / "runs")["variants"][0]["targets"] == first["variants"][0]["targets"]
    shutil.rmtree(mine)
    write(1)
    with pytest.raises(InputError, match="trained on other contents of own/mine"):
        compare(variants, [0], tmp_path / "runs")


@pytest.mark.parametrize("old", [False, True])
def test_a_result_of_another_step_or_protocol_is_not_taken_for_a_finished_one(
    mine: Path, small: Make, tmp_path: Path, evaluations: list[int], old: bool
) -> None:
    config, run = small(), tmp_path / "runs" / "mingru-seed0"
    variants = [Variant("mingru", config)]
    finished = compare(variants, [0], tmp_path / "runs")
    assert evaluations == [4]
    shutil.rmtree(run / "results")
    early, last = load_agent(run / "checkpoints" / "2"), load_agent(last_checkpoint(run))
    for trained, settings in (
        (early, config.evaluation),
        (last, EvaluationConfig(episodes=1, target_returns=(100.0,))),
        (last, replace(config.evaluation, episodes=2)),
        (last, replace(config.evaluation, state="window")),
        (last, replace(config.evaluation, seed=3)),
    ):
        path = write_result(run, evaluate(trained, settings))
        if old:
            as_version_01(path, run / "result.json")
        again = compare(variants, [0], tmp_path / "runs")
        assert scores(again) == scores(finished)
        assert again["protocol"] == finished["protocol"]
        assert evaluations.pop() == 4, "a result of another key was taken for the finished one"
        shutil.rmtree(run / "results")
        (run / "result.json").unlink(missing_ok=True)


def as_version_01(path: Path, old: Path) -> None:
    """Move a result to where version 0.1 put it, in its form."""
    data = json.loads(path.read_text())
    data["dataset"]["dataset"] = data["dataset"].pop("name")
    for newer in ("return_min", "return_max", "notes"):
        del data["dataset"][newer]
    for target in data["targets"]:
        del target["in_range"]
    data["protocol"]["window"] = data["protocol"]["window"] or 20
    data["checkpoint"] = data.pop("step")
    del data["schema"], data["remarks"], data["config"]["plugins"], data["config"]["actions"]
    path.unlink()
    old.write_text(json.dumps(data))


def test_a_finished_run_of_version_01_is_not_evaluated_again(
    mine: Path, small: Make, tmp_path: Path, evaluations: list[int]
) -> None:
    variants, run = [Variant("mingru", small())], tmp_path / "runs" / "mingru-seed0"
    first = compare(variants, [0], tmp_path / "runs")
    (path,) = (run / "results").iterdir()
    as_version_01(path, run / "result.json")
    evaluations.clear()
    second = compare(variants, [0], tmp_path / "runs")
    assert evaluations == []
    assert second["variants"][0]["targets"] == first["variants"][0]["targets"]
    assert second["dataset"] == first["dataset"]


def test_a_damaged_result_is_made_again(
    mine: Path, small: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants, run = [Variant("mingru", small())], tmp_path / "runs" / "mingru-seed0"
    first = compare(variants, [0], tmp_path / "runs")
    (path,) = (run / "results").iterdir()
    path.write_bytes(path.read_bytes()[:200])
    assert scores(compare(variants, [0], tmp_path / "runs")) == scores(first)
    assert f"{path} is not a result, or damaged" in capsys.readouterr().err
    assert read_result(path).step == 4


def test_two_variants_of_one_backbone_have_folders_of_their_own(mine: Path, small: Make, tmp_path: Path) -> None:
    variants = [Variant("narrow", small()), Variant("wide", small(width=32))]
    comparison = compare(variants, [0, 1], tmp_path / "runs")
    assert sorted(path.parent.name for path in (tmp_path / "runs").glob("*/config.yaml")) == [
        *("narrow-seed0", "narrow-seed1", "wide-seed0", "wide-seed1"),
    ]
    assert [(entry["label"], entry["config"]["backbone"]["width"]) for entry in comparison["variants"]] == [
        ("narrow", 16),
        ("wide", 32),
    ]
    for entry in comparison["variants"]:
        for i, target in enumerate(entry["targets"]):
            own = [
                read_result(next((tmp_path / "runs" / f"{entry['label']}-seed{seed}" / "results").iterdir()))
                for seed in (0, 1)
            ]
            assert target["score_per_seed"] == [result.targets[i].score_mean for result in own]
            assert target["spread"] == "range"
            assert target["return_per_seed"] == [result.targets[i].return_mean for result in own]
    assert json.loads((tmp_path / "runs" / "comparison.json").read_text())["schema"] == 2


def test_variants_that_differ_in_their_training_say_so(mine: Path, small: Make, tmp_path: Path) -> None:
    variants = [Variant("short", small(training={"steps": 2})), Variant("long", small())]
    text = format_comparison(compare(variants, [0], tmp_path / "runs"))
    assert "2 (short); 4 (long) steps" in text


def test_cloning_stands_in_a_column_of_its_own(mine: Path, small: Make, tmp_path: Path) -> None:
    variants = [
        Variant("asked", small(evaluation={"target_returns": [1.0, 2.0]})),
        Variant("clone", small(evaluation={"target_returns": [1.0, 2.0]}, agent={"return_conditioning": False})),
    ]
    comparison = compare(variants, [0], tmp_path / "runs")
    head, _, asked, clone, _ = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in format_comparison(comparison).splitlines()
        if line.startswith("|")
    )
    columns = [i for i, cell in enumerate(head) if cell.startswith("score")]
    assert [head[i].split(", ")[1] for i in columns] == ["asked 1", "asked 2", "cloning"]
    assert [bool(asked[i]) for i in columns] == [True, True, False]
    assert [bool(clone[i]) for i in columns] == [False, False, True]


def test_labels_name_folders_and_are_unique(small: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two variants are called 'mingru'"):
        compare([Variant("mingru", small()), Variant("mingru", small(seed=3))], [0], tmp_path)
    for label in ("", "../up", "a/b", ".hidden", "-x", "a b", "a\n"):
        with pytest.raises(InputError, match="cannot name a folder"):
            Variant(label, small())
    assert Variant("layers.Average", small()).folder(tmp_path, 3) == tmp_path / "layers.Average-seed3"


@pytest.mark.parametrize(
    ("options", "key"),
    [({"evaluation": {"episodes": 3}}, "evaluation"), ({"partial": "drop"}, "partial"), ({"path": "x"}, "path")],
)
def test_what_is_compared_has_the_same_data_and_evaluation(
    small: Make, tmp_path: Path, options: dict[str, Any], key: str
) -> None:
    with pytest.raises(InputError, match=f"other has {key} .* must be alike"):
        compare([Variant("one", small()), Variant("other", small(**options))], [0], tmp_path)


def test_a_comparison_of_nothing_is_refused(small: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one variant"):
        compare([], [0], tmp_path)
    for seeds in ([], [1, 1]):
        with pytest.raises(InputError, match="seeds"):
            compare([Variant("one", small())], seeds, tmp_path)
    with pytest.raises(InputError, match=r"evaluation\.episodes is 0"):
        compare([Variant("one", small(evaluation={"episodes": 0}))], [0], tmp_path)
    with pytest.raises(InputError, match="add --plugins not_imported_yet"):
        compare([Variant("one", replace(small(), plugins=("not_imported_yet",)))], [0], tmp_path)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_fails_leaves_the_others_their_table(
    mine: Path, small: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str], jobs: int
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "bad-seed1").write_text("no folder can be made here")
    variants = [Variant("bad", small()), Variant("good", small())]
    comparison = compare(variants, [0, 1], tmp_path / "runs", jobs)
    (failed,) = comparison["failed"]
    assert (failed["label"], failed["seed"]) == ("bad", 1)
    assert "Not a directory" in failed["error"]
    assert "bad-seed1 failed: " in capfd.readouterr().err
    assert [entry["seeds"] for entry in comparison["variants"]] == [[0], [0, 1]]
    table = (tmp_path / "runs" / "comparison.md").read_text()
    assert "- bad, seed 1, failed: " in table
    (tmp_path / "runs" / "bad-seed1").unlink()
    assert compare(variants, [0, 1], tmp_path / "runs", jobs)["failed"] == []


def test_an_error_that_is_no_input_error_is_a_failed_run_too(
    mine: Path, small: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = cells.train

    def fails(config: RunConfig, run: Path, resume: bool = False) -> Any:
        if run.name == "bad-seed0":
            raise MemoryError("no room")
        return train(config, run, resume)

    monkeypatch.setattr(cells, "train", fails)
    comparison = compare([Variant("bad", small()), Variant("good", small())], [0], tmp_path / "runs")
    assert comparison["failed"] == [{"label": "bad", "seed": 0, "error": "MemoryError: no room"}]
    assert "Traceback" in capsys.readouterr().err
    with pytest.raises(MemoryError):
        compare([Variant("bad", small())], [0], tmp_path / "runs")


def test_a_folder_of_another_configuration_is_found_before_anything_is_trained(
    mine: Path, small: Make, tmp_path: Path
) -> None:
    compare([Variant("last", small())], [0], tmp_path / "runs")
    with pytest.raises(InputError, match=r"training\.batch_size"):
        compare(
            [Variant(label, small(training={"batch_size": 8})) for label in ("new", "last")], [0], tmp_path / "runs"
        )
    assert not (tmp_path / "runs" / "new-seed0").exists()

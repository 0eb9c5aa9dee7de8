"""Comparisons that go on: which earlier runs and results count, which fail or are refused, and the record."""

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from made_comparison import of_scores
from small_comparison import Inline, pendulum_episodes, small

import decision_rnn
from decision_rnn.cli.compare import make_command_plan
from decision_rnn.cli.parser import command_parser
from decision_rnn.comparison.compare import make_plan
from decision_rnn.comparison.results import Comparison, read_comparison, write_comparison
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.sources.local import LocalSource
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.results import read_result, write_result
from decision_rnn.runs.checkpoint import load_agent
from decision_rnn.runs.folder import last_checkpoint, read_config
from decision_rnn.utils.errors import InputError, MachineError
from decision_rnn.utils.files import locked

Compare = Callable[..., Comparison]
NARROW_AND_WIDE = {"narrow": {}, "wide": {"backbone": {"width": 32}}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of the run of the variant narrow with seed 0."""
    return tmp_path / "runs" / "local-mine" / "narrow-seed0"


def test_run_on_other_contents_of_the_dataset_is_refused(write: Callable[..., Path], comparing: Compare) -> None:
    mine = write(0)
    first = comparing()
    assert comparing().trials == first.trials
    shutil.rmtree(mine)
    write(1)
    with pytest.raises(InputError, match=r"narrow-seed0.*local/mine"):
        comparing()


def test_results_in_another_environment_are_not_reused(
    write: Callable[..., Path], comparing: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    pendulum = gymnasium.spec("Pendulum-v1")
    monkeypatch.setitem(gymnasium.registry, "Short-v1", replace(pendulum, id="Short-v1", max_episode_steps=7))
    mine = write(0)
    (before,) = comparing().trials
    assert {target.length_mean for target in before.targets} == {20.0}
    shutil.rmtree(mine)
    write(0, environment_id="Short-v1")
    (after,) = comparing().trials
    assert {target.length_mean for target in after.targets} == {7.0}


def test_result_of_another_key_or_damaged_does_not_count(
    mine: Path, comparing: Compare, run: Path, executor: Inline, capsys: pytest.CaptureFixture[str]
) -> None:
    (finished,) = comparing().trials
    (result,) = (run / "results").iterdir()
    settings = replace(read_config(run).evaluation, target_returns=read_result(result).protocol.target_returns)
    early, last = load_agent(run / "checkpoints" / "2"), load_agent(last_checkpoint(run))
    shutil.rmtree(run / "results")
    for trained, other in (
        (early, settings),
        (last, replace(settings, target_returns=(100.0,))),
        (last, replace(settings, episodes=2)),
        (last, replace(settings, inference="window")),
        (last, replace(settings, seed=3)),
    ):
        write_result(run, score(trained, other))
    (again,) = comparing(executor).trials
    assert again.targets == finished.targets
    assert executor.started == [run.name], "a result of another key was taken for the finished one"
    (result,) = (path for path in (run / "results").iterdir() if read_result(path).targets == finished.targets)
    result.write_bytes(result.read_bytes()[:200])
    assert comparing().trials[0].targets == finished.targets
    assert str(result) in capsys.readouterr().err


def test_reworded_dataset_does_not_start_finished_runs(
    mine: Path, comparing: Compare, executor: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = comparing(checkpoint_episodes=1).trials
    spec = LocalSource.spec
    monkeypatch.setattr(LocalSource, "spec", lambda *names: replace(spec(*names), comparable="in other words"))
    again = comparing(executor, checkpoint_episodes=1)
    assert again.datasets[0].data.comparable == "in other words"
    assert executor.started == []
    assert again.trials == (first,)


def test_masked_variant_and_dropped_episodes_are_remarked_once(mine: Path, comparing: Compare) -> None:
    (trial,) = comparing(partial="drop", **{"evaluation.episodes": 1}).trials
    assert not [remark for remark in trial.remarks if "partial episodes" in remark]  # the dataset's note says it


def test_each_dataset_variant_and_seed_has_a_run_and_trial(
    write: Callable[..., Path], comparing: Compare, tmp_path: Path
) -> None:
    write(0), write(1, "local/other")
    keys = {"datasets": "local/mine,local/other", "variants": NARROW_AND_WIDE, "seeds": 2, "seed": 3}
    comparison = comparing(**keys)
    output = tmp_path / "runs"
    labels = [f"{label}-seed{seed}" for label in ("narrow", "wide") for seed in (3, 4)]
    runs = [f"local-{data}/{label}" for data in ("mine", "other") for label in labels]
    assert sorted(str(path.parent.relative_to(output)) for path in output.glob("*/*/config.yaml")) == runs
    assert [variant.config["backbone"]["width"] for variant in comparison.variants] == [16, 32]
    for dataset in comparison.datasets:
        assert dataset.data.return_max == open_dataset(dataset.data.name).store.episode_returns.max()
        trials = comparison.runs(dataset.data.name)
        assert {label: [trial.seed for trial in runs] for label, runs in trials.items()} == {
            "narrow": [3, 4],
            "wide": [3, 4],
        }
        for trial in (*trials["narrow"], *trials["wide"]):
            (path,) = (output / trial.run / "results").iterdir()
            result = read_result(path)
            assert (result.dataset.name, result.targets) == (dataset.data.name, trial.targets)
    assert read_comparison(output) == comparison
    assert comparing(**keys) == comparison


def test_checkpoint_episodes_evaluate_every_checkpoint_once(
    mine: Path, comparing: Compare, run: Path, executor: Inline, tmp_path: Path
) -> None:
    keys: dict[str, Any] = {"training.steps": 7, "evaluation.target_returns": [100.0, 50.0], "backbone.dropout": 0.2}
    keys["condition.rtg_quantile"] = 0
    (trial,) = comparing(**keys, checkpoint_episodes=2).trials
    results = [read_result(path) for path in (run / "results").iterdir()]
    checkpoints = {result.step: result.targets for result in results if result.protocol.episodes == 2}
    assert (len(results), sorted(checkpoints)) == (5, [2, 4, 6, 7])
    first, best = checkpoints[2]
    assert (first.target_return, len(first.returns)) == (100.0, 2)
    assert best.target_return == open_dataset("local/mine").store.episode_returns.max()
    assert comparing(executor, **keys, checkpoint_episodes=3).trials == (trial,)
    assert executor.started == []
    comparing(**keys, output=str(tmp_path / "unwatched"))  # evaluating checkpoints leaves the weights unchanged
    unwatched = tmp_path / "unwatched" / run.relative_to(tmp_path / "runs")
    weights = [(folder / "checkpoints" / "7" / "weights.safetensors").read_bytes() for folder in (run, unwatched)]
    assert weights[0] == weights[1]


def test_failed_run_is_listed_and_leaves_the_others(
    mine: Path, comparing: Compare, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs" / "local-mine" / "bad-seed1"
    place.parent.mkdir(parents=True)
    place.write_text("no folder can be made here")
    keys: dict[str, Any] = {"variants": {"bad": {}, "good": {}}, "seeds": 2}
    comparison = comparing(**keys)
    (failed,) = comparison.failed
    assert (failed.variant, failed.dataset, failed.seed, failed.run) == ("bad", "local/mine", 1, "local-mine/bad-seed1")
    assert "File exists" in failed.error
    assert "local-mine/bad-seed1 failed: " in capfd.readouterr().err
    assert [(trial.variant, trial.seed) for trial in comparison.trials] == [("bad", 0), ("good", 0), ("good", 1)]
    text = (tmp_path / "runs" / "comparison.md").read_text()
    assert "1 of 2 failed" in text
    place.unlink()
    assert comparing(**keys).failed == ()


def test_comparison_without_a_result_raises(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    place = tmp_path / "runs" / "local-mine"
    place.parent.mkdir()
    place.write_text("no folder can be made here")
    with pytest.raises(MachineError, match=rf"narrow-seed0 failed: .*Not a directory.* {place}/narrow-seed0"):
        comparing(variants=NARROW_AND_WIDE)
    assert len(read_comparison(tmp_path / "runs").failed) == 2


def test_comparison_of_other_runs_is_not_replaced(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    comparing(variants=NARROW_AND_WIDE)
    before = (tmp_path / "runs" / "comparison.json").read_bytes()
    with pytest.raises(InputError, match="local-mine/wide-seed0"):
        comparing(variants={"narrow": {}})
    with pytest.raises(InputError, match=r"narrow-seed0.*training\.batch_size"):  # a run of another configuration
        comparing(variants={"new": {}, **NARROW_AND_WIDE}, **{"training.batch_size": 8})
    assert not (tmp_path / "runs" / "local-mine" / "new-seed0").exists()
    assert (tmp_path / "runs" / "comparison.json").read_bytes() == before
    more = comparing(variants={**NARROW_AND_WIDE, "deep": {"backbone": {"layers": 2}}})  # more runs are welcome
    assert len(more.trials) == 3
    (tmp_path / "runs" / "comparison.json").unlink()
    assert len(comparing().trials) == 1
    with locked(tmp_path / "runs" / "comparison"), pytest.raises(InputError, match="another process"):
        comparing()


def test_runs_count_as_done_by_what_they_are_not_how_written(
    mine: Path, comparing: Compare, executor: Inline, run: Path
) -> None:
    (first,) = comparing(condition="none", checkpoint_episodes=1).trials
    config = (run / "config.yaml").read_bytes()
    with pytest.raises(InputError, match=r"narrow-seed0.*condition\.name 'none'"):
        comparing(executor, checkpoint_episodes=1)
    explicit = {"condition": "none", "objective": "mse", "training.optimizer": "adamw"}
    assert comparing(executor, **explicit, checkpoint_episodes=1).trials == (first,)
    assert executor.started == []
    assert (run / "config.yaml").read_bytes() == config


def test_margin_is_recorded_and_trains_nothing_again(
    mine: Path, comparing: Compare, executor: Inline, tmp_path: Path
) -> None:
    first = comparing(variants=NARROW_AND_WIDE)
    again = comparing(executor, variants=NARROW_AND_WIDE, margin=5)
    assert executor.started == []
    assert (first.margin, again.margin, again.trials) == (None, 5.0, first.trials)
    assert read_comparison(tmp_path / "runs").margin == 5.0
    assert "5 points" in str(again)
    record = json.loads((tmp_path / "runs" / "comparison.json").read_text())
    del record["margin"]  # as before there were margins
    (tmp_path / "runs" / "comparison.json").write_text(json.dumps(record))
    assert read_comparison(tmp_path / "runs") == replace(again, margin=None)


def test_configuration_in_the_folder_makes_the_plan_again(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    """That of the comparison with more seeds; one of other runs leaves it alone."""
    keys: dict[str, Any] = {"controls": "bc", "seed": 3, "training.learning_rate": 1e-5}
    comparing(**keys)
    more = {**keys, "seeds": 2, "margin": 4}
    comparing(**more)
    with pytest.raises(InputError, match="local-mine/bc-seed3"):
        comparing(seeds=[3], **{"training.learning_rate": 1e-5})
    words = ["--config", str(tmp_path / "runs" / "config.yaml"), "--output", str(tmp_path / "runs")]
    plan = make_command_plan(command_parser("compare").read(words))
    assert plan == make_plan(small(tmp_path / "runs", **more), "test")
    assert (plan.seeds, plan.margin, len(plan.variants)) == ((3, 4), 4.0, 2)


def test_folder_of_a_run_is_not_a_comparisons(mine: Path, comparing: Compare, run: Path) -> None:
    comparing()
    before = (run / "config.yaml").read_text()
    with pytest.raises(InputError, match=str(run)):
        comparing(output=str(run))
    assert (run / "config.yaml").read_text() == before


def test_named_seeds_of_two_machines_are_joined(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    """The folder with all runs is the comparison of all seeds."""
    named = [comparing(seeds=[seed], output=tmp_path / f"machine{seed}") for seed in (5, 3)]
    assert [comparison.seeds for comparison in named] == [(5,), (3,)]
    for seed in (3, 5):
        shutil.copytree(
            tmp_path / f"machine{seed}" / "local-mine", tmp_path / "runs" / "local-mine", dirs_exist_ok=True
        )
    executor = Inline()
    joined = comparing(executor, seeds=[3, 5])
    assert executor.started == []
    assert {trial.seed: trial for trial in joined.trials} == {each.seeds[0]: each.trials[0] for each in named}


def test_trial_has_the_costs_of_the_run(mine: Path, comparing: Compare, run: Path) -> None:
    (trial,) = comparing().trials
    agent = load_agent(last_checkpoint(run)).agent
    assert trial.parameters == sum(parameter.numel() for parameter in agent.parameters())
    # Return-to-go, action, timestep, and the hidden state of the only layer.
    assert trial.state_bytes == 4 + 4 + 8 + 4 * 16
    assert np.isfinite(trial.action_microseconds)


def test_compare_takes_episodes_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("decision_rnn.comparison.compare.make_executor", lambda *_: Inline())
    keys = small(tmp_path / "runs")
    comparison = decision_rnn.compare(
        pendulum_episodes(0),
        environment_id="Pendulum-v1",
        steps=2,
        jobs=1,
        progress=False,
        backbone={"name": "mingru", "width": 16, "layers": 1},
        training={"context": 4},
        evaluation={"episodes": 1},
        **{name: keys[name] for name in ("variants", "controls", "seeds", "checkpoint_episodes", "output")},
    )
    (trial,) = comparison.trials
    assert trial.dataset.startswith("episodes/")
    assert f"datasets=['{trial.dataset}']" in comparison.command


def test_target_auto_is_written_and_read_by_its_name(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    comparison = comparing(**{"evaluation.target_returns": "auto"}, checkpoint_episodes=1, controls="bc")
    target = comparison.datasets[0].targets[0]
    assert (target.target_return, target.roles, target.in_range) == (math.inf, ("paper", "best"), None)
    folder = tmp_path / "runs"
    assert read_comparison(folder) == comparison
    record = (folder / "comparison.json").read_text()
    assert '"target_return":"auto"' in record
    assert '"target_return":Infinity' not in record
    text = (folder / "comparison.md").read_text()
    assert "target auto" in text
    assert not re.search(r"\binf\b", text)


def test_folder_has_a_record_tables_and_a_picture(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    """The record has the measurements of the runs, and nothing that is computed from them."""
    comparison = comparing(controls="bc", seeds=2, **{"evaluation.episodes": 2})
    folder = tmp_path / "runs"
    assert {path.name for path in folder.iterdir() if path.is_file() and path.name[0] != "."} == {
        *("comparison.json", "comparison.md", "report.html", "scores.svg", "config.yaml"),
    }
    record = json.loads((folder / "comparison.json").read_text())
    assert record.keys() == {field.name for field in fields(comparison)}
    assert decision_rnn.read_comparison(str(folder)) == comparison


def test_data_frames_have_a_row_for_each_target(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    comparison = of_scores({"mingru": [50.0, 51.0], "lru": [10.0, 11.0]})
    write_comparison(tmp_path, comparison)
    frame = read_comparison(tmp_path).to_dataframe()
    assert frame.score.tolist() == [row["score"] for row in comparison.table()]
    (tmp_path / "comparison.json").write_text('{"schema": 3}')
    with pytest.raises(InputError, match=r"comparison\.json.*schema.* 5"):
        read_comparison(tmp_path)

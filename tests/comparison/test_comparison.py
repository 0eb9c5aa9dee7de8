"""Comparisons: which earlier results are reused, which variants may be compared, failed runs."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from decision_rnn.agent import DecisionAgent
from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.comparison import cells
from decision_rnn.comparison.record import Comparison, read_comparison
from decision_rnn.comparison.report.markdown import format_comparison
from decision_rnn.comparison.report.page import build_page
from decision_rnn.comparison.variants import Variant, cloning_controls
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.catalog import open_dataset
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.results import read_result, write_result
from decision_rnn.files import locked

Make = Callable[..., RunConfig]
Compare = Callable[..., Comparison]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of the run of the variant mingru with seed 0."""
    return tmp_path / "runs" / "own-mine" / "mingru-seed0"


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The training steps of the agents that comparisons evaluate during the test."""
    steps: list[int] = []

    def counted(trained: Any, settings: EvaluationConfig, **options: Any) -> Any:
        steps.append(trained.step)
        return evaluate(trained, settings, **options)

    monkeypatch.setattr(cells, "evaluate", counted)
    return steps


def test_result_on_other_contents_of_the_dataset_fails_the_run(
    write: Callable[..., Path], small: Make, comparing: Compare
) -> None:
    mine, variants = write(0), [Variant("mingru", small())]
    first = comparing(variants)
    assert comparing(variants).trials == first.trials
    shutil.rmtree(mine)
    write(1)
    (failed,) = comparing(variants).failed
    assert "trained on other contents of own/mine" in failed.error


def test_action_of_an_agent_trained_on_another_device_is_timed_on_the_cpu(
    mine: Path, small: Make, comparing: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, timed = [], []
    monkeypatch.setattr(DecisionAgent, "cpu", lambda agent: moved.append(agent) or agent, raising=False)
    monkeypatch.setattr(cells, "action_cost", lambda agent, actor: timed.append(agent) or (1.0, 1))
    assert not comparing([Variant("mingru", small())]).failed
    assert len(timed) == 1
    assert timed[0] is moved[-1]


def test_results_in_another_environment_of_the_same_episodes_are_not_reused(
    write: Callable[..., Path], small: Make, comparing: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    pendulum = gymnasium.spec("Pendulum-v1")
    monkeypatch.setitem(gymnasium.registry, "Short-v1", replace(pendulum, id="Short-v1", max_episode_steps=7))
    variants = [Variant("mingru", small())]
    mine = write(0)
    (before,) = comparing(variants, checkpoint_episodes=2).trials
    assert {target.length_mean for target in before.targets} == {200.0}
    shutil.rmtree(mine)
    write(0, environment_id="Short-v1")
    (after,) = comparing(variants, checkpoint_episodes=2).trials
    assert {target.length_mean for target in after.targets} == {7.0}
    assert {target.length_mean for point in after.checkpoints for target in point.targets} == {7.0}


def test_result_of_another_step_or_protocol_does_not_count_as_finished(
    mine: Path, small: Make, comparing: Compare, run: Path, evaluations: list[int]
) -> None:
    variants = [Variant("mingru", small())]
    (finished,) = comparing(variants).trials
    assert evaluations == [4]
    (result,) = (run / "results").iterdir()
    protocol = cells.settings_of(read_result(result).protocol)
    shutil.rmtree(run / "results")
    early, last = load_agent(run / "checkpoints" / "2"), load_agent(last_checkpoint(run))
    for trained, settings in (
        (early, protocol),
        (last, replace(protocol, target_returns=(100.0,))),
        (last, replace(protocol, episodes=2)),
        (last, replace(protocol, state="window")),
        (last, replace(protocol, seed=3)),
    ):
        (run / "cell.json").unlink()
        write_result(run, evaluate(trained, settings))
        (again,) = comparing(variants).trials
        assert again.targets == finished.targets
        assert evaluations.pop() == 4, "a result of another key was taken for the finished one"
        shutil.rmtree(run / "results")


def test_finished_run_without_cell_json_is_not_evaluated_again(
    mine: Path, small: Make, comparing: Compare, run: Path, evaluations: list[int]
) -> None:
    variants = [Variant("mingru", small())]
    (first,) = comparing(variants).trials
    (run / "cell.json").unlink()
    evaluations.clear()
    (second,) = comparing(variants).trials
    assert evaluations == []
    assert [target.returns for target in second.targets] == [target.returns for target in first.targets]


@pytest.mark.parametrize("name", ["cell.json", "results"])
def test_damaged_cell_json_or_result_is_written_again(
    mine: Path, small: Make, comparing: Compare, run: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    variants = [Variant("mingru", small())]
    (first,) = comparing(variants).trials
    path = run / name
    if path.is_dir():
        (run / "cell.json").unlink()
        (path,) = path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:200])
    (second,) = comparing(variants).trials
    assert second.targets == first.targets
    assert f"{path} is" in capsys.readouterr().err
    assert len(path.read_bytes()) > 200


def test_each_dataset_variant_and_seed_has_its_own_run_folder_and_cell(
    write: Callable[..., Path], small: Make, comparing: Compare, tmp_path: Path
) -> None:
    write(0), write(1, "own/other")
    variants = [Variant("narrow", small()), Variant("wide", small(width=32))]
    comparison = comparing(variants, datasets=("own/mine", "own/other"), seeds=(0, 3), command="typed")
    runs = [
        f"own-{data}/{label}-seed{seed}"
        for data in ("mine", "other")
        for label in ("narrow", "wide")
        for seed in (0, 3)
    ]
    output = tmp_path / "runs"
    assert sorted(str(path.parent.relative_to(output)) for path in output.glob("*/*/config.yaml")) == runs
    assert [variant.config["backbone"]["width"] for variant in comparison.variants] == [16, 32]
    for dataset in comparison.datasets:
        store = open_dataset(dataset.data.name).open()
        assert dataset.data.return_max == store.episode_returns.max()
        for variant in ("narrow", "wide"):
            found = comparison.trials_of(variant, dataset.data.name)
            assert [cell.seed for cell in found] == [0, 3]
            for cell in found:
                (path,) = (output / cell.run / "results").iterdir()
                result = read_result(path)
                assert result.dataset.name == dataset.data.name
                scores = {target.target_return: target.score_mean for target in result.targets}
                assert [target.score_mean for target in cell.targets] == [
                    scores[target.target_return] for target in dataset.targets
                ]
    assert read_comparison(output) == comparison
    assert comparing(variants, datasets=("own/mine", "own/other"), seeds=(0, 3), command="typed") == comparison


def test_comparison_targets_are_the_papers_the_best_of_the_data_and_a_spread(
    mine: Path, small: Make, comparing: Compare
) -> None:
    returns = open_dataset("own/mine").open().episode_returns
    beyond = float(returns.max()) + 10
    comparison = comparing([Variant("mingru", small(evaluation={"target_returns": [beyond, float(returns.max())]}))])
    targets = comparison.datasets[0].targets
    assert [(target.roles, target.in_range) for target in targets] == [
        (("paper",), False),
        (("paper", "best"), True),
        *[(("spread",), True)] * 5,
    ]
    assert targets[1].target_return == returns.max()
    assert all(returns.min() < target.target_return < returns.max() for target in targets[2:])
    (cell,) = comparison.trials
    assert [target.target_return for target in cell.targets] == [target.target_return for target in targets]


def test_episodes_csv_has_one_row_per_episode(mine: Path, small: Make, comparing: Compare, tmp_path: Path) -> None:
    config = small(evaluation={"episodes": 2})
    comparison = comparing([Variant("mingru", config), cloning_controls(config)["bc"]], seeds=(0, 1))
    with (tmp_path / "runs" / "episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    data = comparison.datasets[0].data
    for cell in comparison.trials:
        own = [row for row in rows if (row["variant"], row["seed"]) == (cell.variant, str(cell.seed))]
        assert [float(row["return"]) for row in own] == [value for target in cell.targets for value in target.returns]
        assert [row["episode"] for row in own] == ["0", "1"] * len(cell.targets)
        assert {row["dataset"] for row in own} == {"own/mine"}
        if cell.variant == "bc":
            assert [(row["target_return"], row["role"]) for row in own] == [("", "bc")] * 2
        for row in own:
            span = data.reference_max - data.reference_min
            assert float(row["score"]) == pytest.approx(
                100 * (float(row["return"]) - data.reference_min) / span, abs=1e-3
            )
    assert len(rows) == 2 * 2 * (len(comparison.datasets[0].targets) + 1)


def test_checkpoint_episodes_evaluate_every_checkpoint_once(
    mine: Path, small: Make, comparing: Compare, run: Path, evaluations: list[int]
) -> None:
    """With more checkpoint episodes than before, only checkpoints that still exist are evaluated."""
    variants = [Variant("mingru", small(training={"steps": 7}, evaluation={"target_returns": [100.0, 50.0]}))]
    (cell,) = comparing(variants, checkpoint_episodes=2).trials
    assert evaluations == [2, 4, 6, 7, 7]
    assert [point.step for point in cell.checkpoints] == [2, 4, 6, 7]
    first, best = cell.checkpoints[0].targets
    assert (first.target_return, len(first.returns)) == (100.0, 2)
    assert best.target_return == open_dataset("own/mine").open().episode_returns.max()
    (run / "cell.json").unlink()
    evaluations.clear()
    (again,) = comparing(variants, checkpoint_episodes=2).trials
    assert evaluations == []
    assert again.checkpoints == cell.checkpoints
    (more,) = comparing(variants, checkpoint_episodes=3).trials
    assert [point.step for point in more.checkpoints] == [7]  # the others were deleted
    assert more.targets == cell.targets


def test_checkpoint_episodes_leave_the_trained_weights_unchanged(
    mine: Path, small: Make, comparing: Compare, run: Path, tmp_path: Path
) -> None:
    variants = [
        Variant("mingru", small(training={"steps": 6}, backbone={"name": "mingru", "width": 16, "dropout": 0.2}))
    ]
    comparing(variants)
    comparing(variants, checkpoint_episodes=2, output=tmp_path / "watched")
    watched = tmp_path / "watched" / run.relative_to(tmp_path / "runs")
    weights = [(folder / "checkpoints" / "6" / "weights.safetensors").read_bytes() for folder in (run, watched)]
    assert weights[0] == weights[1]


def test_cloning_controls_have_no_return_conditioning_and_a_best_fraction(small: Make) -> None:
    config = small()
    controls = cloning_controls(config)
    assert all(variant.control and not variant.config.takes_target for variant in controls.values())
    assert controls["bc"].config.top_fraction == 1
    assert controls["bc-10%"].config.top_fraction == 0.1
    assert replace(controls["bc"].config, condition=config.condition) == config


def test_variant_labels_must_be_valid_folder_names_and_unique(small: Make, comparing: Compare) -> None:
    with pytest.raises(InputError, match="two variants are called 'mingru'"):
        comparing([Variant("mingru", small()), Variant("mingru", small(seed=3))])
    for label in ("", "../up", "a/b", ".hidden", "-x", "a b", "a\n"):
        with pytest.raises(InputError, match="cannot name a folder"):
            Variant(label, small())
    assert Variant("layers.Average", small()).label == "layers.Average"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"evaluation": {"episodes": 3}}, r"evaluation\.episodes 3"),
        ({"evaluation": {"seed": 3}}, r"evaluation\.seed 3"),
        ({"evaluation": {"target_returns": [3.0]}}, r"evaluation\.target_returns \(3\.0,\)"),
        ({"partial": "drop"}, "partial"),
        ({"path": "x"}, "path"),
    ],
)
def test_variants_with_different_data_or_evaluation_options_are_refused(
    small: Make, comparing: Compare, options: dict[str, Any], key: str
) -> None:
    with pytest.raises(InputError, match=f"other has {key} .* must be alike"):
        comparing([Variant("one", small()), Variant("other", small(**options))])


def test_variant_with_its_own_window_uses_it_in_every_evaluation(
    mine: Path, small: Make, comparing: Compare, tmp_path: Path
) -> None:
    """Two agents with the same weights, one of which acts with a window of three steps."""
    windowed = small(evaluation={"state": "window", "window": 3}, training={"checkpoint_every": 4})
    variants = [Variant("carries", replace(windowed, evaluation=small().evaluation)), Variant("windowed", windowed)]
    comparison = comparing(variants, checkpoint_episodes=1)
    for label, protocol in (("carries", ("carry", None)), ("windowed", ("window", 3))):
        paths = list((tmp_path / "runs" / "own-mine" / f"{label}-seed0" / "results").iterdir())
        assert len(paths) == 2  # one with all targets, one with those of every checkpoint
        for path in paths:
            played = read_result(path).protocol
            assert (played.state, played.window) == protocol
    carried, by_window = comparison.trials
    last = load_agent(last_checkpoint(tmp_path / "runs" / by_window.run))
    asked = (by_window.targets[0].target_return,)
    for cell, settings in (
        (carried, EvaluationConfig(episodes=1, target_returns=asked)),
        (by_window, EvaluationConfig(episodes=1, target_returns=asked, state="window", window=3)),
    ):
        assert evaluate(last, settings).targets[0].returns == pytest.approx(cell.targets[0].returns)
    assert [target.returns for target in carried.targets] != [target.returns for target in by_window.targets]
    assert [variant.window for variant in comparison.variants] == [None, 3]
    assert read_comparison(tmp_path / "runs") == comparison
    assert "windowed (window of 3)" in (tmp_path / "runs" / "comparison.md").read_text()


def test_comparison_invalid_variants_seeds_datasets_or_options_are_refused(small: Make, comparing: Compare) -> None:
    one = [Variant("one", small())]
    with pytest.raises(InputError, match="at least one variant"):
        comparing([])
    for seeds in ((), (1, 1)):
        with pytest.raises(InputError, match="seeds"):
            comparing(one, seeds=seeds)
    with pytest.raises(InputError, match="no dataset"):
        comparing(one, datasets=())
    for datasets in (("own/a", "own/a"), ("own/a/b", "own/a-b"), ("hopper-medium", "standin/hopper-medium")):
        with pytest.raises(InputError, match="name each once"):
            comparing(one, datasets=datasets)
    with pytest.raises(InputError, match=r"evaluation\.episodes is 0"):
        comparing([Variant("one", small(evaluation={"episodes": 0}))])
    with pytest.raises(InputError, match="checkpoint_episodes is -1"):
        comparing(one, checkpoint_episodes=-1)
    with pytest.raises(InputError, match="path is the file of one dataset"):
        comparing([Variant("one", small(path="x"))], datasets=("own/a", "own/b"))
    with pytest.raises(InputError, match="add --plugins not_imported_yet"):
        comparing([Variant("one", replace(small(), plugins=("not_imported_yet",)))])


def test_failed_run_is_listed_and_the_other_runs_keep_their_table(
    mine: Path, small: Make, comparing: Compare, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs" / "own-mine" / "bad-seed1"
    place.parent.mkdir(parents=True)
    place.write_text("no folder can be made here")
    variants = [Variant("bad", small()), Variant("good", small())]
    comparison = comparing(variants, seeds=(0, 1))
    (failed,) = comparison.failed
    assert (failed.variant, failed.dataset, failed.seed) == ("bad", "own/mine", 1)
    assert "Not a directory" in failed.error
    assert "own-mine/bad-seed1 failed: " in capfd.readouterr().err
    assert [(cell.variant, cell.seed) for cell in comparison.trials] == [("bad", 0), ("good", 0), ("good", 1)]
    assert "- bad on own/mine, seed 1: " in (tmp_path / "runs" / "comparison.md").read_text()
    place.unlink()
    assert comparing(variants, seeds=(0, 1)).failed == ()


def test_unexpected_exception_in_a_run_is_listed_as_a_failed_run(
    mine: Path, small: Make, comparing: Compare, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = cells.train

    def fails(config: RunConfig, run: Path, *options: Any) -> Any:
        if run.name == "bad-seed0":
            raise MemoryError("no room")
        return train(config, run, *options)

    monkeypatch.setattr(cells, "train", fails)
    (failed,) = comparing([Variant("bad", small()), Variant("good", small())]).failed
    assert (failed.variant, failed.seed, failed.error) == ("bad", 0, "MemoryError: no room")
    assert "Traceback" in capsys.readouterr().err
    nothing = comparing([Variant("bad", small())])
    assert (nothing.trials, len(nothing.failed)) == ((), 1)
    assert "- bad on own/mine, seed 0: MemoryError: no room" in format_comparison(nothing)


def test_run_folder_of_another_configuration_is_refused_before_training(
    mine: Path, small: Make, comparing: Compare, tmp_path: Path
) -> None:
    comparing([Variant("last", small())])
    with pytest.raises(InputError, match=r"training\.batch_size"):
        comparing([Variant(label, small(training={"batch_size": 8})) for label in ("new", "last")])
    assert not (tmp_path / "runs" / "own-mine" / "new-seed0").exists()


def test_refused_comparison_creates_no_folder_or_file(
    write: Callable[..., Path], small: Make, comparing: Compare, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="own/mine"):  # it does not exist
        comparing([Variant("one", small())], output=tmp_path / "deep" / "runs")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "notes.txt").touch()
    with pytest.raises(InputError, match="own/mine"):
        comparing([Variant("one", small())])
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["notes.txt"]


def test_comparison_locked_by_another_process_is_refused(
    mine: Path, small: Make, comparing: Compare, tmp_path: Path
) -> None:
    with (
        locked(tmp_path / "runs" / "comparison"),
        pytest.raises(InputError, match="another process is running the comparison"),
    ):
        comparing([Variant("one", small())])
    comparing([Variant("one", small())])


def test_cell_loss_parameters_and_state_bytes_are_those_of_the_run(
    mine: Path, small: Make, comparing: Compare, run: Path
) -> None:
    (cell,) = comparing([Variant("mingru", small(training={"log_every": 2}))]).trials
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [tuple(point) for point in cell.loss] == [(line["step"], line["loss"]) for line in logged]
    assert [step for step, _ in cell.loss] == [2, 4]
    agent = load_agent(last_checkpoint(run)).agent
    assert cell.parameters == sum(parameter.numel() for parameter in agent.parameters())
    # Target, return-to-go, action, timestep, and the hidden state of the only layer.
    assert cell.state_bytes == 4 + 4 + 4 + 8 + 4 * 16
    assert np.isfinite(cell.action_microseconds)


def test_repeated_comparison_with_other_jobs_reports_the_jobs_of_training(
    mine: Path, small: Make, comparing: Compare, run: Path
) -> None:
    asked: dict[str, Any] = {"variants": [Variant("mingru", small())], "seeds": (0, 1)}
    assert "median wall time of a run, 2 runs at a time; " in str(comparing(jobs=2, **asked))
    again = comparing(**asked)
    assert "median wall time of a run, 2 runs at a time; " in str(again)
    assert "a run, 2 runs at a time; one action" in build_page(again)
    assert [cell.jobs for cell in comparing(**{**asked, "seeds": (0, 1, 2)}).trials] == [2, 2, 1]
    (run / "cell.json").unlink()
    assert "a run, 2 runs at a time where that is known; " in str(comparing(**asked))


def test_cell_json_without_jobs_is_reused_and_table_and_page_omit_jobs(
    mine: Path, small: Make, comparing: Compare, run: Path, evaluations: list[int]
) -> None:
    asked: dict[str, Any] = {"variants": [Variant("mingru", small())], "seeds": (0, 1), "jobs": 2}
    comparing(**asked)
    for file in run.parent.glob("*/cell.json"):
        data = json.loads(file.read_text())
        del data["record"]["jobs"]
        file.write_text(json.dumps(data))
    evaluations.clear()
    found = comparing(**asked)
    assert evaluations == []
    assert "median wall time of a run; one action" in str(found)
    page = build_page(found)
    assert "median wall time of a run; one action" in page

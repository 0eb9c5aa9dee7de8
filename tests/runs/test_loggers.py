"""Loggers: the real trackio and MLflow with local stores, a logger that another package declares, and faults."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from swing import SMALL
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import decision_rnn
from decision_rnn import Run
from decision_rnn.comparison.compare import make_plan
from decision_rnn.utils.errors import InputError

STEPS = [5, 10, 15, 20]


def train(loggers: list[str], folder: Path = Path("run"), **options: Any) -> Run:
    settings = {"log_every": 5, "checkpoint_every": 10, "loggers": loggers}
    return decision_rnn.train("local/swing", SMALL, steps=20, output=folder, training=settings, **options)


def train_in_two_parts_and_evaluate(loggers: list[str]) -> tuple[Run, dict[str, float]]:
    """A run that is stopped at step 10 and resumed, and the scores of an evaluation afterwards."""
    train(loggers, callback=lambda step, metrics, agent: step < 10)
    run = decision_rnn.train(output="run", resume=True)
    return run, run.evaluate([90.0], episodes=1, processes=1).scalars("evaluation")


def test_trackio_shows_one_run_that_goes_on(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(inside / "trackio"))
    pytest.importorskip("trackio")
    storage = pytest.importorskip("trackio.sqlite_storage").SQLiteStorage
    run, scores = train_in_two_parts_and_evaluate(["trackio"])
    (name,) = storage.get_runs("decision_rnn")
    assert name.startswith("run-")
    assert storage.get_run_config("decision_rnn", name)["backbone.width"] == 16
    logs = storage.get_logs("decision_rnn", name)
    losses = {line["step"]: line["training/loss"] for line in logs if "training/loss" in line}
    assert losses == dict(zip(STEPS, run.metrics["loss"], strict=True))
    (score,) = (line for line in logs if "evaluation/score_at_90" in line)
    assert (score["step"], score["evaluation/score_at_90"]) == (20, scores["evaluation/score_at_90"])


def test_mlflow_shows_one_run_that_goes_on(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{inside}/mlflow.db")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "swings")
    run, scores = train_in_two_parts_and_evaluate(["mlflow"])
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("swings")
    (shown,) = client.search_runs([experiment.experiment_id])
    assert (shown.info.run_name, shown.info.status) == ("run", "FINISHED")
    assert shown.data.params["backbone.width"] == "16"
    losses = client.get_metric_history(shown.info.run_id, "training/loss")
    assert {each.step: each.value for each in losses} == dict(zip(STEPS, run.metrics["loss"], strict=True))
    (score,) = client.get_metric_history(shown.info.run_id, "evaluation/score_at_90")
    assert (score.step, score.value) == (20, scores["evaluation/score_at_90"])


LOGGER = """
import json
from pathlib import Path
from decision_rnn.runs.loggers import Logger

def start(run):
    file = Path("shown.jsonl")
    def log(step, scalars):
        if Path("fails").exists():
            raise ConnectionError("no route to host")
        with file.open("a") as lines:
            lines.write(json.dumps([run.identity, run.config["backbone.name"], step, scalars]) + "\\n")
    return Logger(log, lambda: None, identity="mine")
"""


@pytest.fixture
def declared(inside: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that declares the logger `lines`, which writes shown.jsonl."""
    (inside / "site" / "lines-1.0.dist-info").mkdir(parents=True)
    (inside / "site" / "lines_logger.py").write_text(LOGGER)
    entry = "[decision_rnn.loggers]\nlines = lines_logger:start\n"
    (inside / "site" / "lines-1.0.dist-info" / "entry_points.txt").write_text(entry)
    (inside / "site" / "lines-1.0.dist-info" / "METADATA").write_text("Name: lines\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(inside / "site"))
    return inside


def test_logger_of_an_entry_point_shows_metrics_and_scores(declared: Path) -> None:
    run, scores = train_in_two_parts_and_evaluate(["lines", "tensorboard"])
    lines = [json.loads(line) for line in (declared / "shown.jsonl").read_text().splitlines()]
    assert [(identity, step) for identity, _, step, _ in lines] == [
        *((None, step) for step in STEPS[:2]),
        *(("mine", step) for step in STEPS[2:]),
        ("mine", 20),
    ]
    assert {backbone for _, backbone, _, _ in lines} == {"mingru"}
    assert [scalars["training/loss"] for *_, scalars in lines[:4]] == run.metrics["loss"].tolist()
    assert lines[4][3] == scores
    events = EventAccumulator("run").Reload()
    assert [event.step for event in events.Scalars("training/loss")] == STEPS


def test_logger_that_fails_is_left_out_and_training_goes_on(declared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def pull_the_cable(step: int, metrics: dict[str, float], agent: object) -> None:
        (declared / "fails").touch()

    run = train(["lines", "tensorboard"], callback=pull_the_cable)
    assert run.metrics["step"].tolist() == STEPS
    assert len((declared / "shown.jsonl").read_text().splitlines()) == 1
    (warning,) = (line for line in capsys.readouterr().err.splitlines() if "ConnectionError" in line)
    assert "training.loggers lines" in warning
    assert [event.step for event in EventAccumulator("run").Reload().Scalars("training/loss")] == STEPS


def test_broken_tensorboard_warns_and_the_run_trains(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # its import raises ImportError
    assert train(["tensorboard"]).metrics["step"].tolist() == STEPS
    assert "training.loggers tensorboard" in capsys.readouterr().err


def test_broken_logger_of_an_entry_point_is_left_out(
    declared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "lines_logger", raising=False)
    (declared / "site" / "lines_logger.py").write_text("raise TypeError('descriptors')")
    assert train(["lines"]).metrics["step"].tolist() == STEPS
    assert "training.loggers lines" in capsys.readouterr().err


def test_no_loggers_write_metrics_only(inside: Path) -> None:
    run = train([])
    assert run.metrics["step"].tolist() == STEPS
    assert [*run.folder.glob("events*"), *run.folder.glob("loggers.json")] == []


@pytest.mark.parametrize(("name", "named"), [("tensorbord", "tensorboard"), ("wandb", "pip install wandb")])
def test_unknown_or_missing_logger_is_refused_before_training(
    inside: Path, monkeypatch: pytest.MonkeyPatch, name: str, named: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=named):
        train([name])
    assert not Path("run").exists()
    with pytest.raises(InputError, match=named):  # before the data are looked at, which may have to be made
        decision_rnn.train("local/missing", training={"loggers": [name]})
    keys = {"dataset": "local/swing", "training.loggers": [name]}
    with pytest.raises(InputError, match=named):
        make_plan(keys, "test").trials()

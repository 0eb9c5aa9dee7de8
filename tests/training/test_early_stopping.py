"""Early stopping by the held-out loss: where training ends, which checkpoints are kept, and that killed runs end there
too."""

import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from small_comparison import pendulum_episodes

from decision_rnn import InputError, Run, TrainedAgent, load_agent, train, write_store
from decision_rnn.runs.folder import WEIGHTS, checkpoints_of, final_step, read_metrics
from decision_rnn.training.validation import Validation

LOSSES = [5.0, 3.0, 4.0, 2.0, 2.0, 6.0, math.nan, 1.0, 7.0, 7.0, 7.0, 7.0]
"""Held-out losses of the steps 2, 4, ...: after the lowest at 8 none is lower at 10, 12 and 14, but at 16 one is."""
OPTIONS: dict[str, Any] = {
    "backbone": {"name": "mingru", "width": 16, "layers": 1},
    "validation": "local/held-out",
    "steps": 40,
    "training": {"log_every": 2, "checkpoint_every": 4, "context": 4, "early_stopping_patience": 3},
}


@pytest.fixture(autouse=True)
def two_logs(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of noise, of which nothing can be learnt that helps on the other."""
    monkeypatch.chdir(folders)
    for seed, name in enumerate(("local/log", "local/held-out")):
        write_store(name, pendulum_episodes(seed))


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The held-out losses are `LOSSES`, whichever agent they are measured for."""
    measure = Validation.__call__

    def listed(validation: Validation, agent: Any) -> dict[str, float]:
        line = len(read_metrics(Path("run")))
        return measure(validation, agent) | {"validation_loss": LOSSES[line]}

    monkeypatch.setattr(Validation, "__call__", listed)


def names() -> list[str]:
    return [folder.name for folder in checkpoints_of(Path("run"))]


def content(run: str) -> tuple[Any, ...]:
    """The weights and the link of a run, and its metrics but for times."""
    folders = {folder.name: (folder / WEIGHTS).read_bytes() for folder in checkpoints_of(Path(run))}
    metrics = [str({key: line[key] for key in line if "second" not in key}) for line in read_metrics(Path(run))]
    return folders, Path(run, "checkpoints/best").resolve().name, metrics


def test_training_stops_after_checks_without_a_lower_loss(losses: None) -> None:
    agents: dict[int, TrainedAgent] = {}
    run = train("local/log", **OPTIONS, output="run", callback=lambda step, _, agent: agents.update({step: agent}))
    assert (run.agent.step, run.best.step, list(agents)) == (14, 8, [2, 4, 6, 8, 10, 12, 14])
    assert names() == ["8", "12", "14"]
    assert final_step(run.folder, run.config) == 14
    for best in (run.best, load_agent("run/checkpoints/best")):
        torch.testing.assert_close(best.agent.state_dict(), agents[8].agent.state_dict(), rtol=0, atol=0)
    assert (load_agent("run").step, run.config.training.steps) == (14, 40)


def test_stopped_run_goes_on_with_more_patience(losses: None) -> None:
    more = {**OPTIONS["training"], "early_stopping_patience": 4}
    train("local/log", **{**OPTIONS, "training": more}, output="run")
    shutil.move("run", "whole")
    train("local/log", **OPTIONS, output="run")
    assert train(resume=True, output="run").agent.step == 14
    shutil.move("run", "moved")
    shutil.copytree("moved", "run")  # in which `best` is a folder
    resumed = train(resume=True, output="run", training={"early_stopping_patience": 4})
    assert (resumed.agent.step, resumed.best.step, names()) == (24, 16, ["16", "20", "24"])
    assert content("run") == content("whole")
    with pytest.raises(InputError, match="validation 'local/held-out'"):
        train(resume=True, output="run", validation="local/log")


def test_best_checkpoint_is_that_of_one_validation() -> None:
    """Held-out losses on other data cannot be compared with those that chose the best checkpoint."""
    options: dict[str, Any] = {**OPTIONS, "training": {**OPTIONS["training"], "early_stopping_patience": 0}}
    train("local/log", **options, output="run", callback=lambda step, *_: step < 4)
    with pytest.raises(InputError, match="validation 'local/held-out', not 'local/log'"):
        train(resume=True, output="run", validation="local/log")
    assert train(resume=True, output="run").agent.step == 40


def test_stopping_that_a_run_may_have_missed_is_refused(losses: None) -> None:
    """With patience 2 it would have ended at step 12."""
    train("local/log", **OPTIONS, output="run")
    with pytest.raises(InputError, match="early_stopping_patience 3, not 2"):
        train(resume=True, output="run", training={"early_stopping_patience": 2})
    with pytest.raises(InputError, match=r"training\.log_every 2, not 1"):  # patience counts lines
        train(resume=True, output="run", training={"log_every": 1})
    off: dict[str, Any] = {"training": {"early_stopping_patience": 0}}
    assert train(resume=True, output="run", **off, callback=lambda step, *_: step < 20).agent.step == 20
    with pytest.raises(InputError, match="early_stopping_patience 0, not 9"):
        train(resume=True, output="run", training={"early_stopping_patience": 9})


def test_patience_without_held_out_episodes_is_refused() -> None:
    with pytest.raises(InputError, match="early_stopping_patience needs validation"):
        train("local/log", **{**OPTIONS, "validation": None}, output="run")


def test_run_without_validation_has_no_best_checkpoint() -> None:
    run = train("local/log", OPTIONS["backbone"], steps=7, output="run", training={"context": 4})
    assert names() == ["7"]
    with pytest.raises(InputError, match="checkpoints/best"):
        _ = run.best


SCRIPT = """
import os, signal, sys
from pathlib import Path
from decision_rnn import train

def dying(method):
    def call(path, target):
        if sys.argv[1] in (path.name, Path(target).name):
            os.kill(os.getpid(), signal.SIGKILL)
        return method(path, target)
    return call

Path.replace, Path.symlink_to = dying(Path.replace), dying(Path.symlink_to)
train(resume=True, output="run")
"""


@pytest.mark.slow
def test_run_killed_at_its_best_and_last_step_stops_there_too() -> None:
    """It is killed before the best checkpoint is linked, and before the last one is there; on one thread, as here."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole = train("local/log", **OPTIONS, output="whole")
    best, last = whole.best.step, whole.agent.step
    assert best + 6 == last < 40
    train("local/log", **OPTIONS, output="run", callback=lambda *_: False)
    for target in ("best", str(last)):
        command = [sys.executable, "-c", SCRIPT, target]
        assert subprocess.run(command, env=environment, capture_output=True).returncode == -signal.SIGKILL, target
    train(resume=True, output="run")
    assert content("run") == content("whole")
    assert Run("run").best.step == best

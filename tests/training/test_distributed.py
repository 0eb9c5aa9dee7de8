"""Data-parallel training under torchrun: two processes train one agent as one process does."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rank_runs
import torch
from process_tree import alive, children, wait_until

from decision_rnn import Run
from decision_rnn.cli.main import main
from decision_rnn.data.hindsight import GoalEntries
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.utils import distributed

SMALL_CLI = str(Path(__file__).parents[1] / "small_cli.py")
TRAIN = ("train", "hopper-medium", "--training.log_every", "1", "--evaluation.episodes", "0")
TRAIN += ("--backbone.width", "16", "--backbone.layers", "1", "--training.batch_size", "12")
TRAIN += ("--training.precision", "fp32", "--training.steps", "400", "--training.checkpoint_every", "5")
TRAIN += ("--backbone.dropout", "0.1")
ENDING = 30
"""Seconds within which a process ends whose neighbour was killed, on a machine with other work."""
Launch = Callable[..., "subprocess.Popen[str]"]


def bits(run: Path) -> dict[str, bytes]:
    """The weights of a run's last checkpoint."""
    return {name: weight.numpy().tobytes() for name, weight in Run(run).agent.agent.state_dict().items()}


def assert_trained_alike(run: Path, expected: Path) -> None:
    """Metrics and weights of two runs agree within rounding; Adam and Muon divide small gradients by their size."""
    metrics, weights = Run(run).metrics, Run(run).agent.agent.state_dict()
    for name, values in Run(expected).metrics.items():
        if "second" not in name:
            np.testing.assert_allclose(metrics[name], values, rtol=1e-3, err_msg=f"{run}: {name}")
    for name, weight in Run(expected).agent.agent.state_dict().items():
        torch.testing.assert_close(
            weights[name], weight, rtol=0, atol=5e-4, msg=lambda text, n=name: f"{run}: {n} {text}"
        )


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Starts a script in two processes of torchrun."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str, **variables: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
        started.append(subprocess.Popen(command, env=environment, cwd=tmp_path, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.terminate()  # and torchrun its own
        process.communicate()


def test_two_processes_train_die_and_resume_as_one(
    launch: Launch, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one test, since torchrun takes seconds to start."""
    rank_runs.write_data()
    one = folders / "one"
    one.mkdir()
    monkeypatch.chdir(one)
    for name, config in rank_runs.RUNS.items():
        rank_runs.train(name, **config)
    rank_runs.train("stopped", rank_runs.SAVED, **rank_runs.RUNS["carried"])
    shutil.move("stopped", folders)

    torchrun = launch(rank_runs.__file__, "train")
    while not (folders / rank_runs.TIME).exists():
        assert torchrun.poll() is None, torchrun.communicate()
        time.sleep(0.02)
    ranks = children(torchrun.pid)
    _, errors = torchrun.communicate(timeout=60)
    assert time.time() - float((folders / rank_runs.TIME).read_text()) < ENDING
    assert torchrun.returncode != 0
    assert not any(map(alive, ranks))
    assert "SIGKILL" in errors  # torchrun's summary names the process that was killed,
    assert "RuntimeError" in errors.rpartition("FAILED")[2]  # and the error of the other
    for name in rank_runs.RUNS:
        assert_trained_alike(folders / name, one / name)

    shutil.copytree(folders / "killed", "killed")
    torchrun = launch(rank_runs.__file__, "resume")
    _, errors = torchrun.communicate(timeout=300)
    assert torchrun.returncode == 0, errors
    assert bits(folders / "killed") == bits(folders / "carried")
    assert bits(folders / "dropout-stopped") == bits(folders / "dropout")
    assert_trained_alike(folders / "stopped", one / "carried")
    rank_runs.resume("killed")
    assert_trained_alike(one / "killed", one / "carried")


@pytest.mark.slow
@pytest.mark.parametrize("victims", ["all", "first"])
def test_processes_killed_at_any_time_resume_to_the_same_bits(
    launch: Launch, small_environment: dict[str, str], tmp_path: Path, victims: str
) -> None:
    whole = launch(SMALL_CLI, *TRAIN, "--output", "whole", **small_environment)
    _, errors = whole.communicate(timeout=300)
    assert whole.returncode == 0, errors
    process = launch(SMALL_CLI, *TRAIN, "--output", "killed", **small_environment)
    while not list(tmp_path.glob("killed/checkpoints/[0-9]*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    workers = children(process.pid)
    assert len(workers) == 2
    if victims == "all":
        process.kill()
    for worker in workers if victims == "all" else workers[:1]:
        os.kill(worker, signal.SIGKILL)
    process.communicate(timeout=120)
    assert process.returncode != 0
    wait_until(lambda: not any(map(alive, workers)), 60)
    resumed = launch(SMALL_CLI, *TRAIN, "--output", "killed", "--resume", **small_environment)
    _, errors = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, errors
    assert bits(tmp_path / "killed") == bits(tmp_path / "whole")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tbptt_segments": 3, "segment_start": "episode"},
        {"tbptt_segments": 3, "goals": GoalEntries(slice(2), slice(2, 4))},
        {"sensor_fault": "noise", "sensor_fault_rate": 0.2},
    ],
    ids=["drawn anew", "continued", "goals", "faults"],
)
def test_processes_read_the_rows_of_one_batch(store: EpisodeStore, options: dict[str, Any]) -> None:
    whole = StepStream(store, 8, 6, 0, **options)
    halves = [StepStream(store, 8, 6, 0, rows=slice(3 * i, 3 * i + 3), **options) for i in range(2)]
    for _ in range(4):
        for expected, *own in zip(whole.sample(), *(half.sample() for half in halves), strict=True):
            assert torch.equal(torch.cat(own), expected)


@pytest.fixture
def rank_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the first of two of torchrun."""
    names = (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "TORCHELASTIC_RUN_ID",
        "MASTER_ADDR",
        "MASTER_PORT",
    )
    for name, value in zip(names, ("0", "0", "2", "2", "run", "localhost", "0"), strict=True):
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("rank_zero")
@pytest.mark.parametrize("text", ["Duplicate GPU detected", "NCCL WARN: Cuda failure 2 'out of memory'"])
def test_error_of_the_process_group_is_shown(
    text: str, folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(distributed, "rendezvous", lambda url: iter([(torch.distributed.HashStore(), 0, 2)]))
    monkeypatch.setattr(torch.distributed, "init_process_group", fail)
    try:
        assert main(["train", "local/box", "--output", str(folders / "run")]) == 1
        shown = capsys.readouterr().err
    except RuntimeError as error:
        shown = str(error)
    assert text in shown

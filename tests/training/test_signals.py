"""Signals that schedulers and terminals send to real processes of `train`, `compare` and torchrun."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from process_tree import alive, children, wait_until
from small_comparison import pendulum_episodes

from decision_rnn import write_store
from decision_rnn.cli.main import main
from decision_rnn.runs.folder import checkpoints_of, read_metrics
from decision_rnn.utils.interruption import SIGNALS
from decision_rnn.utils.workers import parallel_map

TRAIN = ("-m", "decision_rnn", "train", "local/mine", "--output", "run", "--backbone.width", "16")
LONG = ("--training.steps", "100000", "--training.log_every", "1", "--evaluation.episodes", "0")
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts Python in a process group of its own, as schedulers do, where there are the datasets mine and other."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    for seed, name in enumerate(("local/mine", "local/other")):
        write_store(name, pendulum_episodes(seed))
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, ignored: tuple[signal.Signals, ...] = ()) -> "subprocess.Popen[str]":
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        before = [(number, signal.signal(number, signal.SIG_IGN)) for number in ignored]  # as nohup does
        started.append(
            subprocess.Popen([sys.executable, *words], env=environment, text=True, start_new_session=True, **pipes)
        )
        for number, handler in before:
            signal.signal(number, handler)
        return started[-1]

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for_steps(process: "subprocess.Popen[str]", *runs: Path) -> None:
    while not all(read_metrics(run) for run in runs):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def assert_saved(run: Path) -> None:
    """The last step that was logged, or the one after it, has a checkpoint."""
    checkpoint = checkpoints_of(run)[-1]  # the best one may be kept too
    assert int(checkpoint.name) - read_metrics(run)[-1]["step"] in (0, 1)


@pytest.mark.parametrize(
    "number", [signal.SIGUSR1, signal.SIGHUP, pytest.param(signal.SIGUSR2, marks=pytest.mark.slow)], ids=str
)
def test_signal_of_a_scheduler_ends_training_with_a_checkpoint(start: Start, number: signal.Signals) -> None:
    process = start(*TRAIN, *LONG)
    wait_for_steps(process, Path("run"))
    process.send_signal(number)
    process.send_signal(signal.SIGTERM)  # which follows the warning
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "--resume" in errors
    assert_saved(Path("run"))


@pytest.mark.slow
def test_hangup_that_nohup_ignores_does_not_end_training(start: Start) -> None:
    process = start(*TRAIN, *LONG, ignored=(signal.SIGHUP,))
    wait_for_steps(process, Path("run"))
    process.send_signal(signal.SIGHUP)
    step = len(read_metrics(Path("run")))
    wait_until(lambda: len(read_metrics(Path("run"))) > step + 2, 60)
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert_saved(Path("run"))


@pytest.mark.slow
@pytest.mark.parametrize("whole_job", [False, True], ids=["the comparison", "all its processes"])
def test_signal_ends_the_runs_of_a_comparison_with_checkpoints(start: Start, whole_job: bool) -> None:
    words = ("-m", "decision_rnn", "compare", "local/mine", "--output", "compared", "--backbones", "mingru,lru")
    words += ("--controls", "none", "--seeds", "1", "--jobs", "2", "--checkpoint_episodes", "0", *LONG)
    process = start(*words, "--validation", "local/other", "--backbone.width", "16")
    runs = [Path("compared/local-mine") / f"{name}-seed0" for name in ("mingru", "lru")]
    wait_for_steps(process, *runs)
    workers = children(process.pid)
    if whole_job:
        os.killpg(process.pid, signal.SIGUSR1)
    else:
        process.send_signal(signal.SIGUSR1)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 130, errors
    assert not any(map(alive, workers))
    for run in runs:
        assert_saved(run)
        assert (run / "run.log").read_text().count("$ decision-rnn train") == 1


@pytest.mark.slow
@pytest.mark.parametrize("receiver", ["torchrun", "last"])
def test_signal_ends_processes_of_torchrun_with_a_checkpoint(start: Start, receiver: str) -> None:
    torchrun = start("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *TRAIN, *LONG)
    wait_for_steps(torchrun, Path("run"))
    ranks = children(torchrun.pid)
    if receiver == "last":
        os.kill(ranks[-1], signal.SIGUSR2)
    else:
        torchrun.send_signal(signal.SIGHUP)
    _, errors = torchrun.communicate(timeout=90)
    assert torchrun.returncode != 0
    assert errors.count("--resume") == 2, errors
    assert not any(map(alive, ranks))
    assert_saved(Path("run"))


def test_signal_in_any_command_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in SIGNALS:
        before = signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP, and the command then does, too
        monkeypatch.setattr("decision_rnn.cli.parser.run_command", lambda *_, n=number: signal.raise_signal(n))
        assert main(["data", "list"]) == 130
        assert signal.signal(number, before) == signal.SIG_DFL


def signalled(task: int) -> int:
    for number in set(SIGNALS) - {signal.SIGTERM}:
        os.kill(os.getpid(), number)
    return task


def test_workers_leave_signals_of_a_job_to_their_parent() -> None:
    assert list(parallel_map(signalled, [0, 1], 2, "are signalled")) == [0, 1]

"""Training processes that are killed again and again, at random instants, and resumed."""

import itertools
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decision_rnn.runs.folder import WEIGHTS, checkpoints_of, last_checkpoint, read_metrics

SMALL_CLI = Path(__file__).parents[1] / "small_cli.py"
TRAIN = ("train", "hopper-medium", "--training.steps", "200", "--evaluation.episodes", "0")
TRAIN += ("--backbone.width", "16", "--backbone.layers", "1", "--backbone.dropout", "0.1")
TRAIN += ("--training.batch_size", "12", "--training.precision", "fp32")
TRAIN += ("--training.log_every", "2", "--training.checkpoint_every", "3")  # much of its time goes into checkpoints
KILLS = 20
Process = subprocess.Popen[str]


@pytest.fixture
def begin(small_environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts a run, or resumes it."""
    started: list[Process] = []
    environment = {**small_environment, "TMPDIR": str(tmp_path)}  # a killed process leaves what it has there

    def start(run: Path, *more: str) -> Process:
        command = [sys.executable, str(SMALL_CLI), *TRAIN, *more, "--output", str(run)]
        settings = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=environment, cwd=tmp_path, **settings))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def progress(run: Path) -> int:
    """The step of the last checkpoint."""
    saved = checkpoints_of(run)
    return int(saved[-1].name) if saved else 0


def content(run: Path) -> tuple[bytes, list[str], list[dict[str, float]]]:
    """The final weights, the checkpoints, and the metrics but for times."""
    metrics = [{key: line[key] for key in line if "second" not in key} for line in read_metrics(run)]
    return (last_checkpoint(run) / WEIGHTS).read_bytes(), [folder.name for folder in checkpoints_of(run)], metrics


def wait_for_checkpoint(process: Process, run: Path, before: int) -> None:
    """Wait until a process has written a checkpoint after that of a step, or has ended."""
    while process.poll() is None and progress(run) == before:
        time.sleep(0.005)


@pytest.mark.slow
def test_runs_killed_at_random_instants_end_as_one_that_was_not(
    begin: Callable[..., Process],
    small_cli: Callable[..., "subprocess.CompletedProcess[str]"],
    tmp_path: Path,
) -> None:
    """Kills fall on start-up and on training in turn. A run that is trained before its last kill is compared and
    another one begins."""
    assert small_cli("data", "make", "hopper-medium").returncode == 0
    whole = begin(tmp_path / "whole")
    begun = time.monotonic()
    wait_for_checkpoint(whole, tmp_path / "whole", 0)
    starting = time.monotonic() - begun
    _, errors = whole.communicate()
    training = time.monotonic() - begun - starting
    assert whole.returncode == 0, errors
    expected = content(tmp_path / "whole")

    generator = random.Random(1)
    kills, lives = 0, 0
    for number in itertools.count():
        run = tmp_path / f"killed-{number}"
        trained = False
        while not trained:
            resume = ("--resume",) * (run / "config.yaml").exists()
            before, phase = progress(run), lives % 2
            process, lives = begin(run, *resume), lives + 1
            delay = generator.uniform(0, training / 5 if phase else starting)
            try:
                if phase:
                    wait_for_checkpoint(process, run, before)
                _, errors = process.communicate(timeout=delay if kills < KILLS else None)
                assert process.returncode == 0, errors
                trained = True
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
        assert content(run) == expected
        if kills == KILLS:
            return

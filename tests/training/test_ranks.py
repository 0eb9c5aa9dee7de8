"""Data-parallel training: several processes train one agent as one process does."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from process_tree import alive, children, wait_until

from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.training import ranks
from decision_rnn.training.run_files import last_checkpoint
from decision_rnn.utils.workers import GROUP

SMALL_CLI = Path(__file__).parents[1] / "small_cli.py"
SMALL = (
    "--backbone.width",
    "16",
    "--backbone.layers",
    "1",
    "--training.batch_size",
    "12",
    "--training.precision",
    "fp32",
)
TRAIN = ("train", "hopper-medium", *SMALL, "--training.log_every", "1", "--evaluation.episodes", "0")
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def losses(run: Path) -> np.ndarray:
    return np.array([json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()])


def weights(run: Path) -> bytes:
    return (last_checkpoint(run) / "weights.safetensors").read_bytes()


@pytest.fixture
def begun(small_environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[[Path], "subprocess.Popen[str]"]]:
    """Starts a long run of two processes in a folder, and returns once its first checkpoint is there."""
    started: list[subprocess.Popen[str]] = []

    def begin(run: Path) -> "subprocess.Popen[str]":
        steps = ("--training.steps", "100000", "--training.checkpoint_every", "10", "--training.schedule", "constant")
        command = [sys.executable, str(SMALL_CLI), *TRAIN, *steps, "--training.processes", "2", "--output", str(run)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, env=small_environment, cwd=tmp_path, text=True, **pipes)
        started.append(process)
        while not list(run.glob("checkpoints/[0-9]*")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_rows_of_ranks_are_a_batch_with_its_resets(store: EpisodeStore) -> None:
    whole = StepStream(store, 8, 6, 0, tbptt_segments=3)
    parts = [StepStream(store, 8, 6, 0, tbptt_segments=3, own_rows=rows) for rows in (slice(0, 2), slice(2, 6))]
    for _ in range(20):
        batch, (first, second) = whole.sample(), [part.sample() for part in parts]
        for name in batch._fields:
            assert torch.equal(getattr(batch, name), torch.cat([getattr(first, name), getattr(second, name)]))


def test_processes_have_the_losses_of_one(small_cli: Cli, inline_cli: Cli, tmp_path: Path) -> None:
    for name, processes, run in (("one", 1, inline_cli), ("two", 2, small_cli)):
        done = run(*TRAIN, "--training.steps", "12", "--training.processes", str(processes), "--output", name)
        assert done.returncode == 0, done.stderr
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert len(one) == 12
    np.testing.assert_allclose(two, one, rtol=1e-3)


@pytest.mark.slow
def test_processes_resume_to_the_same_bits_and_as_another_number_to_the_same_losses(
    small_cli: Cli, tmp_path: Path
) -> None:
    def train(name: str, processes: int, steps: int, *more: str) -> None:
        constant = ("--training.schedule", "constant", "--training.warmup_steps", "2", "--training.steps", str(steps))
        done = small_cli(*TRAIN, *constant, "--training.processes", str(processes), "--output", name, *more)
        assert done.returncode == 0, done.stderr

    train("whole", 2, 8)
    for name, processes in (("stopped", 2), ("other", 1)):
        train(name, 2, 4)
        train(name, processes, 8, "--resume")
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    np.testing.assert_allclose(losses(tmp_path / "other"), losses(tmp_path / "whole"), rtol=1e-3)


def test_rank_that_dies_ends_the_run_in_one_sentence_with_a_whole_checkpoint(
    begun: Callable[[Path], "subprocess.Popen[str]"], small_cli: Cli, tmp_path: Path
) -> None:
    process = begun(tmp_path / "run")
    (follower,) = children(process.pid)
    os.kill(follower, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("decision-rnn: a process that trains with this one has died")
    assert "Traceback" not in errors
    step = int(last_checkpoint(tmp_path / "run").name)
    more = ("--training.schedule", "constant", "--training.steps", "100000")
    done = small_cli(*TRAIN, *more, "--training.steps", str(step), "--output", "run", "--resume")
    assert "training.steps" in done.stderr  # fewer steps than it was started with: the run is whole, and refuses that


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_ranks_end_with_the_first_one(
    name: str, begun: Callable[[Path], "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    process = begun(tmp_path / "run")
    (follower,) = children(process.pid)
    process.send_signal(getattr(signal, name))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if name == "SIGKILL" else 130)
    assert "Traceback" not in errors
    wait_until(lambda: not alive(follower), 30)


@pytest.fixture
def torchrun(small_environment: dict[str, str], tmp_path: Path) -> Cli:
    """Runs a script in two processes of torchrun, with further environment variables."""

    def run(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
        environment = {**small_environment, **variables}
        return subprocess.run(launch, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    return run


@pytest.mark.slow
def test_torchrun_trains_one_agent(torchrun: Cli, small_cli: Cli, tmp_path: Path) -> None:
    steps = ("--training.steps", "6")
    done = small_cli(*TRAIN, *steps, "--output", "one")
    assert done.returncode == 0, done.stderr
    done = torchrun(str(SMALL_CLI), *TRAIN, *steps, "--output", "two")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=1e-3)
    assert "processes: 2" in (tmp_path / "two" / "config.yaml").read_text()


SCRIPT = """
import decision_rnn, numpy as np
from decision_rnn import Episode
random = np.random.default_rng(0)
episodes = [Episode(random.normal(size=(31, 11)), random.uniform(-1, 1, (30, 3)), np.ones(30), True, False)] * 10
small = {"name": "mingru", "width": 16, "layers": 1}
options = {"environment_id": "Hopper-v5", "progress": False, "evaluation": {"episodes": 0}}
run = decision_rnn.train(episodes, small, steps=3, output="run", **options)
print("trained", run.agent.step)
"""


@pytest.mark.slow
def test_script_under_torchrun_has_the_agent_in_every_process(torchrun: Cli, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = torchrun("script.py", DECISION_RNN_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained 3") == 2


@pytest.mark.slow
def test_bench_of_processes_has_a_row_for_each(small_cli: Cli, tmp_path: Path) -> None:
    done = small_cli("bench", "processes", "--rounds", "1", "--json", "rows.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["name"] for row in rows] == ["processes/1", "processes/1/one-thread", "processes/2"]
    assert all(row["value"] > 0 for row in rows)


def test_training_by_processes_leaves_the_printing_of_errors_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch puts the rank before every line of a traceback, also of what a script does after the training."""

    def only(rank: int, processes: int, group: str) -> dict[str, str]:
        return {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", GROUP: group}

    monkeypatch.setattr(ranks, "_place", only)
    monkeypatch.setattr(ranks, "_followers", lambda places: contextlib.nullcontext())
    hook = sys.excepthook
    with ranks.leading(2):
        assert sys.excepthook is not hook
    assert sys.excepthook is hook


def test_processes_must_divide_the_batch(inline_cli: Cli) -> None:
    done = inline_cli("train", "hopper-medium", "--training.processes", "3")
    assert done.returncode == 2
    assert "training.processes 3 does not divide training.batch_size 128" in done.stderr

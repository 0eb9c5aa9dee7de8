"""Data-parallel training under torchrun: two processes train one agent as one process does."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from process_tree import alive, children, wait_until

from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.runs.folder import last_checkpoint

SMALL_CLI = str(Path(__file__).parents[1] / "small_cli.py")
TRAIN = ("train", "hopper-medium", "--training.log_every", "1", "--evaluation.episodes", "0")
TRAIN += ("--backbone.width", "16", "--backbone.layers", "1", "--training.batch_size", "12")
TRAIN += ("--training.precision", "fp32", "--condition.noise", "0", "--training.steps", "8")
Cli = Callable[..., "subprocess.CompletedProcess[str]"]
pytestmark = pytest.mark.slow


def losses(run: Path) -> np.ndarray:
    return np.array([json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()])


def weights(run: Path) -> bytes:
    return (last_checkpoint(run) / "weights.safetensors").read_bytes()


@pytest.fixture
def launch(small_environment: dict[str, str], tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Starts a script in two processes of torchrun, with further environment variables."""

    def start(*words: str, **variables: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env={**small_environment, **variables}, cwd=tmp_path, text=True, **pipes)

    return start


@pytest.fixture
def torchrun(launch: Callable[..., "subprocess.Popen[str]"]) -> Cli:
    """Runs a script in two processes of torchrun to its end."""

    def run(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        process = launch(*words, **variables)
        output, errors = process.communicate(timeout=300)
        return subprocess.CompletedProcess(words, process.returncode, output, errors)

    return run


@pytest.mark.parametrize("tbptt_segments", [1, 3])
def test_processes_read_the_rows_of_one_batch(store: EpisodeStore, tbptt_segments: int) -> None:
    whole = StepStream(store, 8, 6, 0, tbptt_segments=tbptt_segments)
    parts = [StepStream(store, 8, 6, 0, tbptt_segments=tbptt_segments, rows=slice(3 * i, 3 * i + 3)) for i in range(2)]
    for _ in range(4):
        for expected, *halves in zip(whole.sample(), *(part.sample() for part in parts), strict=True):
            assert torch.equal(torch.cat(halves), expected)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--objective", "gmm"),
        # Each half of the batch knows another number of actions: episodes end, and so do segments.
        ("--objective", "action_chunk", "--objective.chunk_size", "6", "--training.context", "8"),
        ("--training.optimizer", "muon", "--training.tbptt_segments", "3"),
        ("--agent.conditioning", "adaln"),
    ],
    ids=lambda options: "-".join(options[1::2]) or "default",
)
def test_processes_have_the_losses_of_one(
    torchrun: Cli, small_cli: Cli, tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = small_cli(*TRAIN, *options, "--output", "one")
    assert done.returncode == 0, done.stderr
    done = torchrun(SMALL_CLI, *TRAIN, *options, "--output", "two")
    assert done.returncode == 0, done.stderr
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert len(one) == 8
    # Muon's products in bf16 round what the order of a sum has changed.
    np.testing.assert_allclose(two, one, rtol=1e-3 if "muon" in options else 1e-4)


@pytest.mark.parametrize("victims", ["all", "one"])
def test_killed_processes_resume_to_the_same_bits(
    launch: Callable[..., "subprocess.Popen[str]"], torchrun: Cli, tmp_path: Path, victims: str
) -> None:
    options = (*TRAIN, "--training.steps", "400", "--training.checkpoint_every", "5", "--backbone.dropout", "0.1")
    done = torchrun(SMALL_CLI, *options, "--output", "whole")
    assert done.returncode == 0, done.stderr
    process = launch(SMALL_CLI, *options, "--output", "killed")
    while not list(tmp_path.glob("killed/checkpoints/[0-9]*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    workers = children(process.pid)
    assert len(workers) == 2
    if victims == "all":
        process.kill()
    for worker in workers if victims == "all" else workers[1:]:
        os.kill(worker, signal.SIGKILL)
    process.communicate(timeout=120)
    assert process.returncode != 0
    wait_until(lambda: not any(map(alive, workers)), 60)
    done = torchrun(SMALL_CLI, *options, "--output", "killed", "--resume")
    assert done.returncode == 0, done.stderr
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


def test_error_of_the_process_group_is_the_librarys_own(torchrun: Cli, tmp_path: Path) -> None:
    text = "import decision_rnn.cli.main as m, torch, sys\n"
    text += "def fail(*a, **k): raise RuntimeError('Duplicate GPU detected')\n"
    text += "torch.distributed.init_process_group = fail\nm.main(sys.argv[1:])\n"
    (tmp_path / "script.py").write_text(text)
    done = torchrun("script.py", *TRAIN, "--output", "run")
    assert done.returncode != 0
    assert "Duplicate GPU detected" in done.stderr


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


def test_script_under_torchrun_has_the_agent_in_every_process(torchrun: Cli, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = torchrun("script.py", DECISION_RNN_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained 3") == 2

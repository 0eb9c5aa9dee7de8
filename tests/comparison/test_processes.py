"""Comparisons in separate processes: killed workers, killed and restarted drivers, lost Ray nodes."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from decision_rnn.comparison.cells import Cell
from decision_rnn.comparison.executors.contract import Event, Failed, Finished, Progress
from decision_rnn.comparison.executors.local import LocalExecutor
from decision_rnn.comparison.plan import Plan
from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.variants import Variant
from decision_rnn.config import RunConfig

Make = Callable[..., RunConfig]
Compare = Callable[..., Comparison]

FILE = """
dataset: own/mine
controls: none
checkpoint_episodes: 1
backbone: {layers: 1, dropout: 0.1}
training: {steps: 60, checkpoint_every: 10, log_every: 5, context: 4}
evaluation: {episodes: 1}
variants:
  narrow: {backbone: {width: 16}}
  wide: {backbone: {width: 32}}
"""


def timeless(value: Any) -> Any:
    """A comparison's values without those that differ between runs: timings, command, jobs, hardware and commit."""
    timed = ("action_microseconds", "training_seconds", "evaluation_seconds", "command", "jobs", "hardware", "commit")
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in timed}
    return [timeless(part) for part in value] if isinstance(value, (list, tuple)) else value


def variants(small: Make, times: int = 1) -> list[Variant]:
    """The variants of FILE, trained `times` times as long."""
    training = {"steps": 60 * times, "checkpoint_every": 10 * times, "log_every": 5}
    backbone = {"name": "mingru", "layers": 1, "dropout": 0.1}
    return [
        Variant(label, small(backbone={**backbone, "width": width}, training=training))
        for label, width in (("narrow", 16), ("wide", 32))
    ]


def written(output: Path) -> dict[Path, int]:
    """Results and records by path, with their modification times."""
    return {
        path: path.stat().st_mtime_ns for part in ("*/*/results/*.json", "*/*/cell.json") for path in output.glob(part)
    }


def entries(folder: Path) -> int:
    """The number of files and folders below; some may appear or vanish while counting."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def started(output: Path, folder: Path, *options: str) -> "subprocess.Popen[str]":
    (folder / "compared.yaml").write_text(FILE)
    command = [sys.executable, "-m", "decision_rnn", "compare", "--config", "compared.yaml", "--output", str(output)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, *options], cwd=folder, env=environment, text=True, **pipes)


def killed_again_and_again(small: Make, comparing: Compare, folder: Path, kills: int, seeds: int, jobs: str) -> None:
    """A comparison killed `kills` times has the numbers of an undisturbed one and writes no result twice."""
    whole = comparing(variants(small), seeds=tuple(range(seeds)), checkpoint_episodes=1)
    count = entries(folder / "runs")
    generator, output = random.Random(kills), folder / "killed"
    seen: dict[Path, int] = {}
    for moment in sorted(generator.uniform(0.05, 0.95) * count for _ in range(kills)):
        process = started(output, folder, "--seeds", str(seeds), "--jobs", jobs)
        while process.poll() is None and entries(output) < moment:
            time.sleep(0.02)
        time.sleep(generator.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for path, stamp in written(output).items():
            assert seen.setdefault(path, stamp) == stamp, f"{path} was made twice"
    process = started(output, folder, "--seeds", str(seeds), "--jobs", jobs)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    comparison = json.loads((output / "comparison.json").read_text())
    assert timeless(comparison) == timeless(json.loads((folder / "runs" / "comparison.json").read_text()))
    again = written(output)
    assert seen.items() <= again.items()
    for cell in whole.trials:
        lines = (output / cell.run / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == list(range(5, 61, 5))
        assert len(list((output / cell.run / "results").iterdir())) == 7  # six checkpoints and the final result


def test_killed_comparison_resumes_to_the_same_numbers(
    mine: Path, small: Make, comparing: Compare, tmp_path: Path
) -> None:
    killed_again_and_again(small, comparing, tmp_path, kills=1, seeds=1, jobs="1")


@pytest.mark.slow
def test_comparison_killed_ten_times_resumes_to_the_same_numbers(
    mine: Path, small: Make, comparing: Compare, tmp_path: Path
) -> None:
    killed_again_and_again(small, comparing, tmp_path, kills=10, seeds=3, jobs="2")


def test_local_executor_restarts_a_cell_once_if_its_worker_dies_and_runs_the_others(
    mine: Path, small: Make, tmp_path: Path
) -> None:
    doomed, fine = variants(small)
    plan = Plan(variants=(doomed, fine), datasets=("own/mine",), seeds=(0,), output=tmp_path / "runs")
    _, cells = plan.cells()
    events: list[Event] = []
    for event in LocalExecutor(1).run(cells):
        if event == Progress(0, 0):
            (worker,) = multiprocessing.active_children()
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
        events.append(event)
    assert events.count(Progress(0, 0)) == 2
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.cell == 0
    assert "SIGKILL" in failed.error
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert (finished.cell, finished.outcome.record.steps) == (1, 60)
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_ray_executor_gives_the_same_numbers_after_losing_a_node(
    mine: Path, small: Make, comparing: Compare, tmp_path: Path
) -> None:
    """A cluster of two nodes; the second is removed while cells run on it."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from decision_rnn.comparison.executors.ray import RayExecutor

    class Losing(RayExecutor):
        """Removes the second node once two cells train: each node has one core, so one cell runs there."""

        def run(self, cells: Sequence[Cell]) -> Generator[Event, None, None]:
            training: set[int] = set()
            for event in super().run(cells):
                training.discard(event.cell)
                if isinstance(event, Progress) and event.steps > 0:
                    training.add(event.cell)
                if len(training) == 2 and not lost:
                    cluster.remove_node(second, allow_graceful=False)
                    lost.append(True)
                yield event

    lost: list[bool] = []
    options = {"seeds": (0, 1), "checkpoint_episodes": 1}
    local = comparing(variants(small, 10), **options)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        comparison = comparing(variants(small, 10), Losing(), output=tmp_path / "ray", **options)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert lost
    begun = [len(list((tmp_path / "ray" / cell.run).glob("events.out.*"))) for cell in comparison.trials]
    assert sorted(begun) == [1, 1, 1, 2]  # the cell on the lost node was started twice
    assert comparison.failed == ()
    assert timeless(comparison.to_dict()) == timeless(local.to_dict())

"""Comparisons in separate processes: killed runs, killed and restarted comparisons, lost Ray nodes."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_comparison import small

from decision_rnn.comparison.compare import make_plan
from decision_rnn.comparison.executors import LOG, LocalExecutor, RayExecutor, Task
from decision_rnn.comparison.results import Comparison
from decision_rnn.runs.folder import checkpoints_of, read_metrics
from decision_rnn.utils.errors import InputError

Compare = Callable[..., Comparison]


def keys(times: int = 1, variants: Sequence[str] = ("narrow", "wide")) -> dict[str, Any]:
    """The keys of these variants with runs of 60 steps, or `times` times as many."""
    training = {"steps": 60 * times, "checkpoint_every": 10 * times, "log_every": 5, "context": 4}
    widths = {"narrow": {"backbone": {"width": 16}}, "wide": {"backbone": {"width": 32}}}
    options = {"variants": {name: widths[name] for name in variants}, "backbone.dropout": 0.1}
    return options | {f"training.{key}": of for key, of in training.items()}


def timeless(value: Any) -> Any:
    """A comparison's values without those that differ between runs: timings, command, hardware and commit."""
    timed = ("action_microseconds", "training_seconds", "evaluation_seconds", "command", "hardware", "commit")
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in timed}
    return [timeless(part) for part in value] if isinstance(value, (list, tuple)) else value


def written(output: Path) -> dict[Path, int]:
    """Results by path, with their modification times."""
    return {path: path.stat().st_mtime_ns for path in output.glob("*/*/results/*.json")}


def entries(folder: Path) -> int:
    """The number of files and folders below; some may appear or vanish while counting."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def started(output: Path, folder: Path, asked: dict[str, Any], *options: str) -> "subprocess.Popen[str]":
    (folder / "compared.yaml").write_text(yaml.safe_dump(small(output, **asked)))
    command = [sys.executable, "-m", "decision_rnn", "compare", "--config", "compared.yaml", "--output", str(output)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, *options], cwd=folder, env=environment, text=True, **pipes)


def killed_again_and_again(
    comparing: Compare, folder: Path, kills: int, seeds: int, jobs: str, variants: Sequence[str] = ("narrow", "wide")
) -> None:
    """A comparison killed `kills` times has the numbers of an undisturbed one and writes no result twice."""
    asked = keys(variants=variants) | {"seeds": seeds, "checkpoint_episodes": 1}
    whole = comparing(**asked)
    count = entries(folder / "runs")
    generator, output = random.Random(kills), folder / "killed"
    seen: dict[Path, int] = {}
    for moment in sorted(generator.uniform(0.05, 0.95) * count for _ in range(kills)):
        process = started(output, folder, asked, "--jobs", jobs)
        while process.poll() is None and entries(output) < moment:
            time.sleep(0.02)
        time.sleep(generator.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for path, stamp in written(output).items():
            assert seen.setdefault(path, stamp) == stamp, f"{path} was made twice"
    process = started(output, folder, asked, "--jobs", jobs)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    comparison = json.loads((output / "comparison.json").read_text())
    assert timeless(comparison) == timeless(json.loads((folder / "runs" / "comparison.json").read_text()))
    again = written(output)
    assert seen.items() <= again.items()
    for trial in whole.trials:
        lines = (output / trial.run / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == list(range(5, 61, 5))
        assert len(list((output / trial.run / "results").iterdir())) == 7  # six checkpoints and the final result


def test_killed_comparison_resumes_to_the_same_numbers(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    killed_again_and_again(comparing, tmp_path, kills=1, seeds=1, jobs="1", variants=["narrow"])


@pytest.mark.slow
def test_comparison_killed_ten_times_has_the_same_numbers(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    killed_again_and_again(comparing, tmp_path, kills=10, seeds=3, jobs="2")


@pytest.mark.slow
def test_killed_run_fails_and_resumes_when_started_again(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is killed after its first checkpoint."""
    start = Task.start

    def killed(task: Task, *arguments: int) -> "subprocess.Popen[bytes]":
        process = start(task, *arguments)
        while not (task.folder / "checkpoints" / "50").is_dir():
            time.sleep(0.01)
        process.kill()
        return process

    asked = small(tmp_path / "runs", **keys(times=5, variants=["narrow"]))
    (planned,) = make_plan(asked, "test").trials()[1]
    with monkeypatch.context() as patch:
        patch.setattr(Task, "start", killed)
        ((_, error),) = LocalExecutor(jobs=1).run([planned.task()])
    assert "killed by signal 9" in str(error)
    assert list(LocalExecutor(jobs=1).run([planned.task()])) == [(0, None)]
    log = (planned.task().folder / LOG).read_text().splitlines()
    assert [line.endswith("--resume --processes 1") for line in log if line.startswith("$ ")] == [False, True]


def test_closing_the_executor_early_ends_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    commands = iter([["true"], ["sleep", "60"], ["sleep", "60"]])

    def start(*_: Any) -> "subprocess.Popen[bytes]":
        command = next(commands)
        process = subprocess.Popen(command)
        started.extend([process] * (command != ["true"]))
        return process

    monkeypatch.setattr(Task, "start", start)
    events = LocalExecutor(jobs=2).run([Task(tmp_path, tmp_path / "x.yaml", (), "cpu")] * 3)
    _, fault = next(events)  # of whichever task started first
    assert fault is None
    events.close()
    assert {process.returncode for process in started} <= {-signal.SIGTERM}


def test_run_that_raises_fails_with_its_exception(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text(
        "from decision_rnn.training.trainer import Trainer\n\nTrainer.step = lambda *_: 1 / 0\n"
    )
    monkeypatch.chdir(tmp_path)
    (planned,) = make_plan(small(tmp_path / "runs"), "test").trials()[1]
    task = replace(planned.task(), plugins=("broken",))
    ended = list(LocalExecutor(jobs=1).run([task]))
    assert ended == [(0, "ZeroDivisionError: division by zero")]
    assert "Traceback" in (task.folder / LOG).read_text()


def test_error_of_a_run_is_found_in_its_log(tmp_path: Path) -> None:
    task = Task(tmp_path, tmp_path / "config.yaml", (), "cpu")
    for lines, fault in (
        (["decision-rnn: no dataset", "terminate called"], "no dataset"),
        (
            ["decision-rnn: of an earlier start", "$ decision-rnn train", "a.FaultError: oh", "  dear", ""],
            "a.FaultError: oh",
        ),
        (["Killed", " "], "Killed"),
        (["", ""], "train"),
    ):
        (tmp_path / LOG).write_text("\n".join(["$ decision-rnn train", *lines]))
        assert task.fault() == fault


def test_ray_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"ray.*\.\[ray\]"):
        RayExecutor()


@pytest.mark.slow
def test_ray_gives_the_same_numbers_after_losing_a_node(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    """A cluster of two nodes; the second is removed while runs train on it."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    def lose() -> None:
        """Removes the second node once two runs train: each node has one core, so one of them is there."""
        while sum(path.is_file() for path in (tmp_path / "ray").glob("*/*/metrics.jsonl")) < 2:
            time.sleep(0.1)
        cluster.remove_node(second, allow_graceful=False)
        lost.append(True)

    lost: list[bool] = []
    options = {"seeds": 2, "checkpoint_episodes": 1}
    local = comparing(**keys(10), **options)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        threading.Thread(target=lose, daemon=True).start()
        comparison = comparing(RayExecutor(), **keys(10), **options, output=str(tmp_path / "ray"))
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert lost
    begun = [(tmp_path / "ray" / trial.run / LOG).read_text().count("$ ") for trial in comparison.trials]
    assert sorted(begun) == [1, 1, 1, 2]  # the run on the lost node was started twice
    assert comparison.failed == ()
    assert timeless(asdict(comparison)) == timeless(asdict(local))


@pytest.mark.slow
def test_ray_ends_runs_with_a_checkpoint(mine: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    planned = make_plan(small(tmp_path / "runs", **keys(), seeds=1), "test").trials()[1]
    short, long = (run.task() for run in planned[:2])
    config, steps = yaml.safe_load(long.file.read_text()), dict.fromkeys(("steps", "checkpoint_every"), 1_000_000)
    long.file.write_text(yaml.safe_dump(config | {"training": config["training"] | steps}))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        running = RayExecutor().run([short, long])
        assert next(running) == (0, None)
        while not read_metrics(long.folder):
            time.sleep(0.1)
        running.close()
    finally:
        ray.shutdown()
    (checkpoint,) = checkpoints_of(long.folder)
    assert int(checkpoint.name) - read_metrics(long.folder)[-1]["step"] in range(5)  # log_every
    assert "interrupted" in (long.folder / LOG).read_text()

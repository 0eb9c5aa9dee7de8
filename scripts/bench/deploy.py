"""The cost of acting in deployment: an exported policy compared with its agent, and the time to the first action."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from bench.measure import Row, compare, interleaved
from bench.rollout import EPISODE, PRETRAINED, WINDOW, acting, time_actions
from decision_rnn.deploy.hub import find_agent
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.actor import WindowActor, prepare_to_act
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.training.checkpoint import load_agent
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import warn
from decision_rnn.utils.parsing import PositiveInt

BATCHES = (1, 64, 1024)
STARTS = 5
"""Number of new processes to time; the median counts."""

WITHOUT_TORCH = """
import time
begun = time.perf_counter()
from decision_rnn.deploy import Policy
import numpy, sys
policy = Policy.load(sys.argv[1])
policy.act(numpy.zeros(policy.observation_layout.size))
print(time.perf_counter() - begun)
"""
WITH_TORCH = """
import time
begun = time.perf_counter()
from decision_rnn import load_agent
import pathlib, sys, torch
torch.set_num_threads(1)
agent = load_agent(pathlib.Path(sys.argv[1])).agent
with torch.inference_mode():
    zero = torch.zeros(1)
    agent.act(torch.zeros(1, agent.observation_dim), zero, agent.initial_state(zero))
print(time.perf_counter() - begun)
"""


def bench_deploy(rounds: PositiveInt = 20, run: str = PRETRAINED) -> list[Row]:
    """Time one action of an exported policy, of its agent, and of the agent re-run on its last 20 steps.

    The policy acts through its public interface, with numpy arrays, and begins a new episode every 1,000 steps. Actions
    are measured in CPU time of the process, on one thread, with all candidates in turn; start-up is wall time from the
    first line of a new Python process that imports, loads and acts once.

    Args:
        rounds: Number of timings of each action.
        run: A run's or packaged agent's folder, pretrained/NAME, or org/name of the hub.

    Returns:
        Rows `deploy/runtime/act-B`, `deploy/runtime-int8/act-B` (weights in 8 bits), `deploy/eager/act-B` and
        `deploy/window-20/act-B` for batch sizes of 1, 64 and 1024, in µs per environment step, ratio: the window's time
        over the row's; and `deploy/start-up/runtime` and `deploy/start-up/eager`, in seconds, ratio: the eager agent's
        time over the row's. Where weights in 8 bits are refused, their rows are left out, and stderr says why.

    Raises:
        InputError: If there is no such agent, or the extra `onnx` is missing.
    """
    with tempfile.TemporaryDirectory() as folder, one_thread():
        checkpoint, path, rounded = find_agent(run), Path(folder) / "policy.onnx", Path(folder) / "int8.onnx"
        trained = load_agent(checkpoint)
        export_onnx(trained, path)
        agent = prepare_to_act(trained.agent)
        actors: dict[str, Callable[[int], Callable[[], object]]] = {
            "deploy/runtime/act": partial(acting_policy, path, agent.encoder.features),
            "deploy/runtime-int8/act": partial(acting_policy, rounded, agent.encoder.features),
            "deploy/eager/act": partial(acting, agent, agent),
            f"deploy/window-{WINDOW}/act": partial(acting, WindowActor(agent, WINDOW), agent),
        }
        try:
            export_onnx(trained, rounded, weights="int8")
        except InputError as error:  # of this agent such weights act too differently, or they do not run here
            warn(f"deploy/runtime-int8 is left out: {error}")
            del actors["deploy/runtime-int8/act"]
        return [*time_actions(actors, BATCHES, rounds), *_starts(path, checkpoint)]


def _starts(policy: Path, checkpoint: Path) -> list[Row]:
    def start(code: str, path: Path) -> float:
        command = [sys.executable, "-c", code, str(path)]
        return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)

    timings = {
        "deploy/start-up/runtime": partial(start, WITHOUT_TORCH, policy),
        "deploy/start-up/eager": partial(start, WITH_TORCH, checkpoint),
    }
    return compare(interleaved(timings, STARTS, "timing the start"), "deploy/start-up/eager", "s", 1)


def acting_policy(path: Path, features: int, batch: int) -> Callable[[], None]:
    """Consecutive actions of an exported policy, with the same noise as every observation."""
    from decision_rnn.deploy.runtime import Policy  # imported here because other benchmarks do not need onnxruntime

    policy, step = Policy.load(path), 0
    observations = np.random.default_rng(0).normal(0, 1, (batch, features)).astype(np.float32)
    rewards = np.ones(batch, np.float32)

    def work() -> None:
        nonlocal step
        if step % EPISODE == 0:
            policy.reset(3600.0)
        policy.act(observations, rewards)
        step += 1

    return work

"""The cost of acting in deployment: an exported policy compared with its agent, and the time to the first action."""

import copy
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from tqdm import tqdm

from decision_rnn.agent import DecisionAgent, box_spec
from decision_rnn.backbones import registered
from decision_rnn.bench.measure import Row, Timing, check_rounds, compare, interleaved, timed
from decision_rnn.checkpoint import TrainedAgent, last_checkpoint, load_agent, save_checkpoint
from decision_rnn.config import DEFAULT_BACKBONE, RunConfig
from decision_rnn.data.spec import TASKS
from decision_rnn.data.summary import DataSummary
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.actor import Actor, WindowActor, prepare_to_act
from decision_rnn.evaluation.rollout import one_thread

if TYPE_CHECKING:
    from decision_rnn.deploy.runtime import Policy

BATCHES = (1, 64, 1024)
WINDOW = 20
CALLS = {1: 200, 64: 20, 1024: 2}
"""Number of calls in one timing, by batch size."""
STARTS = 5
"""Number of new processes to time; the median counts."""
EPISODE = 1000
"""Number of steps after which all environments begin a new episode."""

WITHOUT_TORCH = """
import time
begun = time.perf_counter()
from decision_rnn.deploy import Policy
import numpy, sys
policy = Policy.load(sys.argv[1])
policy.act(numpy.zeros(policy.observation_dim))
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
    agent.act(torch.zeros(1, agent.observation_dim), zero, None, agent.initial_state(zero))
print(time.perf_counter() - begun)
"""


def bench_deploy(rounds: int = 20, run: Path | None = None) -> list[Row]:
    """Time one action of an exported policy, of its agent, and of the agent re-run on its last 20 steps.

    The policy acts through its public interface, with numpy arrays, and begins a new episode every 1,000 steps. Actions
    are measured in CPU time of the process, on one thread, with all candidates in turn; start-up is wall time from the
    first line of a new Python process that imports, loads and acts once.

    Args:
        rounds: Number of timings of each action.
        run: Folder of a trained run; if left out, an untrained minGRU of the default size, whose actions cost the same.

    Returns:
        Rows `deploy/runtime/act-B`, `deploy/eager/act-B` and `deploy/window-20/act-B` for batch sizes of 1, 64 and
        1024, in µs per environment step, ratio: the window's time over the row's; and `deploy/start-up/runtime` and
        `deploy/start-up/eager`, in seconds, ratio: the eager agent's time over the row's.

    Raises:
        InputError: If `run` has no usable checkpoint, the extra `onnx` is missing, or there are no rounds.
    """
    check_rounds(rounds)
    with tempfile.TemporaryDirectory() as folder, one_thread():
        trained = untrained() if run is None else load_agent(last_checkpoint(run))
        path = Path(folder) / "policy.onnx"
        export_onnx(trained, path)
        from decision_rnn.deploy.runtime import Policy  # imported here because other benchmarks do not need onnxruntime

        checkpoint = save_checkpoint(Path(folder), trained, {})
        agent = prepare_to_act(trained.agent)
        return [*_actions(agent, Policy.load(path), rounds), *_starts(path, checkpoint)]


def untrained() -> TrainedAgent:
    """An untrained agent with the default configuration, for Hopper."""
    spec = TASKS["hopper"].spec("standin/hopper-medium", "Hopper-v5", "untrained: compare with nothing")
    config = RunConfig(dataset=spec.name, backbone=registered(DEFAULT_BACKBONE).config(name=DEFAULT_BACKBONE))
    made_for = box_spec(
        torch.zeros(11), torch.ones(11), 3, return_scale=spec.return_scale, rtg_cap=torch.linspace(3000, 0, EPISODE)
    )
    agent = DecisionAgent(config.agent, config.backbone, made_for)
    returns = {"return_mean": 1400.0, "return_sd": 400.0, "return_min": 300.0, "return_max": 3200.0}
    data = DataSummary.from_spec(spec, fingerprint="0" * 64, **returns)
    return TrainedAgent(agent.eval(), config, data, step=0, seconds=0.0)


def _actions(agent: DecisionAgent, policy: "Policy", rounds: int) -> list[Row]:
    timings: dict[str, Timing] = {}
    for batch in BATCHES:
        calls = CALLS[batch]
        timings[f"deploy/runtime/act-{batch}"] = timed(_acting_policy(policy, batch), calls)
        timings[f"deploy/eager/act-{batch}"] = timed(_acting(agent, policy, batch), calls)
        window = timed(_acting(WindowActor(agent, WINDOW), policy, batch), max(calls // 10, 1))
        timings[f"deploy/window-{WINDOW}/act-{batch}"] = window
    with torch.inference_mode():
        for timing in [timing for name, timing in timings.items() if "window" in name]:
            for _ in range(WINDOW):  # until the window is full
                timing()
        seconds = interleaved(timings, rounds, warmup=2, description="timing actions")
    rows = []
    for batch in BATCHES:
        names = [name for name in timings if name.endswith(f"act-{batch}")]
        rows += compare({name: 1e6 * seconds[name] / batch for name in names}, names[-1], "µs")
    return rows


def _inputs(policy: "Policy", batch: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.normal(0, 1, (batch, policy.observation_dim)).astype(np.float32), np.ones(batch, np.float32)


def _acting_policy(policy: "Policy", batch: int) -> Callable[[], None]:
    """Consecutive actions of the runtime on noise, with its own copy of the policy."""
    observations, rewards = _inputs(policy, batch)
    policy, step = copy.deepcopy(policy), 0

    def work() -> None:
        nonlocal step
        if step % EPISODE == 0:
            policy.reset(3600.0)
        policy.act(observations, rewards)
        step += 1

    return work


def _acting(actor: Actor, policy: "Policy", batch: int) -> Callable[[], None]:
    """Consecutive actions of a torch actor on the same noise."""
    observations, rewards = map(torch.from_numpy, _inputs(policy, batch))
    state, step = actor.initial_state(torch.full((batch,), 3600.0)), 0

    def work() -> None:
        nonlocal state, step
        if step % EPISODE == 0:
            state = actor.initial_state(torch.full((batch,), 3600.0))
        _, state = actor.act(observations, rewards, None, state)
        step += 1

    return work


def _starts(policy: Path, checkpoint: Path) -> list[Row]:
    candidates = {
        "deploy/start-up/runtime": (WITHOUT_TORCH, policy),
        "deploy/start-up/eager": (WITH_TORCH, checkpoint),
    }
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in tqdm(range(STARTS), desc="timing the start", unit="round", disable=None):
        for name, (code, path) in candidates.items():
            command = [sys.executable, "-c", code, str(path)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            seconds[name].append(float(done.stdout))
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    return compare(medians, "deploy/start-up/eager", "s")

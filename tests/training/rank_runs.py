"""Small runs, of every objective and condition, trained by one process and by the two of torchrun.

As a script of torchrun, in the working folder: `train` trains them all and is killed in the last one, `resume` goes on.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete
from torch import Tensor

import decision_rnn
from decision_rnn import Episode
from decision_rnn.training.trainer import Trainer
from decision_rnn.utils.distributed import own_rows, rank, world_size

STEPS, SAVED = 8, 5
TRAINING = {"batch_size": 12, "context": 8, "precision": "fp32", "device": "cpu", "log_every": 1}
SMALL = {"name": "mingru", "width": 16, "layers": 1}
RUNS: dict[str, dict[str, Any]] = {
    "mse": {"agent": {"conditioning": "adaln"}, "training": {"segment_start": "episode"}},
    "cross_entropy": {"dataset": "local/discrete", "validation": "local/discrete"},
    "gmm": {"objective": "gmm", "training": {"optimizer": "muon", "ema_decay": 0.9}},
    "flow_matching": {"objective": "flow_matching", "condition": "none"},
    # Each half of the batch knows another number of actions: episodes end, and so do segments.
    "action_chunk": {"objective": {"name": "action_chunk", "chunk_size": 6}},
    "time_to_goal": {"dataset": "local/goals", "training": {"goal_relabeling": "hindsight"}},
    "carried": {"training": {"tbptt_segments": 4}},
}
DROPOUT = {"backbone": {**SMALL, "dropout": 0.1}}
"""A run in which every process draws random numbers of its own."""
TIME = Path("time")
"""When the process was killed."""


def write_data() -> None:
    """The datasets: short episodes of random numbers, with actions in a Box or discrete, and with goals."""
    random = np.random.default_rng(0)
    vector, goal, box = Box(-np.inf, np.inf, (4,)), Box(-np.inf, np.inf, (2,)), Box(-1.0, 1.0, (3,))
    goals = Dict({"achieved_goal": goal, "desired_goal": goal, "observation": vector})

    def draw(space: gymnasium.Space, length: int) -> Any:
        if isinstance(space, Dict):
            return {key: draw(part, length) for key, part in space.spaces.items()}
        if isinstance(space, Discrete):
            return random.integers(space.n, size=length)
        return random.uniform(-1, 1, (length, *space.shape)).astype(np.float32)

    for name, observations, actions in (("box", vector, box), ("discrete", vector, Discrete(5)), ("goals", goals, box)):
        episodes = [
            Episode(draw(observations, n + 1), draw(actions, n), random.normal(size=n), True, False)
            for n in random.integers(3, 30, size=20).tolist()
        ]
        decision_rnn.write_store(f"local/{name}", episodes, observation_space=observations, action_space=actions)


def train(output: str, steps: int = STEPS, **config: Any) -> None:
    """Train a run for some of its steps. Every process draws the noise of the whole batch, and uses that of its
    rows."""
    generator = torch.Generator().manual_seed(0)

    def noise(draw: Any, like: Tensor) -> Tensor:
        rows = len(like) * world_size()
        return draw(rows, *like.shape[1:], generator=generator)[own_rows(rows)]

    config = {"dataset": "local/box", "backbone": SMALL, **config, "training": TRAINING | config.get("training", {})}
    draws = {"randn_like": lambda x: noise(torch.randn, x), "rand_like": lambda x: noise(torch.rand, x)}
    with mock.patch.multiple(torch, **draws):
        run = decision_rnn.train(
            config.pop("dataset"),
            steps=STEPS,
            output=output,
            callback=lambda step, *_: step < steps,
            progress=False,
            evaluation={"episodes": 0},
            **config,
        )
    assert run.agent.step == steps  # in every process


def resume(output: str) -> None:
    assert decision_rnn.train(resume=True, output=output, progress=False).agent.step == STEPS


def train_all() -> None:
    """All runs to their end, and those that will be resumed: stopped, or killed in the step after a checkpoint."""
    for name, config in RUNS.items():
        train(name, **config)
    train("dropout", **DROPOUT)
    train("dropout-stopped", SAVED, **DROPOUT)

    step = Trainer.step

    def step_or_die(trainer: Trainer, batch: Any) -> Any:
        if trainer.steps == SAVED + 1 and rank() == 1:
            TIME.write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        return step(trainer, batch)

    Trainer.step = step_or_die  # type: ignore[method-assign]
    train("killed", training={**RUNS["carried"]["training"], "checkpoint_every": SAVED})


def resume_all() -> None:
    for name in ("dropout-stopped", "killed", "stopped"):
        resume(name)


if __name__ == "__main__":
    {"train": train_all, "resume": resume_all}[sys.argv[1]]()

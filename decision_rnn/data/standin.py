"""Stand-ins for the D4RL sets, collected here from small SAC policies that ship with the package.

D4RL's medium sets are a SAC policy stopped on its way to expert and sampled with its own noise (Fu et al.
2020). Ours are mixtures of a few such snapshots; behavior/README.md says which, why and how close they come.
"""

import contextlib
import multiprocessing
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from safetensors.numpy import load_file
from tqdm import tqdm

from decision_rnn.data.episodes import Episode, sha256_of, sha256_of_json
from decision_rnn.errors import InputError
from decision_rnn.workers import available_cores, limited_threads, start_worker

COLLECTOR = 1  # raised when the code below would turn the same recipe into other episodes
CHUNK = 8  # episodes played per task: about half a second of work
BEHAVIOR = Path(__file__).parent / "behavior"


@dataclass(frozen=True)
class Recipe:
    """All that decides a stand-in's episodes.

    `policies` gives each policy's share of the episodes, by the name of its weights in behavior/.
    Episodes are played until `steps` are reached; the last one is kept whole.
    """

    environment_id: str
    policies: tuple[tuple[str, float], ...]
    seed: int
    steps: int

    def describe(self) -> dict[str, Any]:
        """The recipe as plain JSON, with the weights' SHA-256 and the collector's version."""
        weights = {name: sha256_of(weights_path(name)) for name, _ in self.policies}
        return {**asdict(self), "policies": dict(self.policies), "weights": weights, "collector": COLLECTOR}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of `describe()`: two recipes with one fingerprint make the same dataset."""
        return sha256_of_json(self.describe())


RECIPES = {
    "standin/hopper-medium": Recipe(
        environment_id="Hopper-v5",
        policies=(
            ("hopper-seed1-0130k", 0.80),
            ("hopper-seed1-0140k", 0.05),
            ("hopper-seed0-0120k", 0.15),
        ),
        seed=0,
        steps=1_000_000,
    )
}


def weights_path(name: str) -> Path:
    """The file of a behaviour policy's weights."""
    return BEHAVIOR / f"{name}.safetensors"


class Policy:
    """A SAC actor in numpy: two ReLU layers, then a Gaussian squashed by tanh (Haarnoja et al. 2018)."""

    def __init__(self, path: Path) -> None:
        self.weights = load_file(path)

    def distribution(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (A,) float32 of the Gaussian before tanh, for an observation (O,)."""
        w = self.weights
        hidden = np.maximum(w["hidden.0.weight"] @ observation.astype(np.float32) + w["hidden.0.bias"], 0)
        hidden = np.maximum(w["hidden.1.weight"] @ hidden + w["hidden.1.bias"], 0)
        mean = w["mean.weight"] @ hidden + w["mean.bias"]
        log_std = w["log_std.weight"] @ hidden + w["log_std.bias"]
        return mean, np.exp(np.clip(log_std, -20, 2))

    def sample(self, observation: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """An action (A,) float32 in [-1, 1] for an observation (O,)."""
        mean, std = self.distribution(observation)
        return np.tanh(mean + std * generator.standard_normal(len(mean), np.float32))


class Collector:
    """Plays the episodes of a recipe, each a pure function of the recipe and the episode's index."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.policies = [Policy(weights_path(name)) for name, _ in recipe.policies]
        self.shares = np.array([share for _, share in recipe.policies])
        self.environment = gymnasium.make(recipe.environment_id, disable_env_checker=True)

    def play(self, index: int) -> Episode:
        """The recipe's episode of this index."""
        generator = np.random.default_rng([self.recipe.seed, index])
        policy = self.policies[generator.choice(len(self.policies), p=self.shares / self.shares.sum())]
        seed = int(generator.integers(2**31))
        observation, _ = self.environment.reset(seed=seed)
        observations, actions, rewards = [observation], [], []
        terminated = truncated = False
        while not (terminated or truncated):
            action = policy.sample(observation, generator)
            observation, reward, terminated, truncated, _ = self.environment.step(action)
            observations.append(observation)
            actions.append(action)
            rewards.append(reward)
        return Episode(
            np.stack(observations),
            np.stack(actions),
            np.array(rewards, np.float64),
            terminated,
            truncated,
            seed,
        )


_collector: Collector | None = None  # of a worker process


def _start_worker(recipe: Recipe, folder: str) -> None:
    global _collector
    start_worker()
    os.chdir(folder)  # MuJoCo writes its warnings to MUJOCO_LOG.TXT in the working directory
    _collector = Collector(recipe)


def _play_chunk(first: int) -> list[Episode]:
    assert _collector is not None
    return [_collector.play(index) for index in range(first, first + CHUNK)]


def collect(recipe: Recipe, progress: bool = True, processes: int | None = None) -> Iterator[Episode]:
    """Yield the recipe's episodes in order, the same for any number of `processes` (by default one per core).

    A progress bar over steps goes to stderr when that is a terminal. Processes are spawned, so a script that
    gets here must keep its own work under `if __name__ == "__main__":`. Raises InputError when a process dies.
    """
    processes = processes or available_cores()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="decision_rnn-"))
        pool = ProcessPoolExecutor(
            processes,
            multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(recipe, folder),
        )
        stack.callback(pool.shutdown, cancel_futures=True)
        hidden = None if progress else True  # None: shown on a terminal only
        bar = stack.enter_context(tqdm(total=recipe.steps, desc="collecting", unit_scale=True, disable=hidden))
        steps = 0
        for episodes in _played_chunks(pool, ahead=2 * processes):
            for episode in episodes:
                steps += len(episode.rewards)
                bar.update(len(episode.rewards))
                yield episode
                if steps >= recipe.steps:
                    return


def _played_chunks(pool: ProcessPoolExecutor, ahead: int) -> Iterator[list[Episode]]:
    """Chunks of episodes in order, without end; `ahead` of them are being played while the oldest is awaited."""
    try:
        with limited_threads(1):
            chunks = deque(pool.submit(_play_chunk, index * CHUNK) for index in range(ahead))
        for index in count(ahead):
            yield chunks.popleft().result()
            chunks.append(pool.submit(_play_chunk, index * CHUNK))
    except BrokenProcessPool as error:
        raise InputError(
            "a process that collects episodes has died: free some memory, or put the work of a script that uses a "
            'dataset under `if __name__ == "__main__":`'
        ) from error

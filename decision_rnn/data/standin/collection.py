"""Collects stand-ins for the D4RL datasets with small SAC policies that ship with the package.

The recipes are in recipes.py. Collecting a dataset again gives the same bits on the same kind of CPU.
"""

import contextlib
from collections.abc import Iterator
from functools import cache, partial
from itertools import chain, count
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from decision_rnn.data.episode import Episode
from decision_rnn.data.standin.recipes import UNIFORM, Recipe, weights_path
from decision_rnn.data.unfinished import kept
from decision_rnn.environments.environments import make_environment
from decision_rnn.environments.playing import Quota, play_one
from decision_rnn.utils.messages import bar
from decision_rnn.utils.workers import available_cores, parallel_map

CHUNK = 8  # episodes played per task: about half a second of work


class Policy:
    """A SAC actor in numpy: two ReLU layers, then a Gaussian squashed by tanh (Haarnoja et al. 2018)."""

    def __init__(self, path: Path, noise: float = 1.0) -> None:
        self.weights = load_file(path)
        self.noise = noise  # factor on the standard deviation of the actor's noise

    def features(self, observation: np.ndarray) -> np.ndarray:
        """The input of the last layer for an observation (O,): (256,) float32."""
        w = self.weights
        hidden = np.maximum(w["hidden.0.weight"] @ observation.astype(np.float32) + w["hidden.0.bias"], 0)
        return np.maximum(w["hidden.1.weight"] @ hidden + w["hidden.1.bias"], 0)

    def distribution(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (A,) float32 of the Gaussian before tanh, for an observation (O,)."""
        w, hidden = self.weights, self.features(observation)
        mean = w["mean.weight"] @ hidden + w["mean.bias"]
        log_std = w["log_std.weight"] @ hidden + w["log_std.bias"]
        return mean, np.exp(np.clip(log_std, -20, 2))

    def sample(self, observation: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """An action (A,) float32 in [-1, 1] for an observation (O,)."""
        mean, std = self.distribution(observation)
        return np.tanh(mean + self.noise * std * generator.standard_normal(len(mean), np.float32))


class Collector:
    """Plays the episodes of a recipe, each a pure function of the recipe and the episode's index."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.environment = make_environment(recipe.environment_id)
        self.policies = [
            None if name == UNIFORM else Policy(weights_path(name), recipe.noise) for name, _ in recipe.policies
        ]
        self.shares = np.array([share for _, share in recipe.policies])

    def play(self, index: int) -> Episode:
        """The recipe's episode with this index."""
        generator = np.random.default_rng([self.recipe.seed, index])
        policy = self.policies[generator.choice(len(self.policies), p=self.shares / self.shares.sum())]
        seed = int(generator.integers(2**31))
        size = self.environment.action_space.shape

        def act(seen: np.ndarray, *_: object) -> np.ndarray:
            return 2 * generator.random(size, np.float32) - 1 if policy is None else policy.sample(seen, generator)

        (episode,) = play_one(self.environment, act, Quota(1), seed)
        return episode


_collector = cache(Collector)  # one in every worker process


def _play_chunk(recipe: Recipe, first: int) -> list[Episode]:
    return [_collector(recipe).play(index) for index in range(first, first + CHUNK)]


def collect(recipe: Recipe, folder: Path, progress: bool = True, processes: int | None = None) -> Iterator[Episode]:
    """Yield the recipe's episodes in order, the same for any number of `processes` (by default one per core). Those in
    `folder`, where all are kept, are not played again.

    A progress bar over steps goes to stderr when that is a terminal. Processes are spawned, so that their BLAS starts
    with one thread: a script that calls this must do its work under `if __name__ == "__main__":`. Raises
    EnvironmentFailure if a process dies.
    """
    play, doing = partial(kept, folder, partial(_play_chunk, recipe)), "collects episodes"
    chunks = parallel_map(play, count(0, CHUNK), processes or available_cores(), doing, start_method="spawn")
    shown = bar(total=recipe.steps, desc="collecting", unit_scale=True, show=progress)
    with contextlib.closing(chunks), shown:
        steps = 0
        for episode in chain.from_iterable(chunks):
            steps += len(episode.rewards)
            shown.update(len(episode.rewards))
            yield episode
            if steps >= recipe.steps:
                return

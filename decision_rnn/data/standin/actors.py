"""Plays the episodes of stand-ins with small SAC actors that ship with the package."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from decision_rnn.data.episode import Episode
from decision_rnn.environments.playing import play_episode
from decision_rnn.environments.registry import make_environment

BEHAVIOR = Path(__file__).parent / "behavior"
UNIFORM = "uniform"
"""Instead of an actor's name: actions sampled uniformly."""


def weights_path(name: str) -> Path:
    """The file of an actor's weights."""
    return BEHAVIOR / f"{name}.safetensors"


class Actor:
    """A SAC actor in NumPy: two ReLU layers, then a Gaussian squashed by tanh (Haarnoja et al. 2018).

    Args:
        path: The file of its weights.
        noise: A factor on the standard deviation of its noise.
    """

    def __init__(self, path: Path, noise: float = 1.0) -> None:
        self.weights = load_file(path)
        self.noise = noise

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
        return np.tanh(mean + self.noise * std * generator.standard_normal(len(mean), np.float32))


class MixturePlayer:
    """Plays episodes, each with one of several actors.

    Args:
        environment_id: The environment.
        shares: The share of the episodes of each actor, by its name.
        noise: As of `Actor`.
        seed: The seed from which, with its index, everything in an episode is drawn.
    """

    def __init__(self, environment_id: str, shares: dict[str, float], noise: float, seed: int) -> None:
        self.environment = make_environment(environment_id)
        self.actors = [None if name == UNIFORM else Actor(weights_path(name), noise) for name in shares]
        self.shares = np.array(list(shares.values()))
        self.seed = seed

    def __call__(self, index: int) -> Episode:
        """The episode with this index."""
        generator = np.random.default_rng([self.seed, index])
        actor = self.actors[generator.choice(len(self.actors), p=self.shares / self.shares.sum())]
        seed = int(generator.integers(2**31))
        size = self.environment.action_space.shape

        def act(observation: np.ndarray, *_: object) -> np.ndarray:
            return 2 * generator.random(size, np.float32) - 1 if actor is None else actor.sample(observation, generator)

        return play_episode(self.environment, act, seed)

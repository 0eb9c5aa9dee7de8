"""The policies that stand-ins are collected with: in NumPy, so that collecting does not need torch."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


class UniformPolicy:
    """Actions (size,) sampled uniformly from [-1, 1], independent of the observation."""

    def __init__(self, size: int) -> None:
        self.size = size

    def sample(self, observation: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """An action (A,) float32 in [-1, 1]."""
        return 2 * generator.random(self.size, np.float32) - 1


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

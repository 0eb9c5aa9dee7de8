"""Stand-ins for the D4RL datasets, which are played here on first use by small SAC actors that ship with the package.

D4RL's medium datasets come from a SAC policy stopped before it is an expert and sampled with its own noise, the replay
datasets hold what it had seen by then, and the random datasets come from an untrained policy (Fu et al. 2020). Ours are
played by one or a few snapshots; behavior/README.md explains their origin and choice. hopper-mixed has no counterpart
in D4RL: its high returns are rare, and come from another policy than the rest.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from decision_rnn.data.cache import sha256_of
from decision_rnn.data.collect import is_made_by, open_or_collect
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.playing import play_episode
from decision_rnn.environments.recipe import Recipe
from decision_rnn.environments.registry import make_environment
from decision_rnn.environments.tasks import TASKS
from decision_rnn.utils.messages import progress_bar, warn

BEHAVIOR = Path(__file__).parents[1] / "behavior"
"""The folder of the actors' weights."""
UNIFORM = "uniform"
"""Instead of an actor's name: actions sampled uniformly."""


class Actor:
    """A SAC actor in NumPy: two ReLU layers, then a Gaussian squashed by tanh (Haarnoja et al. 2018). `noise` is a
    factor on its standard deviation."""

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


@dataclass(frozen=True, kw_only=True)
class StandinRecipe(Recipe):
    """Episodes of one or a few snapshots of an agent's training, until `steps` are reached; the last one is whole.

    Attributes:
        policies: Each policy's share of the episodes, by the name of its weights in behavior/.
        noise: A factor on the standard deviation of their noise.
        seed: The seed from which, with its index, everything in an episode is drawn.
    """

    # Spawned, so that BLAS starts with one thread: with several, the last bits of an action may differ.
    start_method = "spawn"
    policies: tuple[tuple[str, float], ...]
    noise: float = 1.0
    seed: int = 0

    def files(self) -> dict[str, Path]:
        """The weights of its actors, by their names."""
        return {name: BEHAVIOR / f"{name}.safetensors" for name, _ in self.policies if name != UNIFORM}

    def player(self) -> Callable[[int], Episode]:
        actors = {name: Actor(file, self.noise) for name, file in self.files().items()}
        shares = np.array([share for _, share in self.policies])
        environment = make_environment(self.environment_id)
        size: Any = environment.action_space.shape

        def play(index: int) -> Episode:
            generator = np.random.default_rng([self.seed, index])
            name, _ = self.policies[generator.choice(len(shares), p=shares / shares.sum())]
            seed = int(generator.integers(2**31))

            def act(observation: np.ndarray, *_: Any) -> np.ndarray:
                if name == UNIFORM:
                    return 2 * generator.random(size, np.float32) - 1
                return actors[name].sample(observation, generator)

            return play_episode(environment, act, seed)

        return play

    def describe(self) -> dict[str, Any]:
        """As of every recipe, with the SHA-256 of the weights."""
        return super().describe() | {"weights": {name: sha256_of(file) for name, file in self.files().items()}}


CATALOGUE: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text())
"""Every stand-in, without its prefix: its recipe, or the `parts` that are joined, and its reference build: fingerprint,
mean return and mean length on the machine of results/standins."""
RECIPES = {
    f"standin/{name}": StandinRecipe(
        name=f"standin/{name}",
        environment_id=f"{TASKS[name.partition('-')[0]].environment}-v5",
        steps=entry["steps"],
        policies=tuple(entry["policies"].items()),
        noise=entry.get("noise", 1.0),
    )
    for name, entry in CATALOGUE.items()
    if "parts" not in entry
}


@register_source
class StandinSource(Source):
    """The stand-ins of `CATALOGUE`: made on first use, which takes a minute or two and no network.

    A medium-expert store holds the medium and the expert set end to end, which are made first. Collecting starts
    processes: see `collect`.
    """

    prefix = "standin"
    pattern = "standin/TASK-LEVEL"

    def names(self) -> list[str]:
        return [f"standin/{name}" for name in CATALOGUE]

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        comparable = "the data are a stand-in and the reference scores D4RL's: do not compare with papers"
        return spec_of_store(name, store, comparable=comparable)

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        new, entry = not self.folder(name).exists(), CATALOGUE[name.removeprefix("standin/")]
        parts = [f"standin/{part}" for part in entry.get("parts", ())]

        def join(folder: Path) -> EpisodeStore:
            stores = [self.open(part, None) for part in parts]
            return EpisodeStore.write(
                folder,
                progress_bar(chain(*stores), "joining", unit=" episodes"),
                environment_id=stores[0].environment_id,
                source={"parts": [store.source for store in stores]},
                spaces=(stores[0].observation_space, stores[0].action_space),
            )

        def is_current(source: dict[str, Any]) -> bool:
            return all(is_made_by(RECIPES[part], made) for part, made in zip(parts, source["parts"], strict=True))

        store = open_or_make(name, is_current, join) if parts else open_or_collect(RECIPES[name])
        there, here = entry["reference"], store.statistics
        if new and store.fingerprint != there["fingerprint"]:
            warn(
                f"{name} differs bit for bit from the reference build (another CPU or other versions): mean return "
                f"{here['return_mean']:.0f} (there {there['return_mean']:.0f}), mean length {here['length_mean']:.0f} "
                f"(there {there['length_mean']:.0f}); compare scores with published ones only if these are close"
            )
        return store

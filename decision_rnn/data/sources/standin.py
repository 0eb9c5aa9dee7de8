"""Stand-ins for the D4RL datasets, which are played here on first use by small SAC actors that ship with the package.

D4RL's medium datasets come from a SAC policy stopped before it is an expert and sampled with its own noise, the replay
datasets hold what it had seen by then, and the random datasets come from an untrained policy (Fu et al. 2020). Ours are
played by one or a few snapshots; behavior/README.md explains their origin and choice. hopper-mixed has no counterpart
in D4RL: its high returns are rare, and come from another policy than the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from decision_rnn.data.cache import sha256_of
from decision_rnn.data.collect import is_made_by, open_or_collect
from decision_rnn.data.sources.contract import Source, refuse_path, register_source
from decision_rnn.data.spec import TASKS, DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.playing import play_episode
from decision_rnn.environments.recipe import Recipe
from decision_rnn.environments.registry import make_environment
from decision_rnn.utils.messages import bar, warn

BEHAVIOR = Path(__file__).parents[1] / "behavior"
"""The folder of the actors' weights."""
UNIFORM = "uniform"
"""Instead of an actor's name: actions sampled uniformly."""


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
        environment = make_environment(self.environment_id)
        actors = {name: Actor(file, self.noise) for name, file in self.files().items()}
        shares = np.array([share for _, share in self.policies])

        def play(index: int) -> Episode:
            generator = np.random.default_rng([self.seed, index])
            name, _ = self.policies[generator.choice(len(shares), p=shares / shares.sum())]
            seed = int(generator.integers(2**31))
            size = environment.action_space.shape

            def act(observation: np.ndarray, *_: object) -> np.ndarray:
                if name == UNIFORM:
                    return 2 * generator.random(size, np.float32) - 1
                return actors[name].sample(observation, generator)

            return play_episode(environment, act, seed)

        return play

    def describe(self) -> dict[str, Any]:
        """As of every recipe, with the SHA-256 of the weights."""
        return super().describe() | {"weights": {name: sha256_of(file) for name, file in self.files().items()}}


def _recipe(name: str, steps: int, *policies: tuple[str, float], noise: float = 1.0) -> StandinRecipe:
    task = TASKS[name.partition("-")[0]]
    return StandinRecipe(
        name=f"standin/{name}",
        environment_id=f"{task.environment}-v5",
        steps=steps,
        policies=policies,
        noise=noise,
    )


_RECIPES = (
    _recipe("hopper-random", 200_000, (UNIFORM, 1.0)),
    _recipe(
        "hopper-medium-replay",
        402_000,
        (UNIFORM, 0.44),
        ("hopper-seed0-0060k", 0.07),
        ("hopper-seed0-0100k", 0.40),
        ("hopper-seed0-0120k", 0.03),
        ("hopper-seed0-0180k", 0.045),
        ("hopper-seed0-0150k", 0.015),
    ),
    _recipe("hopper-medium", 1_000_000, ("hopper-seed3half-0138k", 1.0)),
    _recipe(
        "hopper-mixed",
        1_000_000,
        ("hopper-seed1-0130k", 0.80),
        ("hopper-seed1-0140k", 0.05),
        ("hopper-seed0-0120k", 0.15),
    ),
    _recipe("hopper-expert", 1_000_000, ("hopper-seed0-0150k-ars0-0090", 1.0), noise=0.9),
    _recipe("halfcheetah-random", 1_000_000, (UNIFORM, 1.0)),
    _recipe(
        "halfcheetah-medium-replay",
        202_000,
        ("halfcheetah-seed0-0010k", 0.06),
        ("halfcheetah-seed0-0030k", 0.12),
        ("halfcheetah-seed0-0040k", 0.14),
        ("halfcheetah-seed0-0060k", 0.20),
        ("halfcheetah-seed0-0090k", 0.26),
        ("halfcheetah-seed0-0110k", 0.22),
    ),
    _recipe("halfcheetah-medium", 1_000_000, ("halfcheetah-seed3-0186k", 1.0)),
    _recipe("halfcheetah-expert", 1_000_000, ("halfcheetah-seed0-0360k-ppo0-14000k", 1.0), noise=0.5),
    _recipe("walker2d-random", 200_000, (UNIFORM, 1.0)),
    _recipe(
        "walker2d-medium-replay",
        302_000,
        (UNIFORM, 0.42),
        ("walker2d-seed0-0140k", 0.45),
        ("walker2d-seed0-0260k", 0.05),
        ("walker2d-seed0-0540k", 0.08),
    ),
    _recipe("walker2d-medium", 1_000_000, ("walker2d-seed0-0570k", 1.0)),
    _recipe("walker2d-expert", 1_000_000, ("walker2d-seed1-0760k-ppo0-8500k", 1.0), noise=0.25),
)
RECIPES = {recipe.name: recipe for recipe in _RECIPES}
JOINED = {  # stand-ins that are two others end to end
    f"standin/{task}-medium-expert": (f"standin/{task}-medium", f"standin/{task}-expert")
    for task in ("hopper", "halfcheetah", "walker2d")
}
REFERENCE_BUILDS = {
    "hopper-random": ("8f5a8f10fddfa1fc26d369284f854a6f6362ceaa57cdda38febe732d454a048a", 17.7, 22.3),
    "hopper-medium-replay": ("056d5e8bbc52061db687855323d534a850b5bbcbe4cfffbd00d9590c283cee7c", 480.1, 166.3),
    "hopper-medium": ("bff9a092bf6b807a7355db8f4cde1424cda702f3eee934bb7ccb2a956f51579c", 1508.6, 474.2),
    "hopper-mixed": ("b33aa1ffcb8c8a708a443fca15f7c21eb17c328a813b882580f7fa44377c76ab", 1400.9, 431.8),
    "hopper-medium-expert": ("82bc05b8ea8df07b3e146afa8dd273be5d19f049c3d2ea50e2a8729104bd4964", 2146.1, 638.5),
    "hopper-expert": ("6e65d5e0d65df6f40b1a2cc16813c091b4163e2eef17950e9eaec3d0227be043", 3459.2, 976.8),
    "halfcheetah-random": ("e98ddaf039a86a05cc28bca237c0a1563737c57bc0f7bf76aa5b533289870d64", -286.6, 1000.0),
    "halfcheetah-medium-replay": ("5e6ec9c7aed16436fe8c1fe4a7dfe114c6af9da1e7a4398ff0c7198eb066af4c", 3052.1, 1000.0),
    "halfcheetah-medium": ("cf84fddefe148f56ff4a74971892f70b2dbadde923852838715010929573cf2a", 4563.4, 1000.0),
    "halfcheetah-medium-expert": ("9a644a21d65ffcd99cdbe43968dccb12def34dc303c09395639239e2e2f88991", 7585.7, 1000.0),
    "halfcheetah-expert": ("a248b1cf6062be9c5bc3c64e4c90c70db12129f9e95c7e9d01996770ce69439f", 10607.9, 1000.0),
    "walker2d-random": ("0979c5a41b1255fc95aa9cd2fdc22771d98213cb94afcd05fab2bb68436b00ce", 1.7, 21.2),
    "walker2d-medium-replay": ("eddd82562d5f99280978bdca691abfb70b6d54564c95fc762c3bc3be1414ad19", 676.5, 336.7),
    "walker2d-medium": ("8c392f82e91f80105fd00aac857589747df94893fcb5e618a8fec8801432ec81", 2832.9, 840.3),
    "walker2d-medium-expert": ("1fd2454b795ec62593bf557ecd4c41a0ec7991e9632dbe023906bcdc71c2d674", 3746.8, 910.0),
    "walker2d-expert": ("a3e1ad5c0dd34a360a6e84658a7081aa920d72d3b2f63a9d9a1401f5e24d73db", 4826.6, 992.4),
}
"""Every stand-in, without its prefix: fingerprint, mean return and mean length on the machine of results/standins."""


@register_source
class StandinSource(Source):
    """The stand-ins of `RECIPES`: made on first use, which takes a minute or two and no network.

    A medium-expert store holds the medium and the expert set end to end, which are made first. Collecting starts
    processes: see `collect`.
    """

    prefix = "standin"
    pattern = "standin/TASK-LEVEL"

    def names(self) -> list[str]:
        return [f"standin/{name}" for name in REFERENCE_BUILDS]

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        comparable = "the data are a stand-in and the reference scores D4RL's: do not compare with papers"
        return spec_of_store(name, store, comparable=comparable)

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        refuse_path(name, path)
        new = not self.folder(name).exists()
        spaces = TASKS[name.removeprefix("standin/").partition("-")[0]].spaces()

        def join(folder: Path) -> EpisodeStore:
            stores = [self.open(part, None) for part in JOINED[name]]
            return EpisodeStore.write(
                folder,
                bar(chain(*stores), "joining", unit=" episodes"),
                environment_id=stores[0].environment_id,
                source={"parts": [store.source for store in stores]},
                spaces=spaces,
            )

        def is_current(source: dict[str, Any]) -> bool:
            return all(
                is_made_by(RECIPES[part], made) for part, made in zip(JOINED[name], source["parts"], strict=True)
            )

        store = open_or_make(name, is_current, join) if name in JOINED else open_or_collect(RECIPES[name], spaces)
        fingerprint, return_mean, length_mean = REFERENCE_BUILDS[name.removeprefix("standin/")]
        if new and store.fingerprint != fingerprint:
            statistics = store.statistics
            warn(
                f"{name} differs bit for bit from the reference build (another CPU or other versions): mean return "
                f"{statistics['return_mean']:.0f} (there {return_mean:.0f}), mean length "
                f"{statistics['length_mean']:.0f} (there {length_mean:.0f}); compare scores with published ones only "
                "if these are close"
            )
        return store

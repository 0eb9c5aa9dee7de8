"""The recipe of each stand-in for a D4RL dataset: its policies, their shares and the number of steps.

D4RL's medium datasets come from a SAC policy stopped before it is an expert and sampled with its own noise, the replay
datasets hold what it had seen by then, and the random datasets come from an untrained policy (Fu et al. 2020). Ours are
played by one or a few snapshots that ship with the package; behavior/README.md explains their origin and choice.
hopper-mixed has no counterpart in D4RL: its high returns are rare, and come from another policy than the rest.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decision_rnn.data.store.verification import sha256_of, sha256_of_json

COLLECTOR = 1  # incremented when `Collector` would make other episodes from the same recipe
BEHAVIOR = Path(__file__).parent / "behavior"
UNIFORM = "uniform"  # instead of a snapshot: actions sampled uniformly


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a stand-in's episodes.

    `policies` gives each policy's share of the episodes, by the name of its weights in behavior/. `noise` is a factor
    on the standard deviation of their noise. Episodes are played until `steps` are reached; the last one is kept whole.
    """

    environment_id: str
    policies: tuple[tuple[str, float], ...]
    steps: int
    seed: int = 0
    noise: float = 1.0

    def describe(self) -> dict[str, Any]:
        """The recipe as plain JSON, with the weights' SHA-256 and the collector's version."""
        weights = {name: sha256_of(weights_path(name)) for name, _ in self.policies if name != UNIFORM}
        return {**asdict(self), "policies": dict(self.policies), "weights": weights, "collector": COLLECTOR}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of `describe()`: recipes with the same fingerprint make the same dataset."""
        return sha256_of_json(self.describe())


def weights_path(name: str) -> Path:
    """The file of a behaviour policy's weights."""
    return BEHAVIOR / f"{name}.safetensors"


RECIPES = {
    "standin/hopper-random": Recipe("Hopper-v5", ((UNIFORM, 1.0),), 200_000),
    "standin/hopper-medium-replay": Recipe(
        "Hopper-v5",
        (
            (UNIFORM, 0.44),
            ("hopper-seed0-0060k", 0.07),
            ("hopper-seed0-0100k", 0.40),
            ("hopper-seed0-0120k", 0.03),
            ("hopper-seed0-0180k", 0.045),
            ("hopper-seed0-0150k", 0.015),
        ),
        402_000,
    ),
    "standin/hopper-medium": Recipe("Hopper-v5", (("hopper-seed3half-0138k", 1.0),), 1_000_000),
    "standin/hopper-mixed": Recipe(
        "Hopper-v5",
        (("hopper-seed1-0130k", 0.80), ("hopper-seed1-0140k", 0.05), ("hopper-seed0-0120k", 0.15)),
        1_000_000,
    ),
    "standin/hopper-expert": Recipe("Hopper-v5", (("hopper-seed0-0150k-ars0-0090", 1.0),), 1_000_000, noise=0.9),
    "standin/halfcheetah-random": Recipe("HalfCheetah-v5", ((UNIFORM, 1.0),), 1_000_000),
    "standin/halfcheetah-medium-replay": Recipe(
        "HalfCheetah-v5",
        (
            ("halfcheetah-seed0-0010k", 0.06),
            ("halfcheetah-seed0-0030k", 0.12),
            ("halfcheetah-seed0-0040k", 0.14),
            ("halfcheetah-seed0-0060k", 0.20),
            ("halfcheetah-seed0-0090k", 0.26),
            ("halfcheetah-seed0-0110k", 0.22),
        ),
        202_000,
    ),
    "standin/halfcheetah-medium": Recipe("HalfCheetah-v5", (("halfcheetah-seed3-0186k", 1.0),), 1_000_000),
    "standin/halfcheetah-expert": Recipe(
        "HalfCheetah-v5", (("halfcheetah-seed0-0360k-ppo0-14000k", 1.0),), 1_000_000, noise=0.5
    ),
    "standin/walker2d-random": Recipe("Walker2d-v5", ((UNIFORM, 1.0),), 200_000),
    "standin/walker2d-medium-replay": Recipe(
        "Walker2d-v5",
        (
            (UNIFORM, 0.42),
            ("walker2d-seed0-0140k", 0.45),
            ("walker2d-seed0-0260k", 0.05),
            ("walker2d-seed0-0540k", 0.08),
        ),
        302_000,
    ),
    "standin/walker2d-medium": Recipe("Walker2d-v5", (("walker2d-seed0-0570k", 1.0),), 1_000_000),
    "standin/walker2d-expert": Recipe(
        "Walker2d-v5", (("walker2d-seed1-0760k-ppo0-8500k", 1.0),), 1_000_000, noise=0.25
    ),
}

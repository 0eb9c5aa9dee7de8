"""The recipe of each stand-in for a D4RL dataset: its policies, their shares and the number of steps.

D4RL's medium datasets come from a SAC policy stopped before it is an expert and sampled with its own noise, the replay
datasets hold what it had seen by then, and the random datasets come from an untrained policy (Fu et al. 2020). Ours are
played by one or a few snapshots that ship with the package; behavior/README.md explains their origin and choice.
hopper-mixed has no counterpart in D4RL: its high returns are rare, and come from another policy than the rest.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decision_rnn.data.cache import sha256_of, sha256_of_json
from decision_rnn.utils.errors import InputError, did_you_mean

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
JOINED = {  # stand-ins that are two others end to end
    f"standin/{task}-medium-expert": (f"standin/{task}-medium", f"standin/{task}-expert")
    for task in ("hopper", "halfcheetah", "walker2d")
}
OURS = {
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


def check_standin(name: str) -> None:
    """InputError, with the nearest and all known names, if there is no stand-in of that full name."""
    known = [f"standin/{ours}" for ours in OURS]
    if name not in known:
        raise InputError(
            f"unknown dataset {name!r}: {did_you_mean(name, known)}known are {', '.join(known)}; `decision-rnn data "
            "list` names those of other sources"
        )

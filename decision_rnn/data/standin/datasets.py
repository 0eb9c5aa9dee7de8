"""The stand-ins: the D4RL dataset that each one replaces, and its statistics in results/standins."""

from dataclasses import dataclass

from decision_rnn.data.spec import TASKS, DatasetSpec


@dataclass(frozen=True)
class D4RLStatistics:
    """Statistics of the real D4RL dataset, for comparison: complete trajectories, undiscounted returns, steps.

    As commonly quoted, not recomputed here; those of an expert dataset follow from medium and medium-expert. None if
    unknown.
    """

    episodes: int | None = None
    return_mean: float | None = None
    return_sd: float | None = None
    return_min: float | None = None
    return_max: float | None = None
    length_mean: float | None = None


@dataclass(frozen=True)
class Made:
    """Statistics of the stand-in on the machine of results/standins."""

    fingerprint: str
    return_mean: float
    length_mean: float


@dataclass(frozen=True)
class Standin:
    """A stand-in: its spec, the statistics of the D4RL dataset it replaces, and its own."""

    spec: DatasetSpec
    d4rl: D4RLStatistics
    ours: Made


def _standin(name: str, d4rl: D4RLStatistics, ours: Made) -> Standin:
    task = TASKS[name.partition("-")[0]]
    spec = task.spec(
        f"standin/{name}",
        f"{task.environment}-v5",
        "the data are a stand-in and the reference scores D4RL's: compare with scores on it, with no paper's",
    )
    return Standin(spec, d4rl, ours)


DATASETS = {
    standin.spec.name: standin
    for standin in [
        _standin(
            "hopper-random",
            D4RLStatistics(),
            Made("8f5a8f10fddfa1fc26d369284f854a6f6362ceaa57cdda38febe732d454a048a", 17.7, 22.3),
        ),
        _standin(
            "hopper-medium-replay",
            D4RLStatistics(2041, 467, 511, -1, 3193, 197),
            Made("056d5e8bbc52061db687855323d534a850b5bbcbe4cfffbd00d9590c283cee7c", 480.1, 166.3),
        ),
        _standin(
            "hopper-medium",
            D4RLStatistics(2186, 1422, 379, 316, 3222, 457),
            Made("bff9a092bf6b807a7355db8f4cde1424cda702f3eee934bb7ccb2a956f51579c", 1508.6, 474.2),
        ),
        _standin(
            "hopper-mixed",
            D4RLStatistics(),
            Made("b33aa1ffcb8c8a708a443fca15f7c21eb17c328a813b882580f7fa44377c76ab", 1400.9, 431.8),
        ),
        _standin(
            "hopper-medium-expert",
            D4RLStatistics(3213, 2090, 1040, 316, 3759, 622),
            Made("82bc05b8ea8df07b3e146afa8dd273be5d19f049c3d2ea50e2a8729104bd4964", 2146.1, 638.5),
        ),
        _standin(
            "hopper-expert",
            D4RLStatistics(1027, 3512, 326, None, 3759, 973),
            Made("6e65d5e0d65df6f40b1a2cc16813c091b4163e2eef17950e9eaec3d0227be043", 3459.2, 976.8),
        ),
        _standin(
            "halfcheetah-random",
            D4RLStatistics(),
            Made("e98ddaf039a86a05cc28bca237c0a1563737c57bc0f7bf76aa5b533289870d64", -286.6, 1000.0),
        ),
        _standin(
            "halfcheetah-medium-replay",
            D4RLStatistics(202, 3093, 1681, -639, 4985, 1000),
            Made("5e6ec9c7aed16436fe8c1fe4a7dfe114c6af9da1e7a4398ff0c7198eb066af4c", 3052.1, 1000.0),
        ),
        _standin(
            "halfcheetah-medium",
            D4RLStatistics(1000, 4770, 356, -310, 5309, 1000),
            Made("cf84fddefe148f56ff4a74971892f70b2dbadde923852838715010929573cf2a", 4563.4, 1000.0),
        ),
        _standin(
            "halfcheetah-medium-expert",
            D4RLStatistics(2000, 7713, 2970, -310, 11252, 1000),
            Made("9a644a21d65ffcd99cdbe43968dccb12def34dc303c09395639239e2e2f88991", 7585.7, 1000.0),
        ),
        _standin(
            "halfcheetah-expert",
            D4RLStatistics(1000, 10656, 439, None, 11252, 1000),
            Made("a248b1cf6062be9c5bc3c64e4c90c70db12129f9e95c7e9d01996770ce69439f", 10607.9, 1000.0),
        ),
        _standin(
            "walker2d-random",
            D4RLStatistics(),
            Made("0979c5a41b1255fc95aa9cd2fdc22771d98213cb94afcd05fab2bb68436b00ce", 1.7, 21.2),
        ),
        _standin(
            "walker2d-medium-replay",
            D4RLStatistics(1093, 683, 896, -50, 4132),
            Made("eddd82562d5f99280978bdca691abfb70b6d54564c95fc762c3bc3be1414ad19", 676.5, 336.7),
        ),
        _standin(
            "walker2d-medium",
            D4RLStatistics(1190, 2852, 1095, -7, 4227, 840),
            Made("8c392f82e91f80105fd00aac857589747df94893fcb5e618a8fec8801432ec81", 2832.9, 840.3),
        ),
        _standin(
            "walker2d-medium-expert",
            D4RLStatistics(2190, 3797, None, -7, 5012, 913),
            Made("1fd2454b795ec62593bf557ecd4c41a0ec7991e9632dbe023906bcdc71c2d674", 3746.8, 910.0),
        ),
        _standin(
            "walker2d-expert",
            D4RLStatistics(1000, 4922, None, None, 5012, 1000),
            Made("a3e1ad5c0dd34a360a6e84658a7081aa920d72d3b2f63a9d9a1401f5e24d73db", 4826.6, 992.4),
        ),
    ]
}
JOINED = {  # datasets that are two others end to end
    f"standin/{task}-medium-expert": (f"standin/{task}-medium", f"standin/{task}-expert")
    for task in ("hopper", "halfcheetah", "walker2d")
}

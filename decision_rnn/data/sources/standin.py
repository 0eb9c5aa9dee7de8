"""Stand-ins for the D4RL sets: collected here on first use, as a Minari dataset, and converted from that."""

import itertools
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from decision_rnn.data.formats import minari
from decision_rnn.data.spec import BODIES, DatasetSpec
from decision_rnn.data.standin import collection
from decision_rnn.data.standin.recipes import RECIPES, Recipe
from decision_rnn.data.store.cache import check_room, discard, open_or_make, store_folder
from decision_rnn.data.store.episodes import EpisodeStore
from decision_rnn.data.store.verification import CacheError
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.machine import cpu_model, versions

PATTERN = "standin/BODY-LEVEL"
BYTES_PER_STEP = 1000  # of the Minari dataset, the larger of the two files, where episodes have but 20 steps
TOLERANCE = 0.05  # relative, within which a stand-in made on another machine counts as the same


@dataclass(frozen=True)
class D4RLStatistics:
    """What the real D4RL set holds, to compare with: complete trajectories, undiscounted returns, steps.

    As commonly quoted, not recomputed here; those of an expert set follow from medium and medium-expert. None where
    we know of no number.
    """

    episodes: int | None = None
    return_mean: float | None = None
    return_sd: float | None = None
    return_min: float | None = None
    return_max: float | None = None
    length_mean: float | None = None


@dataclass(frozen=True)
class Made:
    """The stand-in as it came out where results/standins was made."""

    fingerprint: str
    return_mean: float
    length_mean: float


@dataclass(frozen=True)
class StandinSpec(DatasetSpec):
    """A stand-in's spec, what it stands in for, and how it came out."""

    d4rl: D4RLStatistics
    ours: Made


def _spec(name: str, d4rl: D4RLStatistics, ours: Made) -> StandinSpec:
    body = BODIES[name.partition("-")[0]]
    base = body.spec(
        f"standin/{name}",
        f"{body.environment}-v5",
        "the data are a stand-in and the reference scores D4RL's: compare with scores on it, with no paper's",
    )
    return StandinSpec(**asdict(base), d4rl=d4rl, ours=ours)


DATASETS = {
    spec.name: spec
    for spec in [
        _spec(
            "hopper-random",
            D4RLStatistics(),
            Made("8f5a8f10fddfa1fc26d369284f854a6f6362ceaa57cdda38febe732d454a048a", 17.7, 22.3),
        ),
        _spec(
            "hopper-medium-replay",
            D4RLStatistics(2041, 467, 511, -1, 3193, 197),
            Made("0d95d93ef16640ce5b7634a622d00e54a0826b0868e18760fd2e21d020bcd0aa", 482.9, 168.4),
        ),
        _spec(
            "hopper-medium",
            D4RLStatistics(2186, 1422, 379, 316, 3222, 457),
            Made("b33aa1ffcb8c8a708a443fca15f7c21eb17c328a813b882580f7fa44377c76ab", 1400.9, 431.8),
        ),
        _spec(
            "hopper-medium-expert",
            D4RLStatistics(3213, 2090, 1040, 316, 3759, 622),
            Made("d9e4022bec2a7f95fea13a43be60988fcd4be08cb43d5bbe6994f30571a37b58", 1899.9, 588.4),
        ),
        _spec(
            "hopper-expert",
            D4RLStatistics(1027, 3512, 326, None, 3759, 973),
            Made("2491a03dcb8a13945bc97a4430938e8f81dbc355a1eaa3360fee41506c6620b3", 2966.0, 923.0),
        ),
        _spec(
            "halfcheetah-random",
            D4RLStatistics(),
            Made("e98ddaf039a86a05cc28bca237c0a1563737c57bc0f7bf76aa5b533289870d64", -286.6, 1000.0),
        ),
        _spec(
            "halfcheetah-medium-replay",
            D4RLStatistics(202, 3093, 1681, -639, 4985, 1000),
            Made("edda27572d1f9bad8e028edc4897d896c5a171ab7dca590c255cdc703984c426", 3038.1, 1000.0),
        ),
        _spec(
            "halfcheetah-medium",
            D4RLStatistics(1000, 4770, 356, -310, 5309, 1000),
            Made("13cb37c3d0ae1c80fe93af506cd2e103b48e2b12059893ee1e982cd12c502f03", 4817.0, 1000.0),
        ),
        _spec(
            "halfcheetah-medium-expert",
            D4RLStatistics(2000, 7713, 2970, -310, 11252, 1000),
            Made("034cd64b9ae107e723a95c6b57c547bc204c076e4a3824df207db73e85ded814", 7712.4, 1000.0),
        ),
        _spec(
            "halfcheetah-expert",
            D4RLStatistics(1000, 10656, 439, None, 11252, 1000),
            Made("a248b1cf6062be9c5bc3c64e4c90c70db12129f9e95c7e9d01996770ce69439f", 10607.9, 1000.0),
        ),
        _spec(
            "walker2d-random",
            D4RLStatistics(),
            Made("0979c5a41b1255fc95aa9cd2fdc22771d98213cb94afcd05fab2bb68436b00ce", 1.7, 21.2),
        ),
        _spec(
            "walker2d-medium-replay",
            D4RLStatistics(1093, 683, 896, -50, 4132),
            Made("eddd82562d5f99280978bdca691abfb70b6d54564c95fc762c3bc3be1414ad19", 676.5, 336.7),
        ),
        _spec(
            "walker2d-medium",
            D4RLStatistics(1190, 2852, 1095, -7, 4227, 840),
            Made("2d7b4088fac428cdd8d6a7ac6ee3af5fc975270ea635a40eec774d630d1e294b", 2827.5, 827.2),
        ),
        _spec(
            "walker2d-medium-expert",
            D4RLStatistics(2190, 3797, None, -7, 5012, 913),
            Made("45fd554fbcfa9e8d4e01925806ebf4d422b226e7534eb2039047326df46e224e", 3736.4, 902.3),
        ),
        _spec(
            "walker2d-expert",
            D4RLStatistics(1000, 4922, None, None, 5012, 1000),
            Made("a3e1ad5c0dd34a360a6e84658a7081aa920d72d3b2f63a9d9a1401f5e24d73db", 4826.6, 992.4),
        ),
    ]
}
JOINED = {
    f"standin/{body}-medium-expert": (f"standin/{body}-medium", f"standin/{body}-expert")
    for body in ("hopper", "halfcheetah", "walker2d")
}


def names() -> list[str]:
    """All of them."""
    return list(DATASETS)


def lookup(name: str) -> StandinSpec:
    """The spec of `name`; InputError, with the nearest name and all known ones, where there is none."""
    if name not in DATASETS:
        raise InputError(
            f"unknown dataset {name!r}: {did_you_mean(name, DATASETS)}known are {', '.join(DATASETS)}; "
            "`decision-rnn data list` names those of other sources"
        )
    return DATASETS[name]


def open_store(name: str, progress: bool, path: Path | None) -> EpisodeStore:
    """The episodes of the stand-in `name`: made on first use, which takes a minute or two and no network.

    They are collected as a Minari dataset (`minari.load_dataset("standin/hopper-medium-v0")`) and read
    through an EpisodeStore made from it; a medium-expert set is the stores of the other two end to end. What is
    corrupt or was made by another recipe is never used: it is made again, with a line on stderr. Raises InputError
    when a dataset that is not ours has the Minari name. Collecting starts processes: see `standin.collect`.
    """
    spec = lookup(name)
    if path is not None:
        raise InputError(f"{name} is collected here and read from no file: leave out --path, or name a d4rl/ dataset")

    def check(source: dict[str, Any]) -> None:
        _check_recipe(source, name, store_folder(name))

    def make(folder: Path) -> EpisodeStore:
        store = _join(name, folder, progress) if name in JOINED else _make(spec, folder, progress)
        _compare_with_ours(spec, store)
        return store

    return open_or_make(name, check, make)


def download(name: str, progress: bool) -> list[Path]:
    """There is nothing to fetch: InputError."""
    raise InputError(f"{lookup(name).name} is collected here, not downloaded: use `decision-rnn data make`")


def _join(name: str, path: Path, progress: bool) -> EpisodeStore:
    stores = [open_store(part, progress, None) for part in JOINED[name]]
    check_room(path, sum(store.steps for store in stores) * BYTES_PER_STEP)
    episodes = itertools.chain.from_iterable(store.read_episodes() for store in stores)
    return EpisodeStore.write(
        path,
        tqdm(episodes, "joining", unit=" episodes", disable=None if progress else True),
        environment_id=stores[0].environment_id,
        source={"parts": [store.manifest["source"] for store in stores]},
    )


def _make(spec: StandinSpec, path: Path, progress: bool) -> EpisodeStore:
    dataset_id = f"{spec.name}-v0"
    recipe = RECIPES[spec.name]
    folder = minari.dataset_folder(dataset_id)
    if folder.exists():
        try:
            _check_recipe(minari.read_source(dataset_id), spec.name, folder)
        except CacheError as error:
            discard(folder, error)
    if not folder.exists():
        check_room(folder, recipe.steps * BYTES_PER_STEP)
        check_room(path, recipe.steps * BYTES_PER_STEP)
        _collect(spec, recipe, dataset_id, progress)
    episodes = minari.read_episodes(dataset_id)
    return EpisodeStore.write(
        path,
        tqdm(episodes, "converting", unit=" episodes", disable=None if progress else True),
        environment_id=recipe.environment_id,
        source={"minari": dataset_id, **minari.read_source(dataset_id)},
    )


def _collect(spec: StandinSpec, recipe: Recipe, dataset_id: str, progress: bool) -> None:
    minari.write_dataset(
        dataset_id,
        collection.collect(recipe, progress),
        environment_id=recipe.environment_id,
        metadata={
            "algorithm_name": "SAC, a mixture of snapshots, sampled",
            "author": {"decision_rnn"},
            "description": "A stand-in for D4RL's set of this name, collected by decision_rnn. "
            "Scores on the two are not comparable.",
            "requirements": ["gymnasium[mujoco]"],
            "ref_min_score": spec.reference_min,
            "ref_max_score": spec.reference_max,
        },
        source=_provenance(recipe),
    )


def _compare_with_ours(spec: StandinSpec, store: EpisodeStore) -> None:
    """Say so when the stand-in has other bits than ours: another CPU or MuJoCo version gives it those."""
    if store.fingerprint == spec.ours.fingerprint:
        return
    here = store.manifest["statistics"]
    return_here, length_here = here["return_mean"], here["length_mean"]
    same = math.isclose(return_here, spec.ours.return_mean, rel_tol=TOLERANCE) and math.isclose(
        length_here, spec.ours.length_mean, rel_tol=TOLERANCE
    )
    verdict = "close enough to compare scores" if same else "too far off to compare scores with ours"
    print(
        f"{spec.name} came out with other bits than in our results (another CPU or other versions): "
        f"mean return {return_here:.0f} ({spec.ours.return_mean:.0f} there), "
        f"mean length {length_here:.0f} ({spec.ours.length_mean:.0f} there); {verdict}",
        file=sys.stderr,
    )


def _check_recipe(source: dict[str, Any], name: str, folder: Path) -> None:
    made = [part.get("recipe_fingerprint") for part in source.get("parts", [source])]
    if made != [RECIPES[part].fingerprint for part in JOINED.get(name, (name,))]:
        raise CacheError(f"{folder} was made by another recipe", folder)


def _provenance(recipe: Recipe) -> dict[str, Any]:
    """What the bits of a collected dataset depend on."""
    return {
        "recipe": recipe.describe(),
        "recipe_fingerprint": recipe.fingerprint,
        "versions": versions(("decision-rnn", "gymnasium", "minari", "mujoco", "numpy")),
        "cpu": cpu_model(),
    }

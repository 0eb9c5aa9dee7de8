"""Stand-ins for the D4RL sets: collected here on first use, as a Minari dataset, and converted from that."""

import difflib
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from decision_rnn.data import minari, standin
from decision_rnn.data.cache import check_room, discard, open_or_make, store_folder
from decision_rnn.data.episodes import CacheError, EpisodeStore
from decision_rnn.data.spec import BODIES, DatasetSpec
from decision_rnn.errors import InputError
from decision_rnn.machine import cpu_model, versions

PATTERN = "standin/BODY-LEVEL"
BYTES_PER_STEP = 400  # of the Minari dataset, which is the larger of the two files, with some to spare
TOLERANCE = 0.05  # relative, within which a stand-in made on another machine counts as the same


@dataclass(frozen=True)
class D4RLStatistics:
    """What the real D4RL set holds, to compare with: complete trajectories, undiscounted returns, steps."""

    episodes: int
    return_mean: float
    return_sd: float
    return_min: float
    return_max: float
    length_mean: float


@dataclass(frozen=True)
class Made:
    """The stand-in as it came out where our published results were made."""

    fingerprint: str
    return_mean: float
    length_mean: float


@dataclass(frozen=True)
class StandinSpec(DatasetSpec):
    """A stand-in's spec, what it stands in for, and how it came out."""

    d4rl: D4RLStatistics
    ours: Made


def _spec(name: str, d4rl: D4RLStatistics, ours: Made) -> StandinSpec:
    body = BODIES[name.removeprefix("standin/").partition("-")[0]]
    base = body.spec(
        name,
        f"{body.environment}-v5",
        "the data are a stand-in and the reference scores D4RL's: compare with scores on it, with no paper's",
    )
    return StandinSpec(**asdict(base), d4rl=d4rl, ours=ours)


DATASETS = {
    spec.name: spec
    for spec in [
        _spec(
            "standin/hopper-medium",
            D4RLStatistics(2186, 1422, 379, 316, 3222, 457),
            Made("b33aa1ffcb8c8a708a443fca15f7c21eb17c328a813b882580f7fa44377c76ab", 1400.9, 431.8),
        )
    ]
}


def names() -> list[str]:
    """All of them."""
    return list(DATASETS)


def lookup(name: str) -> StandinSpec:
    """The spec of `name`; InputError, with the nearest name and all known ones, where there is none."""
    if name not in DATASETS:
        nearest = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        raise InputError(
            f"unknown dataset {name!r}: {hint}known are {', '.join(DATASETS)}; "
            "`decision-rnn data list` names those of other sources"
        )
    return DATASETS[name]


def open_store(name: str, progress: bool, path: Path | None) -> EpisodeStore:
    """The episodes of the stand-in `name`: made on first use, which takes a minute or two and no network.

    They are collected as a Minari dataset (`minari.load_dataset("standin/hopper-medium-v0")`) and read
    through an EpisodeStore made from it. Either of them, when corrupt or made by another recipe, is never
    used: it is made again, with a line on stderr. Raises InputError when a dataset that is not ours has the Minari
    name. Collecting starts processes: see `standin.collect`.
    """
    spec = lookup(name)
    if path is not None:
        raise InputError(f"{name} is collected here and read from no file: leave out --path, or name a d4rl/ dataset")
    recipe = standin.RECIPES[name]

    def make(folder: Path) -> EpisodeStore:
        return _make(spec, recipe, folder, progress)

    return open_or_make(name, lambda source: _check_recipe(source, recipe, store_folder(name)), make)


def download(name: str, progress: bool) -> list[Path]:
    """There is nothing to fetch: InputError."""
    raise InputError(f"{lookup(name).name} is collected here, not downloaded: use `decision-rnn data make`")


def _make(spec: StandinSpec, recipe: standin.Recipe, path: Path, progress: bool) -> EpisodeStore:
    dataset_id = f"{spec.name}-v0"
    folder = minari.dataset_folder(dataset_id)
    if folder.exists():
        try:
            _check_recipe(minari.read_source(dataset_id), recipe, folder)
        except CacheError as error:
            discard(folder, error)
    if not folder.exists():
        check_room(folder, recipe.steps * BYTES_PER_STEP)
        check_room(path, recipe.steps * BYTES_PER_STEP)
        _collect(spec, recipe, dataset_id, progress)
    episodes = minari.read_episodes(dataset_id)
    store = EpisodeStore.write(
        path,
        tqdm(episodes, "converting", unit=" episodes", disable=None if progress else True),
        environment_id=recipe.environment_id,
        source={"minari": dataset_id, **minari.read_source(dataset_id)},
    )
    _compare_with_ours(spec, store)
    return store


def _collect(spec: StandinSpec, recipe: standin.Recipe, dataset_id: str, progress: bool) -> None:
    minari.write_dataset(
        dataset_id,
        standin.collect(recipe, progress),
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


def _check_recipe(source: dict[str, Any], recipe: standin.Recipe, folder: Path) -> None:
    if source.get("recipe_fingerprint") != recipe.fingerprint:
        raise CacheError(f"{folder} was made by another recipe", folder)


def _provenance(recipe: standin.Recipe) -> dict[str, Any]:
    """What the bits of a collected dataset depend on."""
    return {
        "recipe": recipe.describe(),
        "recipe_fingerprint": recipe.fingerprint,
        "versions": versions(("decision-rnn", "gymnasium", "minari", "mujoco", "numpy")),
        "cpu": cpu_model(),
    }

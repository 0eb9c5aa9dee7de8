"""Datasets by name: "hopper-medium" -> its episodes, environment, reference scores and target returns."""

import difflib
import math
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from decision_rnn.data import minari, standin
from decision_rnn.data.episodes import CacheError, EpisodeStore, cache_root
from decision_rnn.errors import InputError
from decision_rnn.machine import cpu_model, versions


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
class DatasetSpec:
    """What is known of a dataset by its name.

    `reference_min` and `reference_max` are D4RL's returns of a random and of an expert policy (Fu et al.
    2020): normalised score = 100 * (return - min) / (max - min). `target_returns` are asked for in evaluation
    and `return_scale` divides returns-to-go, as in the Decision Transformer (Chen et al. 2021, appendix A).
    """

    name: str
    environment_id: str
    reference_min: float
    reference_max: float
    target_returns: tuple[float, ...]
    return_scale: float
    d4rl: D4RLStatistics
    ours: Made


DATASETS = {
    spec.name: spec
    for spec in [
        DatasetSpec(
            name="standin/hopper-medium",
            environment_id="Hopper-v5",
            reference_min=-20.272305,
            reference_max=3234.3,
            target_returns=(3600.0, 1800.0),
            return_scale=1000.0,
            d4rl=D4RLStatistics(2186, 1422, 379, 316, 3222, 457),
            ours=Made("b33aa1ffcb8c8a708a443fca15f7c21eb17c328a813b882580f7fa44377c76ab", 1400.9, 431.8),
        )
    ]
}
DEFAULT_SOURCE = "standin"
BYTES_PER_STEP = 400  # of the Minari dataset, which is the larger of the two files, with some to spare
TOLERANCE = 0.05  # relative, within which a stand-in made on another machine counts as the same


def lookup(name: str) -> DatasetSpec:
    """The dataset called `name`; a name without a source means the stand-in ("hopper-medium").

    Raises InputError, listing the known names, when there is none.
    """
    full = name if "/" in name else f"{DEFAULT_SOURCE}/{name}"
    if full in DATASETS:
        return DATASETS[full]
    nearest = difflib.get_close_matches(full, DATASETS, n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    raise InputError(f"unknown dataset {name!r}: {hint}known are {', '.join(DATASETS)}")


def open_store(name: str, progress: bool = True) -> EpisodeStore:
    """The episodes of the dataset `name`: made on first use, which takes a minute or two and no network.

    They are collected as a Minari dataset (`minari.load_dataset("standin/hopper-medium-v0")`) and read
    through an EpisodeStore made from it. Either of them, when corrupt or made by another recipe, is never
    used: it is made again, with a line on stderr. Raises InputError for an unknown name, and when a dataset
    that is not ours has the Minari name. Collecting starts processes: see `standin.collect`.
    """
    spec = lookup(name)
    recipe = standin.RECIPES[spec.name]
    path = cache_root() / "stores" / spec.name
    if path.exists():
        try:
            store = EpisodeStore.open(path)
            _check_recipe(store.manifest["source"], recipe, path)
            return store
        except CacheError as error:
            _discard(path, error)

    dataset_id = f"{spec.name}-v0"
    folder = minari.dataset_folder(dataset_id)
    if folder.exists():
        try:
            _check_recipe(minari.read_source(dataset_id), recipe, folder)
        except CacheError as error:
            _discard(folder, error)
    if not folder.exists():
        _check_room(folder, recipe.steps)
        _check_room(path, recipe.steps)
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


def _collect(spec: DatasetSpec, recipe: standin.Recipe, dataset_id: str, progress: bool) -> None:
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


def _check_room(path: Path, steps: int) -> None:
    """Raise InputError where a dataset will not fit: HDF5 meets a full disk with a crash rather than an error."""
    existing = next(parent for parent in path.absolute().parents if parent.exists())
    free, needed = shutil.disk_usage(existing).free, steps * BYTES_PER_STEP
    if free < needed:
        raise InputError(
            f"{path} will not fit: {needed >> 20} MiB are needed and {free >> 20} MiB free; make room, or put the "
            "caches elsewhere by DECISION_RNN_CACHE and MINARI_DATASETS_PATH"
        )


def _compare_with_ours(spec: DatasetSpec, store: EpisodeStore) -> None:
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


def _check_recipe(source: dict[str, Any], recipe: standin.Recipe, path: Path) -> None:
    if source.get("recipe_fingerprint") != recipe.fingerprint:
        raise CacheError(f"{path} was made by another recipe", path)


def _discard(path: Path, error: CacheError) -> None:
    print(f"{error.fault}; making it again", file=sys.stderr)
    shutil.rmtree(path, ignore_errors=True)


def _provenance(recipe: standin.Recipe) -> dict[str, Any]:
    """What the bits of a collected dataset depend on."""
    return {
        "recipe": recipe.describe(),
        "recipe_fingerprint": recipe.fingerprint,
        "versions": versions(("decision-rnn", "gymnasium", "minari", "mujoco", "numpy")),
        "cpu": cpu_model(),
    }

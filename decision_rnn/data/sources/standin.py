"""Stand-ins for the D4RL datasets: collected here on first use as a Minari dataset, which is then converted."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from decision_rnn.data.formats import minari
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import TASKS, DatasetSpec
from decision_rnn.data.standin import collection
from decision_rnn.data.standin.recipes import JOINED, OURS, RECIPES, Recipe
from decision_rnn.data.store.cache import check_room, discard, made_manifest, open_or_make, store_folder
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.store.verification import CacheError
from decision_rnn.errors import InputError, did_you_mean
from decision_rnn.machine import cpu_model, versions
from decision_rnn.messages import bar, warn

BYTES_PER_STEP = 1000  # of the Minari dataset, the larger of the two, for episodes of only 20 steps
TOLERANCE = 0.05  # relative, within which a stand-in made on another machine counts as the same


@register_source
class StandinSource(Source):
    """The stand-ins of `recipes.OURS`: made on first use, which takes a minute or two and no network.

    They are collected as a Minari dataset (`minari.load_dataset("standin/hopper-medium-v0")`) and read through an
    EpisodeStore made from it; a medium-expert dataset is the medium and the expert stores end to end. Data that are
    corrupt or were made by another recipe are made again, with a line on stderr. Opening raises InputError if a dataset
    that is not ours has the Minari name. Collecting starts processes: see `collection.collect`.
    """

    prefix = "standin"
    pattern = "standin/TASK-LEVEL"

    def names(self) -> list[str]:
        """All datasets of this source."""
        return [f"standin/{name}" for name in OURS]

    def spec(self, name: str) -> DatasetSpec:
        """Determined by the name; if the stand-in made on this machine differs too much from ours, the spec says so.

        Raises InputError for an unknown name, with the nearest and all known ones.
        """
        if name not in self.names():
            raise InputError(
                f"unknown dataset {name!r}: {did_you_mean(name, self.names())}known are {', '.join(self.names())}; "
                "`decision-rnn data list` names those of other sources"
            )
        task = TASKS[name.removeprefix("standin/").partition("-")[0]]
        comparable = (
            "the data are a stand-in and the reference scores D4RL's: compare with scores on it, with no paper's"
        )
        spec = task.spec(name, f"{task.environment}-v5", comparable)
        made = made_manifest(name)
        if made is None or not _is_of_recipe(made["source"], name):
            return spec
        difference, close = _difference(name, made)
        return spec if close else replace(spec, comparable=f"{comparable}; here it {difference}")

    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        """The episodes; raises InputError for an unknown name."""
        spec = self.spec(name)
        if path is not None:
            raise InputError(
                f"{name} is collected here and read from no file: leave out --path, or name a d4rl/ dataset"
            )

        def make(folder: Path) -> EpisodeStore:
            store = self._join(name, folder, progress) if name in JOINED else _make(spec, folder, progress)
            if store.fingerprint != _ours(name)[0]:
                warn(f"{name} {_difference(name, store.manifest)[0]}")
            return store

        return open_or_make(name, lambda source: _check_recipe(source, name, store_folder(name)), make)

    def download(self, name: str, progress: bool) -> list[Path]:
        """Raises InputError: there is nothing to download."""
        raise InputError(f"{self.spec(name).name} is collected here, not downloaded: use `decision-rnn data make`")

    def _join(self, name: str, path: Path, progress: bool) -> EpisodeStore:
        stores = [self.open(part, progress, None) for part in JOINED[name]]
        check_room(path, sum(store.steps for store in stores) * BYTES_PER_STEP)
        episodes = itertools.chain.from_iterable(store.read_episodes() for store in stores)
        return EpisodeStore.write(
            path,
            bar(episodes, "joining", unit=" episodes", show=progress),
            environment_id=stores[0].environment_id,
            source={"parts": [store.manifest["source"] for store in stores]},
        )


def _make(spec: DatasetSpec, path: Path, progress: bool) -> EpisodeStore:
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
    return EpisodeStore.write(
        path,
        bar(minari.read_episodes(dataset_id), "converting", unit=" episodes", show=progress),
        environment_id=recipe.environment_id,
        source={"minari": dataset_id, **minari.read_source(dataset_id)},
    )


def _collect(spec: DatasetSpec, recipe: Recipe, dataset_id: str, progress: bool) -> None:
    minari.write_dataset(
        dataset_id,
        collection.collect(recipe, progress),
        environment_id=recipe.environment_id,
        metadata={
            "algorithm_name": "SAC, snapshots of its actor, sampled",
            "author": {"decision_rnn"},
            "description": "A stand-in for a set of D4RL, collected by decision_rnn; their scores are not comparable.",
            "requirements": ["gymnasium[mujoco]"],
            "ref_min_score": spec.reference_min,
            "ref_max_score": spec.reference_max,
        },
        source={  # everything that the bits of the dataset depend on
            "recipe": recipe.describe(),
            "recipe_fingerprint": recipe.fingerprint,
            "versions": versions(("decision-rnn", "gymnasium", "minari", "mujoco", "numpy")),
            "cpu": cpu_model(),
        },
    )


def _ours(name: str) -> tuple[str, float, float]:
    return OURS[name.removeprefix("standin/")]


def _difference(name: str, made: dict[str, Any]) -> tuple[str, bool]:
    """How a stand-in, by its manifest, differs from ours, in words, and whether scores on the two are comparable.

    Another CPU or another version of MuJoCo changes its bits, but hardly its means.
    """
    fingerprint, return_mean, length_mean = _ours(name)
    here = made["statistics"]
    close = made["fingerprint"] == fingerprint or all(
        math.isclose(value, expected, rel_tol=TOLERANCE)
        for value, expected in ((here["return_mean"], return_mean), (here["length_mean"], length_mean))
    )
    verdict = "close enough to compare scores" if close else "too far off to compare scores with ours"
    words = (
        "came out with other bits than in our results (another CPU or other versions): "
        f"mean return {here['return_mean']:.0f} ({return_mean:.0f} there), "
        f"mean length {here['length_mean']:.0f} ({length_mean:.0f} there); {verdict}"
    )
    return words, close


def _is_of_recipe(source: dict[str, Any], name: str) -> bool:
    """Whether a store was made by the current recipe."""
    made = [part.get("recipe_fingerprint") for part in source.get("parts", [source])]
    return made == [RECIPES[part].fingerprint for part in JOINED.get(name, (name,))]


def _check_recipe(source: dict[str, Any], name: str, folder: Path) -> None:
    if not _is_of_recipe(source, name):
        raise CacheError(f"{folder} was made by another recipe", folder)

"""Stand-ins for the D4RL datasets: collected here on first use as Minari datasets, which are then converted."""

import itertools
from pathlib import Path
from typing import Any

from decision_rnn.data.cache import check_room, discard, open_or_make
from decision_rnn.data.formats import minari
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import TASKS, DatasetSpec
from decision_rnn.data.standin import collection
from decision_rnn.data.standin.recipes import JOINED, OURS, RECIPES, check_standin
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.unfinished import unfinished
from decision_rnn.data.verification import CacheError
from decision_rnn.environments.environments import environment_spaces
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.machine import cpu_model, versions
from decision_rnn.utils.messages import bar, warn

BYTES_PER_STEP = 1000  # of the Minari dataset, the larger of the two, for episodes of only 20 steps


@register_source
class StandinSource(Source):
    """The stand-ins of `recipes.OURS`: made on first use, which takes a minute or two and no network.

    They are collected as Minari datasets (`minari.load_dataset("standin/hopper-medium-v0")`) and read through an
    EpisodeStore; a medium-expert store holds the medium and the expert set end to end. Data that are corrupt or were
    made by another recipe are made again, with a line on stderr. Opening raises InputError if a dataset that is not
    ours has the Minari name. Collecting starts processes: see `collection.collect`.
    """

    prefix = "standin"
    pattern = "standin/TASK-LEVEL"

    def names(self) -> list[str]:
        return [f"standin/{name}" for name in OURS]

    def spec(self, name: str) -> DatasetSpec:
        """Determined by the name; raises InputError for an unknown name, with the nearest and all known ones."""
        check_standin(name)
        task = TASKS[name.removeprefix("standin/").partition("-")[0]]
        return task.spec(
            name,
            f"{task.environment}-v5",
            "the data are a stand-in and the reference scores D4RL's: compare with scores on it, with no paper's",
        )

    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        spec = self.spec(name)
        if path is not None:
            raise InputError(
                f"{name} is collected here and read from no file: leave out --path, or name a d4rl/ dataset"
            )
        parts = JOINED.get(name, (name,))

        def made_so(source: dict[str, Any]) -> bool:
            made = [part.get("recipe_fingerprint") for part in source.get("parts", [source])]
            return made == [RECIPES[part].fingerprint for part in parts]

        def make(folder: Path) -> EpisodeStore:
            check_room(folder, sum(RECIPES[part].steps for part in parts) * BYTES_PER_STEP)
            sources = [_collect(self.spec(part), progress) for part in parts]
            episodes = itertools.chain.from_iterable(minari.read_episodes(source["minari"]) for source in sources)
            store = EpisodeStore.write(
                folder,
                bar(episodes, "converting", unit=" episodes", show=progress),
                environment_id=spec.environment_id,
                source=sources[0] if len(sources) == 1 else {"parts": sources},
            )
            fingerprint, return_mean, length_mean = OURS[name.removeprefix("standin/")]
            if store.fingerprint != fingerprint:
                here = store.manifest["statistics"]
                warn(
                    f"{name} came out with other bits than in our results (another CPU or other versions): mean return "
                    f"{here['return_mean']:.0f} ({return_mean:.0f} there), mean length {here['length_mean']:.0f} "
                    f"({length_mean:.0f} there); compare scores with ours only if these are close"
                )
            return store

        return open_or_make(name, made_so, make)


def _collect(spec: DatasetSpec, progress: bool) -> dict[str, Any]:
    """Collect the Minari dataset of a stand-in unless it is here, by its current recipe; returns what it is made of."""
    dataset_id, recipe = f"{spec.name}-v0", RECIPES[spec.name]
    folder = minari.dataset_folder(dataset_id)
    if folder.exists():
        try:
            source = minari.read_source(dataset_id)
            if source.get("recipe_fingerprint") != recipe.fingerprint:
                raise CacheError(f"{folder} was made by another recipe", folder)
            return {"minari": dataset_id, **source}
        except CacheError as error:
            discard(folder, error)
    check_room(folder, recipe.steps * BYTES_PER_STEP)
    source = {  # everything that the bits of the dataset depend on
        "recipe": recipe.describe(),
        "recipe_fingerprint": recipe.fingerprint,
        "versions": versions(("decision-rnn", "gymnasium", "minari", "mujoco", "numpy")),
        "cpu": cpu_model(),
    }
    with unfinished(spec.name, source) as played:
        minari.write_dataset(
            dataset_id,
            collection.collect(recipe, played, progress),
            environment_id=recipe.environment_id,
            spaces=environment_spaces(recipe.environment_id),
            metadata={
                "algorithm_name": "SAC, snapshots of its actor, sampled",
                "author": {"decision_rnn"},
                "description": "A stand-in for a set of D4RL, collected by decision_rnn; their scores are not "
                "comparable.",
                "requirements": ["gymnasium[mujoco]"],
                "ref_min_score": spec.reference_min,
                "ref_max_score": spec.reference_max,
            },
            source=source,
        )
    return {"minari": dataset_id, **minari.read_source(dataset_id)}

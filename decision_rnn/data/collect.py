"""Collects the episodes of a recipe on all cores, and goes on after a kill where it was."""

import contextlib
import io
import itertools
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.data.cache import cache_root, sha256_of_json
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments.episode import ARRAYS, Episode
from decision_rnn.environments.playing import take
from decision_rnn.environments.recipe import Recipe
from decision_rnn.environments.registry import make_environment
from decision_rnn.utils.files import remove_directory, write_atomically
from decision_rnn.utils.machine import cpu_model, versions
from decision_rnn.utils.messages import warn
from decision_rnn.utils.workers import available_cores, parallel_map

PACKAGES = ("decision-rnn", "gymnasium", "mujoco", "numpy")
"""Packages whose versions are recorded with a store, since the bits of episodes may depend on them."""


def open_or_collect(recipe: Recipe, packages: tuple[str, ...] = ()) -> EpisodeStore:
    """The store of a recipe's dataset, which is collected if there is none or it was made by another recipe. The
    versions of `packages`, which the environment needs besides ours, are recorded."""

    def make(folder: Path) -> EpisodeStore:
        # First: a package may be missing.
        with contextlib.closing(make_environment(recipe.environment_id)) as environment:
            origin = {"recipe": recipe.describe(), "versions": versions((*PACKAGES, *packages)), "cpu": cpu_model()}
            unfinished = cache_root() / "unfinished" / recipe.name
            chunks = unfinished / sha256_of_json(origin)[:16]
            chunks.mkdir(parents=True, exist_ok=True)
            if any(chunks.glob("*.npz")):
                warn(f"{recipe.name}: going on from the episodes of an interrupted process, in {chunks}")
            store = EpisodeStore.write(
                folder,
                collect(recipe, chunks),
                environment_id=recipe.environment_id,
                source=origin,
                spaces=(environment.observation_space, environment.action_space),
            )
            remove_directory(unfinished)
            return store

    return open_or_make(recipe.name, partial(is_made_by, recipe), make)


def is_made_by(recipe: Recipe, source: dict[str, Any]) -> bool:
    """Whether a store with this `source` in its manifest is current: made by the recipe, or from published files."""
    return "files" in source or source.get("recipe") == recipe.describe()


def collect(recipe: Recipe, folder: Path, processes: int | None = None) -> Iterator[Episode]:
    """Yield the recipe's episodes in order, the same for any number of `processes` (by default one per core).

    Each chunk of episodes is saved in `folder` when it is finished, and loaded if it is there already. Where processes
    are spawned, as for the stand-ins, a script must do its work under `if __name__ == "__main__":`. Raises
    MachineError if a process dies.
    """
    first, chunk = recipe.first_episode, recipe.chunk
    starts = itertools.count(first, chunk) if recipe.episodes is None else range(first, first + recipe.episodes, chunk)
    work, cores = partial(_load_or_play, recipe, folder), processes or available_cores()
    played = parallel_map(work, starts, cores, "collects episodes", start_method=recipe.start_method)
    with contextlib.closing(played):
        yield from take(itertools.chain.from_iterable(played), recipe.episodes, recipe.steps, "collecting")


@cache  # one in every process
def _player(recipe: Recipe) -> Callable[[int], Episode]:
    return recipe.player()


def _load_or_play(recipe: Recipe, folder: Path, first: int) -> list[Episode]:
    """A chunk of episodes: those in `folder`, or else played and saved there; for `parallel_map`."""
    file, keys = folder / f"{first}.npz", (*ARRAYS, "terminated", "truncated")
    damaged = contextlib.suppress(OSError, ValueError, KeyError, zipfile.BadZipFile)
    with damaged, np.load(file, allow_pickle=False) as content:  # missing or damaged: play it
        count = len(content.files) // len(keys)
        values = [[content[f"{index}.{key}"] for key in keys] for index in range(count)]
        return [Episode(*arrays[:3], *map(bool, arrays[3:])) for arrays in values]
    last = first + recipe.chunk
    if recipe.episodes is not None:
        last = min(last, recipe.first_episode + recipe.episodes)
    episodes = list(map(_player(recipe), range(first, last)))
    buffer = io.BytesIO()
    arrays = {f"{index}.{key}": getattr(episode, key) for index, episode in enumerate(episodes) for key in keys}
    np.savez_compressed(buffer, **arrays)  # compressed, since a goal is the same in all observations
    write_atomically(file, buffer.getvalue())
    return episodes

"""Makes the data of a recipe, on all cores."""

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain
from pathlib import Path

from decision_rnn.data.episode import Episode
from decision_rnn.data.unfinished import kept
from decision_rnn.environments.ogbench import TASKS
from decision_rnn.environments.ogbench.environment import drawing_from, seeded
from decision_rnn.environments.ogbench.manipulation import ManipulationRecipe
from decision_rnn.environments.ogbench.mazes import MazeRecipe
from decision_rnn.utils.messages import bar
from decision_rnn.utils.workers import available_cores, parallel_map

CHUNK = 4
"""Episodes played per task of a process."""
Recipe = MazeRecipe | ManipulationRecipe
_MAZES = [task for task in TASKS if task.startswith("pointmaze")]
RECIPES: dict[str, Recipe] = {
    **{f"{task}-{kind}-v0": MazeRecipe(task, kind) for task in _MAZES for kind in ("navigate", "stitch")},
    **{
        f"{task}-{kind}-v0": ManipulationRecipe(task, kind)
        for task in TASKS
        if task not in _MAZES
        for kind in ("play", "noisy")
    },
}
"""By OGBench's name of the dataset."""


@cache  # one in every process
def _player(recipe: Recipe) -> Callable[[], Episode]:
    return recipe.player()


def episodes_of(recipe: Recipe, validation: bool) -> range:
    """The indices of a recipe's episodes or, after them, of a tenth as many for validation."""
    count = recipe.episodes
    return range(count, count + count // 10) if validation else range(count)


def _play(recipe: Recipe, last: int, first: int) -> list[Episode]:
    play, episodes = _player(recipe), []
    for index in range(first, min(first + CHUNK, last)):
        with drawing_from(seeded(index)):
            episodes.append(play())
    return episodes


def collect(
    recipe: Recipe, folder: Path, progress: bool = True, processes: int | None = None, validation: bool = False
) -> Iterator[Episode]:
    """Yield all episodes of a recipe, or those for `validation`, in order, each determined by its index, for any number
    of `processes` (by default one per core). Those in `folder`, where all are kept, are not played again. Raises
    EnvironmentFailure if a process dies."""
    indices = episodes_of(recipe, validation)
    starts, play = indices[::CHUNK], partial(kept, folder, partial(_play, recipe, indices.stop))
    chunks = parallel_map(play, starts, processes or available_cores(), "collects episodes")
    with contextlib.closing(chunks):
        yield from bar(chain.from_iterable(chunks), "collecting", total=len(indices), unit=" episodes", show=progress)

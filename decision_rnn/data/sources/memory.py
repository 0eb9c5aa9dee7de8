"""Tasks where memory decides: made here on first use by scripted experts, without a network."""

from pathlib import Path
from typing import Any

from decision_rnn.data.cache import open_or_make
from decision_rnn.data.episode import as_episodes
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import DatasetSpec, described_spaces
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.environments import layouts_of, make_environment, sizes_of
from decision_rnn.environments.memory.recipes import RECIPES, Recipe, recipe_of
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.machine import versions

PACKAGES = ("decision-rnn", "gymnasium", "numpy")


@register_source
class MemorySource(Source):
    """The datasets of `memory.recipes`, T-Mazes of any length and RepeatPrevious of any k. Data made by another recipe
    are made again, with a line on stderr."""

    prefix = "memory"
    pattern = "memory/TASK"

    def names(self) -> list[str]:
        return list(RECIPES)

    def spec(self, name: str) -> DatasetSpec:
        """Determined by the name; raises InputError for an unknown one, with the nearest and all known ones."""
        recipe = recipe_of(name)
        return DatasetSpec(
            name,
            recipe.environment_id,
            *recipe.references,
            recipe.target_returns,
            1.0,
            recipe.comparable,
            requirements=recipe.requirements,
            spaces=_spaces(recipe),
        )

    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        recipe = recipe_of(name)
        if path is not None:
            raise InputError(f"{name} is made here and read from no file: leave out --path")

        def make(folder: Path) -> EpisodeStore:
            make_environment(recipe.environment_id).close()  # raises, with a remedy, if its package is missing
            layouts = layouts_of((recipe.observation_space, recipe.action_space), name)
            return EpisodeStore.write(
                folder,
                as_episodes(recipe.collect(progress), name, layouts),
                environment_id=recipe.environment_id,
                source={
                    **_made_of(recipe),
                    "spaces": _spaces(recipe),
                    "constant_entries": recipe.constant_entries,
                    "versions": versions((*PACKAGES, *recipe.requirements)),
                },
                sizes=sizes_of(layouts),
            )

        return open_or_make(name, lambda source: _made_of(recipe).items() <= source.items(), make)


def _spaces(recipe: Recipe) -> dict[str, str]:
    return described_spaces(recipe.observation_space, recipe.action_space)


def _made_of(recipe: Recipe) -> dict[str, Any]:
    """What the episodes depend on besides the packages' versions."""
    return {"episodes": recipe.episodes, "version": recipe.version}

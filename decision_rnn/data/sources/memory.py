"""Tasks where memory decides: made here on first use by scripted experts, without a network."""

from pathlib import Path
from typing import Any

from decision_rnn.data.sources.contract import Source, refuse_path, register_source
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments.environments import make_environment
from decision_rnn.environments.memory.recipes import RECIPES, Recipe, recipe_of
from decision_rnn.utils.machine import versions

PACKAGES = ("decision-rnn", "gymnasium", "numpy")


@register_source
class MemorySource(Source):
    """The datasets of `memory.recipes`, T-Mazes of any length and RepeatPrevious of any k."""

    prefix = "memory"
    pattern = "memory/TASK"

    def names(self) -> list[str]:
        return list(RECIPES)

    def check(self, name: str) -> None:
        recipe_of(name)

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        recipe = recipe_of(name)
        return spec_of_store(
            name,
            store,
            reference_min=recipe.references[0],
            reference_max=recipe.references[1],
            score_meaning=f"0 is a return of {recipe.references[0]:g}, 100 one of {recipe.references[1]:g}",
            target_returns=tuple(recipe.target_returns),
            return_scale=1.0,
            comparable=recipe.comparable,
            requirements=recipe.requirements,
        )

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        recipe = recipe_of(name)
        refuse_path(name, path)

        def make(folder: Path) -> EpisodeStore:
            make_environment(recipe.environment_id).close()  # raises, with a remedy, if its package is missing
            return EpisodeStore.write(
                folder,
                recipe.collect(True),
                environment_id=recipe.environment_id,
                source={
                    **_made_of(recipe),
                    "constant_entries": recipe.constant_entries,
                    "versions": versions((*PACKAGES, *recipe.requirements)),
                },
                spaces=(recipe.observation_space, recipe.action_space),
            )

        return open_or_make(name, lambda source: _made_of(recipe).items() <= source.items(), make)


def _made_of(recipe: Recipe) -> dict[str, Any]:
    """What the episodes depend on besides the packages' versions."""
    return {"episodes": recipe.episodes, "version": recipe.version}

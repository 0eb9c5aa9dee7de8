"""OGBench's data: its published files, found locally, or made here by its published recipes."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from decision_rnn.data.cache import identify, is_made_of
from decision_rnn.data.collect import is_made_by, open_or_collect
from decision_rnn.data.episode import Episode
from decision_rnn.data.formats.ogbench import read_ogbench
from decision_rnn.data.sources.contract import Source, file_places, find_file, register_source
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments.ogbench import ORACLE, SINGLE, TASKS, environment_id, oracle_entries, task_spaces
from decision_rnn.environments.ogbench.environment import GOALS, goal_episode
from decision_rnn.environments.ogbench.recipes import OGBenchRecipe
from decision_rnn.environments.ogbench.rewards import relabelled
from decision_rnn.environments.registry import open_environments
from decision_rnn.utils.messages import bar

VALIDATION = "-val"
"""Name suffix of the validation split of a dataset, as of OGBench's file."""


def _recipe(task: str, kind: str) -> OGBenchRecipe:
    settings: dict[str, Any] = {
        "name": f"ogbench/{task}-{kind}-v0",
        "environment_id": environment_id(task),
        "task": task,
        "kind": kind,
    }
    if kind == "stitch":
        return OGBenchRecipe(**settings, episodes=5_000, length=200)
    if task == "pointmaze-giant":
        return OGBenchRecipe(**settings, episodes=500, length=2_000)
    if kind == "navigate":
        return OGBenchRecipe(**settings, episodes=1_000)
    episodes = {"cube-triple": 3_000, "puzzle-4x5": 3_000, "cube-quadruple": 5_000, "puzzle-4x6": 5_000}
    return OGBenchRecipe(**settings, episodes=episodes.get(task, 1_000), version=2 if task == "scene" else 1)


RECIPES = {
    recipe.name: recipe
    for task in TASKS
    for recipe in (
        _recipe(task, kind) for kind in (("navigate", "stitch") if task.startswith("pointmaze") else ("play", "noisy"))
    )
}
"""By name, without validation splits, which have a tenth as many episodes with the next indices."""


@register_source
class OGBenchSource(Source):
    """Tasks of OGBench, with goals (`training.goal_relabeling hindsight`), and their versions with
    goals of only what is to be reached, and with a single goal and rewards, each with a validation split."""

    prefix = "ogbench"
    pattern = "ogbench/TASK-KIND-v0[-val], ogbench/TASK-KIND-{oraclerep,singletask[-taskN]}-v0[-val]"

    def names(self) -> list[str]:
        return list(RECIPES)

    def check(self, name: str) -> None:
        super().check(_variant(name)[1])

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        recipe, variant = ogbench_recipe(name)
        task = TASKS[recipe.task]
        if variant not in ("", ORACLE):
            means = (
                "a return counts the parts of the goal that do not hold, in every step, so that a score is 100 if all "
                "hold at once and 0 if none ever does; papers report the success rate (--evaluation.metrics success)"
            )
            low, high, return_scale, tasks = float(-task.steps * task.parts), 0.0, 1000.0 * task.parts, 1
            meaning = "0 if no part of the goal ever holds, 100 if all hold at once"
        else:
            means = (
                "a return is 1 where the goal is reached, so that a score is the success rate in percent, over five "
                "tasks if the episodes are a multiple of five"
            )
            low, high, return_scale, tasks, meaning = 0.0, 1.0, 1.0, GOALS, "the success rate in percent"
        return spec_of_store(
            name,
            store,
            reference_min=low,
            reference_max=high,
            score_meaning=meaning,
            target_returns=(high,),
            return_scale=return_scale,
            comparable=f"{means}; compare with papers on OGBench's {name[8:].removesuffix(VALIDATION)}, whose data are "
            "made by the same recipe, unless they were read from its file",
            requirements=("ogbench",),
            tasks=tasks,
        )

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        """The episodes of OGBench's file: `path`, or `<name>.npz` in `$DECISION_RNN_DATA` or `~/.ogbench/data`; without
        a file, those of its recipe. Variants are computed from the dataset with whole goals, which is opened first."""
        recipe, variant = ogbench_recipe(name)
        places = file_places(f"{recipe.name.removeprefix('ogbench/')}.npz", "~/.ogbench/data")
        file = find_file(name, path, places)
        played, spaces = environment_id(f"{recipe.task}{variant}"), task_spaces(f"{recipe.task}{variant}")
        if file is None and not variant:
            return open_or_collect(recipe, spaces, ("ogbench",))

        options: dict[str, Any] = {"environment_id": played, "spaces": spaces, "label": f"{name} ({file or played})"}

        def make(folder: Path) -> EpisodeStore:
            with contextlib.ExitStack() as stack:
                if variant:
                    stack.enter_context(open_environments(played))  # raises, with a remedy, if the package is missing
                    store = self.open(recipe.name, path)
                    doing = "computing goals" if variant == ORACLE else "computing rewards"
                    source = store.source
                    episodes = _converted(bar(store, doing, total=store.num_episodes), recipe.task, variant)
                else:
                    assert file is not None
                    source, episodes = {"files": identify([file])}, read_ogbench(file, *TASKS[recipe.task][:2])
                return EpisodeStore.write(folder, episodes, source=source, **options)

        def is_current(source: dict[str, Any]) -> bool:
            return is_made_by(recipe, source) if file is None else is_made_of(source["files"], [file])

        return open_or_make(name, is_current, make)


def _converted(episodes: Iterable[Episode], task: str, variant: str) -> Iterator[Episode]:
    """Episodes with whole goals, as those of a variant of their task."""
    if variant != ORACLE:
        return relabelled(episodes, task, variant)
    states, entries = TASKS[task].states, oracle_entries(task)
    return (goal_episode(episode.observations[:, :states], episode.actions, entries) for episode in episodes)


def ogbench_recipe(name: str) -> tuple[OGBenchRecipe, str]:
    """The recipe of a dataset with whole goals, and the suffix of the variant in its name: `-oraclerep`,
    `-singletask-task3` or nothing. KeyError if there is none."""
    variant, training = _variant(name)
    recipe = RECIPES[training]
    if name.endswith(VALIDATION):
        assert recipe.episodes is not None
        first, count = recipe.episodes, recipe.episodes // 10
        recipe = replace(recipe, name=f"{training}{VALIDATION}", first_episode=first, episodes=count)
    return recipe, variant


def _variant(name: str) -> tuple[str, str]:
    """The suffix of the variant in the name of a dataset, and the name of the training split with whole goals."""
    match = re.search(rf"({SINGLE}|{ORACLE})(?=-v0({VALIDATION})?$)", name)
    variant = match[0] if match else ""
    return variant, name.removesuffix(VALIDATION).replace(variant, "")

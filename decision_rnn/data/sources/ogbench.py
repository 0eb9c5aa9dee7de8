"""OGBench's data (Park et al. 2025): its published files, found locally, or made here by its published recipes.

A file, npz, holds the states of all episodes end to end: `observations` (rows, states), `actions` (rows, actions) and
`terminals` (rows,), true at the last row of an episode, whose action is not of it. Other arrays are ignored.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.data.cache import identify, is_made_of
from decision_rnn.data.collect import is_made_by, open_or_collect
from decision_rnn.data.sources.contract import PUBLISHED, Source, file_places, find_file, register_source
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.ogbench import (
    GOALS,
    ORACLE,
    TASKS,
    environment_id,
    goal_episode,
    oracle_entries,
    task_spaces,
)
from decision_rnn.environments.ogbench.recipes import OGBenchRecipe
from decision_rnn.environments.registry import make_environment
from decision_rnn.utils.download import download, hub_folder
from decision_rnn.utils.errors import InputError, reading
from decision_rnn.utils.messages import pluralize, progress_bar

KEYS = ("observations", "actions", "terminals")
# A copy, since OGBench's own server has been down since August 2026.
ADDRESS = hub_folder("zhouzypaul/ogbench_datasets", "8e7f4278a635a75338f0f1dc0e8f029d61503c4b")
VALIDATION = "-val"
"""Name suffix of the validation split of a dataset, as of OGBench's file."""


def _recipe(task: str, kind: str) -> OGBenchRecipe:
    episodes = {"cube-triple": 3_000, "puzzle-4x5": 3_000, "cube-quadruple": 5_000, "puzzle-4x6": 5_000}
    lengths = {"length": 200} if kind == "stitch" else {"length": 2_000} if task == "pointmaze-giant" else {}
    return OGBenchRecipe(
        name=f"ogbench/{task}-{kind}-v0",
        environment_id=environment_id(task),
        task=task,
        kind=kind,
        episodes=5_000 if kind == "stitch" else {**episodes, "pointmaze-giant": 500}.get(task, 1_000),
        version=2 if task == "scene" else 1,
        **lengths,
    )


_KINDS = {task: ("navigate", "stitch") if task.startswith("pointmaze") else ("play", "noisy") for task in TASKS}
RECIPES = {recipe.name: recipe for task, kinds in _KINDS.items() for recipe in (_recipe(task, kind) for kind in kinds)}
"""By name, without validation splits, which have a tenth as many episodes with the next indices."""


@register_source
class OGBenchSource(Source):
    """Tasks of OGBench, with goals (`training.goal_relabeling hindsight`), and their versions with goals of only what
    is to be reached, each with a validation split."""

    prefix = "ogbench"
    pattern = "ogbench/TASK-KIND[-oraclerep]-v0[-val]"
    reads_files = True

    def names(self) -> list[str]:
        return list(RECIPES)

    def check(self, name: str) -> None:
        super().check(_variant(name)[1])

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        compared = "the data are made by OGBench's recipe, not its file: published scores are for orientation only"
        if "files" in store.source:
            compared = f"compare with papers on OGBench's {name[8:].removesuffix(VALIDATION)}"
        return spec_of_store(
            name,
            store,
            reference_min=0.0,
            reference_max=1.0,
            score_meaning="the success rate in percent",
            target_returns=(1.0,),
            return_scale=1.0,
            comparable="a return is 1 where the goal is reached, so that a score is the success rate in percent, over "
            f"five tasks if the episodes are a multiple of five; {compared}",
            requirements=("ogbench",),
            tasks=GOALS,
        )

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        """The episodes of OGBench's file: `path`, or `<name>.npz` in `$DECISION_RNN_DATA` or `~/.ogbench/data`; without
        a file, those of its recipe, or with the path `published` those of the file, which is downloaded. Variants are
        computed from the dataset with whole goals, which is opened first."""
        recipe, variant = ogbench_recipe(name)
        places = file_places(f"{recipe.name.removeprefix('ogbench/')}.npz", "~/.ogbench/data")
        remedy = f"Fetch it by other means and name it with --path, or leave out --path {PUBLISHED}."
        check = partial(_check_counts, recipe=recipe)
        file = find_file(name, path, places, lambda: download(places[0], ADDRESS, remedy, check=check))
        played, spaces = environment_id(f"{recipe.task}{variant}"), task_spaces(f"{recipe.task}{variant}")
        options: dict[str, Any] = {"environment_id": played, "spaces": spaces, "label": f"{name} ({file or played})"}
        if file is None and not variant:
            return open_or_collect(recipe, ("ogbench",))

        def make(folder: Path) -> EpisodeStore:
            if file is not None and not variant:
                episodes = read_ogbench(file, *TASKS[recipe.task][:2])
                return EpisodeStore.write(folder, episodes, source={"files": identify([file])}, **options)
            with closing(make_environment(played)):  # raises, with a remedy, if the package is missing
                store, states = self.open(recipe.name, path), TASKS[recipe.task].states
                entries = oracle_entries(recipe.task)
                episodes = (
                    goal_episode(episode.observations[:, :states], episode.actions, entries)
                    for episode in progress_bar(store, "computing goals", total=len(store))
                )
                return EpisodeStore.write(folder, episodes, source=store.source, **options)

        def is_current(source: dict[str, Any]) -> bool:
            return is_made_by(recipe, source) if file is None else is_made_of(source["files"], [file])

        return open_or_make(name, is_current, make)


def ogbench_recipe(name: str) -> tuple[OGBenchRecipe, str]:
    """The recipe of a dataset with whole goals, and `ORACLE` if its goals are only what is to be reached, otherwise
    nothing. KeyError if there is none."""
    variant, training = _variant(name)
    recipe = RECIPES[training]
    if name.endswith(VALIDATION):
        assert recipe.episodes is not None
        first, count = recipe.episodes, recipe.episodes // 10
        recipe = replace(recipe, name=f"{training}{VALIDATION}", first_episode=first, episodes=count)
    return recipe, variant


def _variant(name: str) -> tuple[str, str]:
    """`ORACLE` or nothing, and the name of the training split with whole goals."""
    training = name.removesuffix(VALIDATION)
    return ORACLE * training.endswith(f"{ORACLE}-v0"), training.replace(f"{ORACLE}-v0", "-v0")


def _check_counts(file: Path, recipe: OGBenchRecipe) -> None:
    """Raise InputError unless a file has as many episodes and steps as the published one; its hash is not known."""
    lengths = [len(episode.actions) for episode in read_ogbench(file, *TASKS[recipe.task][:2])]
    if lengths != [recipe.length] * (recipe.episodes or 0):
        raise InputError(
            f"the file is not OGBench's {recipe.name[8:]}: expected {recipe.episodes:,} episodes of {recipe.length:,} "
            f"steps, found {pluralize(len(lengths), 'episode')}, {pluralize(sum(lengths), 'step')}"
        )


def read_ogbench(file: Path, states: int, actions: int) -> Iterator[Episode]:
    """The episodes of a file with states and actions of so many numbers.

    Raises:
        InputError: Naming the file, if it cannot be read so.
    """
    with reading(file, "OGBench's npz"), np.load(file, allow_pickle=False) as content:
        arrays = {key: content[key] for key in KEYS}
        rows = len(arrays["terminals"])
    expected = dict(zip(KEYS, ((rows, states), (rows, actions), (rows,)), strict=True))
    shapes = {key: array.shape for key, array in arrays.items() if array.dtype.kind in "fiub"}
    if shapes != expected:
        raise InputError(f"{file} has numbers of the shapes {shapes}, expected {expected}: another dataset's file?")
    for begin, end in pairwise([0, *(np.flatnonzero(arrays["terminals"]) + 1).tolist()]):
        yield goal_episode(arrays["observations"][begin:end].astype(np.float64), arrays["actions"][begin : end - 1])

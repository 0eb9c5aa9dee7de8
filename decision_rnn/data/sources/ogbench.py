"""OGBench's data: its published files, found locally, or made here by its published recipes."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from decision_rnn.data.cache import identify, is_made_of
from decision_rnn.data.episode import Episode
from decision_rnn.data.formats.ogbench import read_ogbench
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.data.unfinished import unfinished
from decision_rnn.environments.environments import make_environment
from decision_rnn.environments.ogbench import ORACLE, SINGLE, TASKS, environment_id, oracle_entries, spaces_of
from decision_rnn.environments.ogbench.environment import GOALS, goal_episode
from decision_rnn.environments.ogbench.recipes import RECIPES, Recipe, collect, episodes_of
from decision_rnn.environments.ogbench.rewards import relabelled
from decision_rnn.utils.errors import InputError, did_you_mean
from decision_rnn.utils.machine import versions
from decision_rnn.utils.messages import bar

PACKAGES = ("decision-rnn", "gymnasium", "mujoco", "numpy", "ogbench")
VALIDATION = "-val"
"""What follows the name of a dataset, as that of OGBench's file, for its validation split."""


@register_source
class OGBenchSource(Source):
    """Tasks of OGBench, with goals (`training.goal_relabeling hindsight`), and their versions with
    goals of only what is to be reached, and with a single goal and rewards, each with a validation split."""

    prefix = "ogbench"
    pattern = "ogbench/TASK-KIND-v0[-val], ogbench/TASK-KIND-{oraclerep,singletask[-taskN]}-v0[-val]"

    def names(self) -> list[str]:
        return [f"ogbench/{name}" for name in RECIPES]

    def check(self, name: str) -> None:
        _recipe(name)

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        recipe, version = _recipe(name)
        task = TASKS[recipe.task]
        if version not in ("", ORACLE):
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
        """The episodes of OGBench's file: `path`, or `<name>.npz` in `$DECISION_RNN_DATA` or `~/.ogbench/data`. Without
        a file they are made here. Those of a version are read from the store of the task with whole goals, which is
        made first."""
        recipe, version = _recipe(name)
        played = environment_id(f"{recipe.task}{version}")
        goals = name.replace(version, "")
        file = _find(goals) if path is None else Path(os.path.expanduser(path))
        if file is not None and not os.path.isfile(file):  # unlike Path.is_file, it accepts any string
            raise InputError(f"{file}, given for {name}, is not a file: name the npz file")
        validation = name.endswith(VALIDATION)
        made_of: dict[str, Any] = {"version": recipe.version, "episodes": len(episodes_of(recipe, validation))}

        def make(folder: Path) -> EpisodeStore:
            if file is None or version:
                make_environment(played).close()  # raises, with a remedy, if the package is missing
            with contextlib.ExitStack() as stack:
                if version:
                    store = self.open(goals, path)
                    doing = "computing goals" if version == ORACLE else "computing rewards"
                    shown = bar(store, doing, total=store.num_episodes)
                    source, episodes = store.source, _converted(shown, recipe.task, version)
                elif file is None:
                    source = {**made_of, "versions": versions(PACKAGES)}
                    parts = stack.enter_context(unfinished(name, source))
                    episodes = collect(recipe, parts, True, None, validation)
                else:
                    source, episodes = {"files": identify([file])}, read_ogbench(file, *TASKS[recipe.task][:2])
                return EpisodeStore.write(
                    folder,
                    episodes,
                    environment_id=played,
                    source=source,
                    spaces=spaces_of(f"{recipe.task}{version}"),
                )

        def current(source: dict[str, Any]) -> bool:
            if file is not None:
                return is_made_of(source["files"], [file])
            return "files" in source or made_of.items() <= source.items()

        return open_or_make(name, current, make)


def _converted(episodes: Iterable[Episode], task: str, version: str) -> Iterator[Episode]:
    """Episodes with whole goals, as those of a version of their task."""
    if version != ORACLE:
        return relabelled(episodes, task, version)
    states, entries = TASKS[task].states, oracle_entries(task)
    return (goal_episode(episode.observations[:, :states], episode.actions, entries) for episode in episodes)


def _recipe(name: str) -> tuple[Recipe, str]:
    """The recipe of a dataset, and what its name says of its version: `-oraclerep`, `-singletask-task3` or nothing."""
    version = re.search(rf"({SINGLE}|{ORACLE})(?=-v0({VALIDATION})?$)", name)
    said = version[0] if version else ""
    recipe = RECIPES.get(name.removeprefix("ogbench/").removesuffix(VALIDATION).replace(said, ""))
    if recipe is None:
        known = OGBenchSource().names()
        raise InputError(
            f"unknown dataset {name!r:.100}: {did_you_mean(name, known)}known are {', '.join(known)}, and with "
            f"-singletask or -singletask-task1 to -task5 before -v0, those with rewards, with {ORACLE} there, those "
            f"with goals of only what is to be reached, and with {VALIDATION} behind it, those for validation"
        )
    return recipe, said


def _find(name: str) -> Path | None:
    folders = (os.environ.get("DECISION_RNN_DATA"), "~/.ogbench/data")
    places = (Path(folder).expanduser() / f"{name[8:]}.npz" for folder in folders if folder)
    return next((file for file in places if file.is_file()), None)

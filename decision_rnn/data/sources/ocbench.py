"""OCBench's data (Park 2026): a published file, named by `--path`, or episodes made here by its oracles.

A file, npz, holds all episodes end to end: `actions` (steps, n), `rewards` (steps,), `terminals` (steps,), true at the
last step of an episode, and `masks` (steps,), 0 where the environment ended it; `observations` have, if
`observation_interval` is 1, one row more than `actions` for every episode.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.data.cache import identify, is_made_of
from decision_rnn.data.collect import open_or_collect
from decision_rnn.data.sources.contract import Source, find_file, register_source
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.ocbench import TASKS, environment_id
from decision_rnn.environments.playing import play_episode
from decision_rnn.environments.recipe import Recipe
from decision_rnn.environments.registry import check_environment, make_environment
from decision_rnn.environments.reuse import global_generator, seeded
from decision_rnn.utils.errors import InputError, reading


@dataclass(frozen=True, kw_only=True)
class OCBenchRecipe(Recipe):
    """Episodes of OCBench's oracle with its own settings, to the end that the environment sets: it makes mistakes on
    purpose, and moves along curves and at speeds that it draws.

    Attributes:
        task: One of `TASKS`.
        noise: The largest standard deviation of the noise in the arm's actions, drawn for every episode. The oracle
            corrects what the noise does, so that agents learn to recover from their own errors, as in Laskey et al.,
            "DART: Noise Injection for Robust Imitation Learning" (2017).
    """

    task: str
    noise: float = 0.03

    def player(self) -> Callable[[int], Episode]:
        environment: Any = make_environment(self.environment_id)
        family = self.task.partition("-")[0]
        module = importlib.import_module(f"ocbench.oracles.controllers.{family}")
        oracle = getattr(module, f"{family.title()}Controller")(environment)
        noise = np.zeros(environment.action_space.shape)  # the last entry is the gripper

        def act(observation: np.ndarray, _: float, begins: bool) -> np.ndarray:
            info = environment.unwrapped.compute_ob_info()
            if begins:
                oracle.reset(observation, info)
                noise[:-1] = np.random.uniform(0, self.noise)
            return np.clip(oracle.select_action(observation, info) + np.random.normal(0, noise), -1, 1)

        def play(index: int) -> Episode:
            with global_generator(seeded(index)):
                return play_episode(environment, act, seed=index)

        return play


RECIPES = {
    f"ocbench/{task}-v0": OCBenchRecipe(
        name=f"ocbench/{task}-v0", environment_id=environment_id(task), task=task, episodes=1_000
    )
    for task in TASKS
}
KEYS = ("observations", "actions", "rewards", "masks", "terminals")


@register_source
class OCBenchSource(Source):
    """OCBench's tasks for a CPU, each with one goal."""

    prefix = "ocbench"
    pattern = "ocbench/TASK-v0"
    reads_files = True

    def names(self) -> list[str]:
        return list(RECIPES)

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        compared = "the data are made by OCBench's oracle, not its file: published scores are for orientation only"
        if "files" in store.source:
            compared = f"compare with papers on OCBench's {name.removeprefix('ocbench/')}"
        return_of_1, score = "where the task is solved", "the success rate in percent"
        if "bowling" in name:
            return_of_1, score = "where all ten pins fall", "how many of the pins fall, in percent"
        return spec_of_store(
            name,
            store,
            reference_min=0.0,
            reference_max=1.0,
            score_meaning=score,
            target_returns=(1.0,),
            return_scale=1.0,
            comparable=f"a return is 1 {return_of_1}, so that a score is {score}; {compared}",
            requirements=("ocbench",),
        )

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        recipe, file = RECIPES[name], find_file(name, path, (), _no_download)
        if file is None:
            return open_or_collect(recipe, ("ocbench",))

        def make(folder: Path) -> EpisodeStore:
            spaces, source = check_environment(recipe.environment_id), {"files": identify([file])}
            episodes, label = read_ocbench(file), f"{name} ({file})"
            return EpisodeStore.write(
                folder, episodes, environment_id=recipe.environment_id, source=source, spaces=spaces, label=label
            )

        return open_or_make(name, lambda source: is_made_of(source["files"], [file]), make)


def _no_download() -> Path:
    raise InputError("OCBench's files are downloaded by its own `download_datasets`. Name one with --path FILE.")


def read_ocbench(file: Path) -> Iterator[Episode]:
    """The episodes of a file; InputError, naming it, if it cannot be read."""
    with reading(file, "OCBench's npz"), np.load(file, allow_pickle=False) as content:
        observations, actions, rewards, masks, terminals = (content[key] for key in KEYS)
        interval, ends = int(content["observation_interval"]), np.flatnonzero(terminals) + 1
    if interval != 1:
        raise InputError(f"{file} has one observation in {interval} steps (observation_interval), expected all")
    if len(observations) != len(terminals) + len(ends) or not terminals[-1:].all():
        raise InputError(
            f"{file} has {len(observations):,} observations for {len(terminals):,} steps of {len(ends):,} episodes: "
            "expected one more than steps for each, and the last step to end one"
        )
    for index, (begin, end) in enumerate(pairwise([0, *ends.tolist()])):
        terminated = not masks[end - 1]
        steps = slice(begin, end)
        yield Episode(
            observations[begin + index : end + index + 1], actions[steps], rewards[steps], terminated, not terminated
        )

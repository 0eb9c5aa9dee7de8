"""The recipes of the datasets under `memory/`: how their episodes are played, their references and targets."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from decision_rnn.data.episode import Episode
from decision_rnn.environments.environments import make_environment
from decision_rnn.environments.memory import (
    TMAZE_STEPS,
    balance,
    dark_key_to_door,
    previous_id,
    recall,
    tmaze,
    tmaze_id,
)
from decision_rnn.utils.errors import InputError, did_you_mean
from decision_rnn.utils.messages import bar

Begin = Callable[[int, np.random.Generator], tuple[gymnasium.Env, Callable[[], Any]]]
"""From an episode's index and its generator to its environment and its policy, which sees the environment's state."""

LEVELS = ("easy", "medium", "hard")
TMAZE_NAME = re.compile(r"memory/tmaze-([1-9][0-9]{0,8})")
PREVIOUS_NAME = re.compile(r"memory/repeat-previous-([1-9][0-9]{0,3})")


@dataclass(frozen=True)
class Recipe:
    """Everything that a dataset and its spec are made of.

    Attributes:
        environment_id: The environment of the evaluation.
        observation_space: The space of its observations.
        action_space: The space of its actions.
        expert: The scripted action, from an environment's full state.
        begin: How an episode of the data begins.
        episodes: Their number.
        references: The returns that score 0 and 100.
        target_returns: The target returns of the evaluation.
        comparable: Where the references come from, and what scores may be compared with.
        constant_entries: Observation entries that have one value wherever an agent acts.
        requirements: The packages that the environment needs besides ours.
        version: Incremented when `begin` would make other episodes.
    """

    environment_id: str
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    expert: Callable[[Any], Any]
    begin: Begin
    episodes: int
    references: tuple[float, float]
    target_returns: tuple[float, ...]
    comparable: str
    constant_entries: tuple[int, ...] = ()
    requirements: tuple[str, ...] = ()
    version: int = 1

    def play(self, index: int) -> Episode:
        """The episode with this index, which is determined by it."""
        generator = np.random.default_rng(index)
        environment, act = self.begin(index, generator)
        observation, _ = environment.reset(seed=int(generator.integers(2**31)))
        observations, actions, rewards, over = [observation], [], [], False
        while not over:
            action = act()
            observation, reward, terminated, truncated, _ = environment.step(action)
            observations.append(observation)
            actions.append(action)
            rewards.append(reward)
            over = terminated or truncated
        return Episode(np.array(observations), np.array(actions), np.array(rewards), terminated, truncated)

    def collect(self, progress: bool = True) -> Iterator[Episode]:
        """Yield all episodes in order; a progress bar goes to stderr if that is a terminal."""
        yield from bar(map(self.play, range(self.episodes)), "collecting", unit=" episodes", show=progress)


def tmaze_recipe(steps: int) -> Recipe:
    """The T-Maze of at most `steps` steps: RATE's thousand winning episodes, and as many losing ones."""

    def begin(index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Callable[[], int]]:
        maze = tmaze.TMaze(steps, varied=True)
        return maze, partial(tmaze.turn, maze, right_side=index % 2 == 0)

    comparable = (
        "a return is 1 for the hinted turn and 0 without, so that a score is the success rate in percent; compare with "
        f"papers on RATE's T-Maze of {steps} steps, whose data have winning episodes only"
    )
    space, actions = tmaze.TMaze.observation_space, tmaze.TMaze.action_space
    return Recipe(
        tmaze_id(steps),
        space,
        actions,
        tmaze.turn,
        begin,
        2_000,
        (0.0, 1.0),
        (1.0, 0.0),
        comparable,
        constant_entries=(0,),  # y, before the turn
    )


def popgym_recipe(
    environment_id: str,
    expert: Callable[[Any], Any],
    spaces: tuple[gymnasium.Space[Any], gymnasium.Space[Any]],
    random: float,
    best: float,
    of_best: str = "the highest",
) -> Recipe:
    """A task of POPGym: the episodes with an even index are the expert's own, and each of the others has a rate, drawn
    from 0 to 1, at which its actions are random."""

    def begin(index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Callable[[], Any]]:
        environment = make_environment(environment_id).unwrapped
        environment.action_space.seed(int(generator.integers(2**31)))
        rate = generator.random() * (index % 2)

        def act() -> Any:
            return environment.action_space.sample() if generator.random() < rate else expert(environment)

        return environment, act

    comparable = (
        f"the reference scores are the mean return of random actions and {of_best}; compare returns with papers on "
        "POPGym, whose data come from other experts"
    )
    return Recipe(
        environment_id, *spaces, expert, begin, 3_000, (random, best), (best,), comparable, requirements=("popgym",)
    )


def previous_recipe(k: int) -> Recipe:
    """POPGym's RepeatPrevious with any k."""
    return popgym_recipe(previous_id(k), recall.repeat_previous, CARDS, -0.5, 1.0)


def dark_recipe() -> Recipe:
    """Dark Key-to-Door: a history for each training task, played by an agent that becomes the expert."""
    comparable = (
        "a return is the mean of a history's episodes; the reference scores are those of random actions and of knowing "
        "the task: compare with no paper's, whose tasks and histories differ"
    )
    room = dark_key_to_door.DarkKeyToDoor
    return Recipe(
        "decision_rnn/DarkKeyToDoor-v0",
        room.observation_space,
        room.action_space,
        dark_key_to_door.approach,
        dark_key_to_door.begin,
        dark_key_to_door.TRAINING_TASKS,
        (0.25, 2.0),
        (2.0,),
        comparable,
    )


LIMITS = np.array([4.8, math.radians(24)], np.float32)
CARDS = (Discrete(4), Discrete(4))
CARTPOLE = (Box(-LIMITS, LIMITS), Discrete(2))
PENDULUM = (Box(-1.0, 1.0, (2,)), Box(-2.0, 2.0, (1,)))
OPTIMUM = "an optimal controller by dynamic programming (results/memory-tasks)"

RECIPES = {
    **{f"memory/tmaze-{steps}": tmaze_recipe(steps) for steps in TMAZE_STEPS},
    **{
        f"memory/{name}-{level}": popgym_recipe(f"popgym-{task}{level.capitalize()}-v0", expert, CARDS, -0.5, 1.0)
        for name, task, expert in (
            ("repeat-first", "RepeatFirst", recall.repeat_first),
            ("repeat-previous", "RepeatPrevious", recall.repeat_previous),
        )
        for level in LEVELS
    },
    **{
        f"memory/position-only-cartpole-{level}": popgym_recipe(
            f"popgym-PositionOnlyCartPole{level.capitalize()}-v0", balance.cartpole, CARTPOLE, random, 1.0
        )
        for level, random in zip(LEVELS, (0.111, 0.0555, 0.037), strict=True)
    },
    **{
        f"memory/position-only-pendulum-{level}": popgym_recipe(
            f"popgym-PositionOnlyPendulum{level.capitalize()}-v0", balance.pendulum, PENDULUM, 0.246, best, OPTIMUM
        )
        for level, best in zip(LEVELS, (0.915, 0.887, 0.83), strict=True)
    },
    "memory/dark-key-to-door": dark_recipe(),
}
"""The recipes of the datasets that are listed; a T-Maze may have any other number of steps, RepeatPrevious any k."""


def recipe_of(name: str) -> Recipe:
    """The recipe of a dataset; raises InputError if there is none, with the nearest name and all known ones."""
    if name in RECIPES:
        return RECIPES[name]
    if (maze := TMAZE_NAME.fullmatch(name)) and int(maze[1]) >= 3:
        return tmaze_recipe(int(maze[1]))
    if previous := PREVIOUS_NAME.fullmatch(name):
        return previous_recipe(int(previous[1]))
    raise InputError(
        f"unknown dataset {name!r}: {did_you_mean(name, RECIPES)}known are {', '.join(RECIPES)}, memory/tmaze-N "
        "with any number of steps N from 3, and memory/repeat-previous-K with any K from 1 to 9999"
    )

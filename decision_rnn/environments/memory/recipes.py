"""The recipes of the datasets under `memory/`: scripted experts, and how their actions are disturbed."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.data.episode import Episode
from decision_rnn.environments.memory.dark_key_to_door import STEPS, TRAINING_TASKS, DarkKeyToDoor, approach, tasks
from decision_rnn.environments.memory.popgym import EXPERTS
from decision_rnn.environments.memory.tmaze import TMaze, turn
from decision_rnn.environments.playing import play_episode
from decision_rnn.environments.recipe import Recipe
from decision_rnn.environments.registry import make_environment

Act = Callable[[], Any]
"""A policy that sees the state of its environment."""


@dataclass(frozen=True, kw_only=True)
class ScriptedRecipe(Recipe):
    """Episodes of a scripted policy, each with a generator and an environment of its own."""

    chunk = 50

    @abstractmethod
    def begin(self, index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Act]:
        """The environment of the episode with this index, and its policy."""

    def play(self, index: int) -> Episode:
        """The episode with this index."""
        generator = np.random.default_rng(index)
        environment, act = self.begin(index, generator)
        return play_episode(environment, lambda *_: act(), seed=int(generator.integers(2**31)))

    def player(self) -> Callable[[int], Episode]:
        return self.play


@dataclass(frozen=True, kw_only=True)
class TMazeRecipe(ScriptedRecipe):
    """RATE's thousand winning episodes of a T-Maze of at most `length` steps, and as many losing ones."""

    length: int
    episodes: int | None = 2_000

    def begin(self, index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Act]:
        maze = TMaze(self.length, varied=True)
        return maze, lambda: turn(maze, right_side=index % 2 == 0)


@dataclass(frozen=True, kw_only=True)
class POPGymRecipe(ScriptedRecipe):
    """A task of POPGym: the episodes with an even index are the expert's own, and each of the others has a rate, drawn
    from 0 to 1, at which its actions are random."""

    task: str
    episodes: int | None = 3_000

    def begin(self, index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Act]:
        environment: Any = make_environment(self.environment_id).unwrapped
        environment.action_space.seed(int(generator.integers(2**31)))
        rate, expert = generator.random() * (index % 2), EXPERTS[self.task]

        def act() -> Any:
            return environment.action_space.sample() if generator.random() < rate else expert(environment)

        return environment, act


@dataclass(frozen=True, kw_only=True)
class DarkKeyToDoorRecipe(ScriptedRecipe):
    """A history for each training task, of 50 to 100 inner episodes: the noise of the expert's actions decays over nine
    tenths of it, from random ones to none."""

    chunk = 2
    episodes: int | None = TRAINING_TASKS

    def begin(self, index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Act]:
        room = DarkKeyToDoor(int(generator.integers(50, 101)), tasks()[index])
        decay = 0.9 * STEPS * room.episodes

        def act() -> int:
            return int(generator.integers(5)) if generator.random() < 1 - room.time / decay else approach(room)

        return room, act

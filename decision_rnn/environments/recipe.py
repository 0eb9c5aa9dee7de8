"""What determines the episodes of a dataset that this package plays itself."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np

from decision_rnn.environments.episode import Episode
from decision_rnn.environments.playing import play_episode


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """Everything that determines the episodes of a dataset: its fields are plain values, which its store records.

    Attributes:
        name: The name of the dataset.
        environment_id: The environment of the evaluation.
        episodes: The number of episodes; None if `steps` is given.
        steps: Instead of `episodes`, the number of steps that whole episodes must reach.
        first_episode: The index of the first episode.
        version: Incremented when `player` would play other episodes from the same fields.
        chunk: How many episodes a process plays at a time and stores when they are finished.
        start_method: How the processes that play are started, one of multiprocessing's.
    """

    name: str
    environment_id: str
    episodes: int | None = None
    steps: int | None = None
    first_episode: int = 0
    version: int = 1

    chunk: ClassVar[int] = 8
    start_method: ClassVar[str] = "fork"

    @abstractmethod
    def player(self) -> Callable[[int], Episode]:
        """A function from an index to the episode that it alone determines, with rows as of `play_episode`; called once
        in every process."""

    def describe(self) -> dict[str, Any]:
        """The recipe as plain JSON: stores made by recipes with the same description have the same episodes."""
        return json.loads(json.dumps(asdict(self)))


@dataclass(frozen=True, kw_only=True)
class ScriptedRecipe(Recipe):
    """Episodes of a scripted policy, each with a generator and an environment of its own."""

    chunk = 50

    @abstractmethod
    def begin(self, index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Callable[[Any], Any]]:
        """The environment of the episode with this index, and a policy, which may know more than it is called with:
        an observation."""

    def player(self) -> Callable[[int], Episode]:
        def play(index: int) -> Episode:
            generator = np.random.default_rng(index)
            environment, act = self.begin(index, generator)
            return play_episode(
                environment, lambda observation, *_: act(observation), seed=int(generator.integers(2**31))
            )

        return play

"""Collects stand-ins for the D4RL datasets with small SAC policies that ship with the package.

The recipes are in recipes.py. Collecting a dataset again gives the same bits on the same kind of CPU.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain, count

import numpy as np

from decision_rnn.data.environments import make_environment
from decision_rnn.data.playing import Quota, play_one
from decision_rnn.data.standin.policies import Policy, UniformPolicy
from decision_rnn.data.standin.recipes import UNIFORM, Recipe, weights_path
from decision_rnn.data.store.episode import Episode
from decision_rnn.messages import bar
from decision_rnn.workers import available_cores, parallel_map

CHUNK = 8  # episodes played per task: about half a second of work


class Collector:
    """Plays the episodes of a recipe, each a pure function of the recipe and the episode's index."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.environment = make_environment(recipe.environment_id)
        (actions,) = self.environment.action_space.shape or ()
        self.policies = [
            UniformPolicy(actions) if name == UNIFORM else Policy(weights_path(name), recipe.noise)
            for name, _ in recipe.policies
        ]
        self.shares = np.array([share for _, share in recipe.policies])

    def play(self, index: int) -> Episode:
        """The recipe's episode with this index."""
        generator = np.random.default_rng([self.recipe.seed, index])
        policy = self.policies[generator.choice(len(self.policies), p=self.shares / self.shares.sum())]
        seed = int(generator.integers(2**31))
        (episode,) = play_one(self.environment, lambda seen, *_: policy.sample(seen, generator), Quota(1), seed)
        return episode


_collector = cache(Collector)  # one in every worker process


def _play_chunk(recipe: Recipe, first: int, report: Callable[[int], object]) -> list[Episode]:
    return [_collector(recipe).play(index) for index in range(first, first + CHUNK)]


def collect(recipe: Recipe, progress: bool = True, processes: int | None = None) -> Iterator[Episode]:
    """Yield the recipe's episodes in order, the same for any number of `processes` (by default one per core).

    A progress bar over steps goes to stderr when that is a terminal. Processes are spawned, so that their BLAS starts
    with one thread: a script that calls this must do its work under `if __name__ == "__main__":`. Raises SystemFault if
    a process dies.
    """
    chunks = parallel_map(
        partial(_play_chunk, recipe),
        count(0, CHUNK),
        processes or available_cores(),
        "collects episodes",
        start_method="spawn",
    )
    with (
        contextlib.closing(chunks),
        bar(total=recipe.steps, desc="collecting", unit_scale=True, show=progress) as shown,
    ):
        steps = 0
        for episode in chain.from_iterable(chunks):
            steps += len(episode.rewards)
            shown.update(len(episode.rewards))
            yield episode
            if steps >= recipe.steps:
                return

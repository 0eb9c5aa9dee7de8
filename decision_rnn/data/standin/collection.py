"""Collects stand-ins for the D4RL datasets with small SAC policies that ship with the package.

The recipes are in recipes.py. Collecting a dataset again gives the same bits on the same kind of CPU.
"""

import contextlib
import multiprocessing
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import count

import numpy as np

from decision_rnn.data.environments import make_environment
from decision_rnn.data.playing import Quota, play_one
from decision_rnn.data.standin.policies import Policy, UniformPolicy
from decision_rnn.data.standin.recipes import UNIFORM, Recipe, weights_path
from decision_rnn.data.store.episode import Episode
from decision_rnn.errors import InputError
from decision_rnn.messages import bar
from decision_rnn.workers import available_cores, limited_threads, start_worker

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


_collector: Collector | None = None  # of a worker process


def _start_worker(recipe: Recipe) -> None:
    global _collector
    start_worker()
    _collector = Collector(recipe)


def _play_chunk(first: int) -> list[Episode]:
    assert _collector is not None
    return [_collector.play(index) for index in range(first, first + CHUNK)]


def collect(recipe: Recipe, progress: bool = True, processes: int | None = None) -> Iterator[Episode]:
    """Yield the recipe's episodes in order, the same for any number of `processes` (by default one per core).

    A progress bar over steps goes to stderr when that is a terminal. Processes are spawned, so a script that calls this
    must do its work under `if __name__ == "__main__":`. Raises InputError if a process dies.
    """
    processes = processes or available_cores()
    with contextlib.ExitStack() as stack:
        pool = ProcessPoolExecutor(
            processes,
            multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(recipe,),
        )
        stack.callback(pool.shutdown, cancel_futures=True)
        shown = stack.enter_context(bar(total=recipe.steps, desc="collecting", unit_scale=True, show=progress))
        steps = 0
        for episodes in _played_chunks(pool, ahead=2 * processes):
            for episode in episodes:
                steps += len(episode.rewards)
                shown.update(len(episode.rewards))
                yield episode
                if steps >= recipe.steps:
                    return


def _played_chunks(pool: ProcessPoolExecutor, ahead: int) -> Iterator[list[Episode]]:
    """Yield chunks of episodes in order, endlessly; `ahead` chunks are in progress while the oldest is awaited."""
    try:
        with limited_threads(1):
            chunks = deque(pool.submit(_play_chunk, index * CHUNK) for index in range(ahead))
        for index in count(ahead):
            yield chunks.popleft().result()
            chunks.append(pool.submit(_play_chunk, index * CHUNK))
    except BrokenProcessPool as error:
        raise InputError(
            "a process that collects episodes has died: free some memory, or put the work of a script that uses a "
            'dataset under `if __name__ == "__main__":`'
        ) from error

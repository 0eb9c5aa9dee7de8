"""Robot arms whose models take a second to compile are used again after they are closed; and NumPy's global generator,
from which OGBench and the oracles of OCBench draw, is set for a block."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.random import mtrand

EPISODES_AT_ONCE = "episodes_at_once"
"""The key of an environment's `metadata` with the most episodes that evaluation should step together, where one
environment takes much memory or long to make."""
MAX_AT_ONCE = 10
"""The most robot arms that are stepped together, since one takes 160 MB."""

_closed: dict[str, list[Any]] = defaultdict(list)
"""Closed environments, by task."""


class ReusedEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that is kept when it is closed, and is the next one of its task, unless it is drawn.

    Args:
        task: Environments of the same task can stand for each other.
        make: Makes one.
        render_mode: Gymnasium's.
    """

    def __init__(self, task: str, make: Callable[[], gymnasium.Env], render_mode: str | None) -> None:
        reusable = _closed[task] if render_mode is None else []
        super().__init__(reusable.pop() if reusable else make())
        self.task, self.drawn = task, render_mode is not None

    def close(self) -> None:
        environment = vars(self).pop("env", None)  # None where it has been closed before
        if environment is not None and self.drawn:
            environment.close()
        elif environment is not None:
            _closed[self.task].append(environment)


def seeded(seed: int) -> np.random.BitGenerator:
    """A generator in the state that `np.random.seed(seed)` gives the global one."""
    generator = np.random.MT19937()
    np.random.RandomState(generator).seed(seed % 2**32)
    return generator


@contextlib.contextmanager
def global_generator(generator: np.random.BitGenerator) -> Iterator[None]:
    """NumPy's global functions use this generator in the block."""
    before = mtrand.get_bit_generator()
    mtrand.set_bit_generator(generator)
    try:
        yield
    finally:
        mtrand.set_bit_generator(before)

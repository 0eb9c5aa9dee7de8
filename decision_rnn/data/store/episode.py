"""One episode, as recorded from an environment."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from decision_rnn.errors import InputError

ARRAYS = ("observations", "actions", "rewards")


@dataclass(frozen=True, eq=False)  # comparing arrays gives no single truth value
class Episode:
    """One episode of T steps as recorded from an environment.

    observations (T+1, O), the last one after the last action; actions (T, A); rewards (T,). `terminated` and
    `truncated` describe the last step; both false marks a partial episode. `seed` is the environment's reset seed, if
    known.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    seed: int | None = None

    def validate(self, name: str) -> None:
        """Raise InputError, with `name` for the episode, unless it is non-empty, finite and consistent in length."""
        length = len(self.rewards) if self.rewards.ndim == 1 else 0
        dims = (self.observations.ndim, self.actions.ndim)
        if dims != (2, 2) or length == 0 or (len(self.observations), len(self.actions)) != (length + 1, length):
            raise InputError(
                f"{name} has observations of shape {self.observations.shape}, actions {self.actions.shape} "
                f"and rewards {self.rewards.shape} where (T+1, O), (T, A) and (T,) of at least one step are needed"
            )
        for field in ARRAYS:
            # Cast first: values that overflow float32 would be stored as infinite.
            with np.errstate(over="ignore"):
                finite = np.isfinite(getattr(self, field).astype(np.float32)).all()
            if not finite:
                raise InputError(f"{name} has {field} that are not finite in float32: leave the episode out")


def as_episodes(episodes: Iterable[Any], name: str) -> Iterator[Episode]:
    """Convert objects with an episode's attributes to `Episode`; Minari's have `terminations` and `truncations` of
    every step. Raises InputError for anything else."""
    for index, episode in enumerate(episodes):
        where = f"{name}: episode {index}"
        arrays = {}
        for key in ARRAYS:
            try:
                arrays[key] = np.asarray(getattr(episode, key, None))
            except (ValueError, TypeError, RuntimeError):  # rows of different lengths, a tensor on a GPU
                arrays[key] = np.asarray(None)
            if arrays[key].dtype.kind not in "fiub":
                raise InputError(
                    f"{where}, of type {type(episode).__name__}, has no {key} that are an array of numbers: make a "
                    "decision_rnn.Episode of its observations, actions, rewards, terminated and truncated"
                )
        ends = [_end(episode, *keys, where) for keys in (("terminated", "terminations"), ("truncated", "truncations"))]
        converted = Episode(arrays["observations"], arrays["actions"], arrays["rewards"], *ends)
        converted.validate(where)
        yield converted


def _end(episode: Any, flag: str, column: str, where: str) -> bool:
    """Whether an episode ended so: its `flag`, or the last entry of a per-step `column`."""
    values = np.asarray(getattr(episode, flag, getattr(episode, column, None)))
    single = values.ndim == 0 if hasattr(episode, flag) else values.ndim == 1 and values.size > 0
    if not single or values.dtype.kind not in "fiub" or not np.isin(values, (0, 1)).all():
        raise InputError(
            f"{where} has {flag} {' '.join(repr(values).split()):.80}: it must be true or false, of its last step"
        )
    if values.ndim == 1 and values[:-1].any():
        raise InputError(f"{where} has {column} before its last step: cut it into episodes")
    return bool(values.reshape(-1)[-1])

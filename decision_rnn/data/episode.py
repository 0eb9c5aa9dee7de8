"""One episode, as recorded from an environment."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decision_rnn.data.layouts import Layout
from decision_rnn.utils.errors import InputError

ARRAYS = ("observations", "actions", "rewards")


@dataclass(frozen=True, eq=False)  # comparing arrays gives no single truth value
class Episode:
    """One episode of T steps as recorded from an environment.

    observations (T+1, O), the last one after the last action; actions (T, A); rewards (T,). Where they are written with
    a space, observations and actions may also be values of it, with the steps first in every part: actions (T,) of a
    Discrete space, a dictionary of arrays for a Dict. `terminated` and `truncated` describe the last step; both false
    marks a partial episode. `seed` is the environment's reset seed, if known.
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
            repeat = "; if no observation follows the last action, repeat the last one"
            raise InputError(
                f"{name} has observations of shape {self.observations.shape}, actions {self.actions.shape} "
                f"and rewards {self.rewards.shape} where (T+1, O), (T, A) and (T,) of at least one step are needed"
                f"{repeat if dims == (2, 2) and len(self.observations) == length > 0 else ''}; "
                "values of other spaces, such as discrete actions, need observation_space or action_space"
            )
        for field in ARRAYS:
            finite = is_finite(getattr(self, field))
            if not finite.all():
                first = ", ".join(map(str, np.argwhere(~finite)[0]))
                raise InputError(
                    f"{name} has {field} that are not finite in float32, as at {first}: leave the episode out"
                )


def is_finite(values: np.ndarray) -> np.ndarray:
    """Whether each number is finite in float32, in which it is stored: bool, of the shape of `values`."""
    with np.errstate(over="ignore"):  # values that overflow float32 would be stored as infinite
        return np.isfinite(values.astype(np.float32, copy=False))


def as_episodes(
    episodes: Iterable[Any], name: str, layouts: Sequence[Layout | None] = (None, None)
) -> Iterator[Episode]:
    """Convert objects with an episode's attributes to `Episode`; Minari's have `terminations` and `truncations` of
    every step. Values of spaces with these layouts, of observations and actions, become rows. Raises InputError for
    anything else."""
    for index, episode in enumerate(episodes):
        where, arrays = f"{name}: episode {index}", []
        for key, layout in zip(ARRAYS, (*layouts, None), strict=True):
            if not hasattr(episode, key):
                raise InputError(
                    f"{where}, of type {type(episode).__name__}, has no {key}: make a decision_rnn.Episode of its "
                    "observations, actions, rewards, terminated and truncated"
                )
            try:
                arrays.append(_as_rows(getattr(episode, key), layout, f"{key} of {where}"))
            except InputError:
                raise
            except (ValueError, TypeError, RuntimeError):  # such as rows of different lengths
                arrays.append(np.array(None))
            if arrays[-1].dtype.kind not in "fiub":
                space = f" or, if they are values of a Dict or another space, give write_store its {key[:-1]}_space"
                raise InputError(
                    f"{where} has {key} that are no array of numbers: make them one{space * (key != 'rewards')}"
                )
        terminated, truncated = (
            _end(getattr(episode, flag, getattr(episode, column, None)), arrays[2].size, flag, where)
            for flag, column in (("terminated", "terminations"), ("truncated", "truncations"))
        )
        yield Episode(arrays[0], arrays[1], arrays[2], terminated, truncated)


def _as_rows(values: Any, layout: Layout | None, where: str) -> np.ndarray:
    """Values with the steps first as rows; an array that has the shape of rows already is returned as it is, once its
    choices are known to be one-hot."""
    if layout is None or layout.flat:
        return np.asarray(values)
    (part, *others) = layout.parts
    if not others and part.size > 1 and part.shape == () and np.shape(values)[1:] == (1,):
        values = np.reshape(values, -1)  # choices in a column of a table
    if isinstance(values, dict | tuple) or np.shape(values)[1:] != (layout.size,):
        return layout.rows(values, where)
    rows = np.asarray(values)
    layout.check_rows(rows, where)
    return rows


def _end(given: Any, steps: int, flag: str, where: str) -> bool:
    """Whether an episode ended so, from a flag of its last step or flags of all steps."""
    values = np.atleast_1d(np.asarray(given))
    flags = values.dtype.kind in "fiub" and np.isin(values, (0, 1)).all()
    if not flags or values.shape not in ((1,), (steps,)) or not values.size:
        raise InputError(
            f"{where} has {flag} {' '.join(repr(values).split()):.80}: it must be true or false, of its last step"
        )
    if values[:-1].any():
        raise InputError(f"{where} has {flag} before its last step: cut it into episodes")
    return bool(values[-1])

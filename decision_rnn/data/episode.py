"""One episode, as recorded from an environment."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from decision_rnn.data.layouts import Layout
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import counted

ARRAYS = ("observations", "actions", "rewards")
Missing = Literal["error", "drop_episode", "end_episode"]
"""What is done with an episode in which a number is NaN, infinite, or too large for float32."""


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
        shapes = {key: getattr(self, key).shape for key in ARRAYS}
        dims = (self.observations.ndim, self.actions.ndim)
        if dims != (2, 2) or length == 0 or (len(self.observations), len(self.actions)) != (length + 1, length):
            raise InputError(
                f"{name} has the shapes {shapes}: expected observations (T+1, O), actions (T, A) and rewards (T,) with "
                "T > 0. Repeat the last observation if none follows the last action; give the spaces of other values."
            )
        for key in ARRAYS:
            finite = is_finite(getattr(self, key))
            if not finite.all():
                first = ", ".join(map(str, np.argwhere(~finite)[0]))
                raise InputError(f"{name} has {key} that are not finite in float32, as at {first}. Leave it out.")


def is_finite(values: np.ndarray) -> np.ndarray:
    """Whether each number is finite in float32, in which it is stored: bool, of the shape of `values`."""
    with np.errstate(over="ignore"):  # values that overflow float32 would be stored as infinite
        return np.isfinite(values.astype(np.float32, copy=False))


def as_episodes(
    episodes: Iterable[Any], name: str, layouts: Sequence[Layout | None] = (None, None)
) -> Iterator[Episode]:
    """Convert objects with an episode's attributes to `Episode`.

    Minari's have `terminations` and `truncations` of every step. Values of spaces with these layouts, of observations
    and actions, become rows. Raises InputError for anything else.
    """
    for index, episode in enumerate(episodes):
        where = f"{name}: episode {index}"
        lacking = [key for key in ARRAYS if not hasattr(episode, key)]
        if lacking:
            raise InputError(f"{where}, a {type(episode).__name__}, has no {lacking[0]}: make it an Episode.")
        observations, actions, rewards = (
            _as_rows(getattr(episode, key), layout, f"{key} of {where}")
            for key, layout in zip(ARRAYS, (*layouts, None), strict=True)
        )
        terminated, truncated = (
            _last_flag(getattr(episode, flag, getattr(episode, column, None)), rewards.size, f"{flag} of {where}")
            for flag, column in (("terminated", "terminations"), ("truncated", "truncations"))
        )
        yield Episode(observations, actions, rewards, terminated, truncated)


def _as_rows(values: Any, layout: Layout | None, where: str) -> np.ndarray:
    """Values with the steps first as rows; an array of rows is returned as it is, once its choices are one-hot."""
    if layout is not None and not layout.flat:
        (part, *further) = layout.parts
        if not further and part.size > 1 and part.shape == () and np.shape(values)[1:] == (1,):
            values = np.reshape(values, -1)  # choices in a column of a table
        if isinstance(values, dict | tuple) or np.shape(values)[1:] != (layout.size,):
            return layout.rows(values, where)
    try:
        rows = np.asarray(values)
    except (ValueError, TypeError, RuntimeError):  # such as rows of different lengths
        rows = np.array(None)
    if rows.dtype.kind not in "fiub":
        raise InputError(f"{where}: expected an array of numbers, or the space of the values as an argument.")
    if layout is not None:
        layout.check_rows(rows, where)
    return rows


def _last_flag(value: Any, steps: int, where: str) -> bool:
    """Whether an episode ended so, from a flag of its last step or flags of all steps."""
    values = np.atleast_1d(np.asarray(value))
    flags = values.dtype.kind in "fiub" and np.isin(values, (0, 1)).all()
    if not flags or values.shape not in ((1,), (steps,)) or not values.size or values[:-1].any():
        raise InputError(f"{where} is {one_line(value, 80)}: expected true or false, for its last step.")
    return bool(values[-1])


def without_missing(episodes: Iterable[Episode], missing: Missing, notes: list[str]) -> Iterator[Episode]:
    """Yield the episodes, those with missing numbers treated as `missing` says.

    Args:
        episodes: The episodes. Those whose arrays do not fit each other are passed on, for the store to refuse.
        missing: `error` passes all episodes on: the store refuses those with missing numbers. `drop_episode` leaves
            them out. `end_episode` ends them before the first step with a missing number; the observation of that step
            is the final one if it is complete, otherwise the last complete one is repeated.
        notes: Extended after the last episode by a sentence on how many were dropped or cut.
    """
    total = dropped = ended = 0
    for episode in episodes:
        total += 1
        step = None if missing == "error" else _first_missing(episode)
        if step is None:
            yield episode
        elif missing == "drop_episode" or step == 0:
            dropped += 1
        else:
            ended += 1
            yield _ended(episode, step)
    for number, action in ((dropped, "dropped"), (ended, "cut before the first")):
        if number:
            notes.append(f"{number:,} of {counted(total, 'episode')} had missing numbers: {action} (missing {missing})")


def _first_missing(episode: Episode) -> int | None:
    """The first step with a missing number, or the number of steps if only the final observation has one."""
    arrays = episode.observations, episode.actions, episode.rewards
    length = np.size(episode.rewards)
    if not length or [np.shape(array)[:1] for array in arrays] != [(length + 1,), (length,), (length,)]:
        return None
    rows = np.full((3, length + 1), True)
    for row, array in zip(rows, arrays, strict=True):
        row[: len(array)] = is_finite(array).reshape(len(array), -1).all(axis=1)
    complete = rows.all(axis=0)
    return None if complete.all() else int(complete.argmin())


def _ended(episode: Episode, step: int) -> Episode:
    """The first steps of an episode; all of them, and its end, if only the final observation has a missing number."""
    observations = episode.observations[: step + 1].copy()
    if not is_finite(observations[-1]).all():
        observations[-1] = observations[-2]
    ends = {} if step == len(episode.rewards) else {"terminated": False, "truncated": False}
    actions, rewards = episode.actions[:step], episode.rewards[:step]
    return replace(episode, observations=observations, actions=actions, rewards=rewards, **ends)

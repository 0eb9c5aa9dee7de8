"""One episode, as recorded from an environment, and the checks of those that are written."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from decision_rnn.environments.layouts import Layout
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import pluralize

ARRAYS = ("observations", "actions", "rewards")
Missing = Literal["error", "drop_episode", "end_episode"]
"""What is done with an episode in which a number is NaN, infinite, or too large for float32. `drop_episode` leaves it
out. `end_episode` ends it before the first step with a missing number, neither terminated nor truncated; the
observation of that step is the final one if it is complete, otherwise the last complete one is repeated."""


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

    def __repr__(self) -> str:
        end = "terminated" if self.terminated else "truncated" if self.truncated else "partial"
        return f"Episode({pluralize(len(self.rewards), 'step')}, return {np.sum(self.rewards):.6g}, {end})"


def is_finite(values: np.ndarray) -> np.ndarray:
    """Whether each number is finite in float32, in which it is stored: bool, of the shape of `values`."""
    with np.errstate(over="ignore"):  # values that overflow float32 would be stored as infinite
        return np.isfinite(values.astype(np.float32, copy=False))


def checked_episodes(
    episodes: Iterable[Any],
    name: str,
    layouts: Sequence[Layout | None] = (None, None),
    missing: Missing = "error",
    notes: list[str] | None = None,
) -> Iterator[Episode]:
    """Episodes as rows of finite numbers of the same sizes.

    Args:
        episodes: `Episode`, or objects with the same attributes; Minari's have `terminations` and `truncations` of
            every step.
        name: What they are called in messages.
        layouts: The layouts of observations and actions, whose values become rows; None for vectors of the first
            episode's size.
        missing: What is done with episodes in which numbers are missing.
        notes: Extended after the last episode by a sentence on how many were dropped or cut.

    Raises:
        InputError: If there are none, or, naming the episode, if its arrays do not fit each other, the spaces or the
            first episode, or if a number is missing.
    """
    sizes, counts = [layout and layout.size for layout in layouts], Counter[str]()
    for index, item in enumerate(episodes):
        where = f"{name}: episode {index}"
        try:
            episode = _as_rows(item, layouts, where)
        except InputError:
            raise
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"{where} is no Episode or dictionary of arrays ({one_line(error)}).") from error
        arrays = [getattr(episode, key) for key in ARRAYS]
        shapes, steps = [array.shape for array in arrays], arrays[2].size
        sizes = [size or (shape[-1] if shape else 0) for size, shape in zip(sizes, shapes, strict=False)]
        numeric = all(array.dtype.kind in "fiub" for array in arrays)
        if not numeric or not steps or shapes != [(steps + 1, sizes[0]), (steps, sizes[1]), (steps,)]:
            listed = (f"{key} {array.shape} {array.dtype}" for key, array in zip(ARRAYS, arrays, strict=True))
            raise InputError(
                f"{where} has {', '.join(listed)}: expected numbers of shape "
                f"(T+1, {sizes[0]}), (T, {sizes[1]}) and (T,). Repeat the last observation if none follows the last "
                "action; give the spaces of other values."
            )
        counts["total"] += 1
        if is_finite(np.concatenate([array.ravel() for array in arrays])).all():  # at once: episodes may be short
            yield episode
            continue
        finite = zip(ARRAYS, map(is_finite, arrays), strict=True)
        first = {key: int(rows.reshape(len(rows), -1).all(1).argmin()) for key, rows in finite if not rows.all()}
        if missing == "error":
            key, step = next(iter(first.items()))
            raise InputError(f"{where} has {key} that are not finite in float32, first at step {step}. Leave it out.")
        elif missing == "drop_episode" or min(first.values()) == 0:
            counts.update({"dropped": 1, "dropped steps": steps})
        else:
            cut = min(first.values())
            counts.update({"cut before the first of these": 1, "cut before the first of these steps": steps - cut})
            yield _ended(episode, cut)
    if counts["total"] == counts["dropped"]:
        raise InputError(f"{name} has no episodes{' without missing numbers' * bool(counts)}: expected at least one.")
    for action in ("dropped", "cut before the first of these"):
        if counts[action] and notes is not None:
            of_all = f"{counts[action]:,} of {pluralize(counts['total'], 'episode')}"
            steps = pluralize(counts[f"{action} steps"], "step")
            notes.append(f"{of_all} had missing numbers: {action}, which leaves out {steps}")


def _as_rows(episode: Any, layouts: Sequence[Layout | None], where: str) -> Episode:
    observations, actions = (
        _rows(getattr(episode, key), layout, f"{key} of {where}") for key, layout in zip(ARRAYS, layouts, strict=False)
    )
    flags = ("terminated", "truncated") if hasattr(episode, "terminated") else ("terminations", "truncations")
    ends = (getattr(episode, flag) for flag in flags)
    terminated, truncated = (end if isinstance(end, bool) else bool(np.ravel(end)[-1]) for end in ends)
    rewards, seed = np.asarray(episode.rewards), getattr(episode, "seed", None)
    return Episode(observations, actions, rewards, terminated, truncated, seed)


def _rows(values: Any, layout: Layout | None, where: str) -> np.ndarray:
    """Values with the steps first as rows; an array of rows is returned as it is."""
    if layout is None or layout.flat:
        return np.asarray(values)
    if isinstance(values, dict | tuple):
        return layout.rows(values, where)
    array = np.asarray(values)
    return array if array.shape[1:] == (layout.size,) else layout.rows(array, where)


def _ended(episode: Episode, step: int) -> Episode:
    """The first steps of an episode; all of them, and its end, if only the final observation has a missing number."""
    observations = episode.observations[: step + 1].copy()
    if not is_finite(observations[-1]).all():
        observations[-1] = observations[-2]
    ends = {} if step == len(episode.rewards) else {"terminated": False, "truncated": False}
    actions, rewards = episode.actions[:step], episode.rewards[:step]
    return replace(episode, observations=observations, actions=actions, rewards=rewards, **ends)

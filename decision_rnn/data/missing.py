"""What is done with episodes in which a number is missing: NaN, infinite, or too large for float32."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from decision_rnn.data.episode import Episode, is_finite
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted

Missing = Literal["error", "drop_episode", "end_episode"]


def check_policy(missing: str) -> None:
    """Raise InputError unless `missing` names a policy."""
    if missing not in get_args(Missing):
        raise InputError(f"missing is {missing!r:.100}: it must be {', '.join(get_args(Missing))}")


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
    for number, done in ((dropped, "dropped"), (ended, "cut before the first")):
        if number:
            notes.append(f"{number:,} of {counted(total, 'episode')} had missing numbers: {done} (missing {missing})")


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

"""D4RL's HDF5 layout (Fu et al. 2020), version 2: steps end to end, cut into episodes by flags.

`observations` (N, O), `actions` (N, A), `rewards`, `terminals` and `timeouts` (N,) or (N, 1), of any numeric type;
`next_observations` (N, O) if present. Everything else in the file is ignored.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np

from decision_rnn.data.formats.hdf5 import open_file, read_numbers
from decision_rnn.data.store.episode import Episode
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.store.writing import CHUNK
from decision_rnn.errors import InputError
from decision_rnn.files import new_file


class D4RLFile:
    """A file in D4RL's layout, read into memory and validated as a whole.

    An episode ends where `terminals | timeouts` is true, and where the next row does not continue it (as at the seam of
    a medium-expert file, where an array was cut). The last episode of a file is usually cut off too: it is kept,
    neither terminated nor truncated; `--partial drop` leaves such episodes out. Without `timeouts` an episode ends at
    `max_episode_steps`, as in D4RL's own `sequence_dataset`. Without `next_observations` the observation after an
    episode's last action is unknown, and the last observation is repeated. `notes` are sentences on which of these
    cases occurred.
    """

    def __init__(self, path: Path, max_episode_steps: int | None = None, observed: int | None = None) -> None:
        """Read the file.

        Args:
            path: The HDF5 file.
            max_episode_steps: The environment's time limit, which no episode may exceed.
            observed: The number of leading observation columns that the environment gives; the others are left out.

        Raises:
            InputError: If the file is invalid; the message names the file and the key.
        """
        self.path = path
        self.notes: list[str] = []
        with open_file(path) as file:
            self.observations = read_numbers(file, "observations")
            self.actions = read_numbers(file, "actions")
            self.steps, self.columns = self._check_shape(self.observations, "observations", 2)
            self.action_dim = self._check_shape(self.actions, "actions", 2)[1]
            self.rewards = self._column(file, "rewards")
            self.terminals = self._flags(file, "terminals")
            has_timeouts, has_next = "timeouts" in file, "next_observations" in file
            self.timeouts = self._flags(file, "timeouts") if has_timeouts else np.zeros(self.steps, bool)
            self.following = read_numbers(file, "next_observations") if has_next else self.observations
        if self.following.shape != self.observations.shape:
            raise InputError(f"{path} has next_observations of another shape than observations")
        if observed is not None and self.columns > observed:
            self.notes.append(
                f"only the first {observed} of {self.columns} observations are kept: the environment they are "
                "evaluated in gives no others"
            )
        seams = np.append((self.following[:-1] != self.observations[1:]).any(1), False) if has_next else False
        self.observations, self.following = self.observations[:, :observed], self.following[:, :observed]
        self.observation_dim = self.observations.shape[1]
        self._cut(seams & ~self.terminals & ~self.timeouts, max_episode_steps, has_timeouts)
        if not has_next:
            self.notes.append("it has no next_observations: an episode's last observation stands for what followed")

    def _check_shape(self, values: np.ndarray, key: str, dimensions: int) -> tuple[int, ...]:
        if values.ndim != dimensions or len(values) != len(self.observations) or 0 in values.shape:
            raise InputError(
                f"{self.path} has {key} of shape {values.shape}: (N, O) of observations, (N, A) of actions and (N,) of "
                "the others are needed"
            )
        return values.shape

    def _column(self, file: h5py.File, key: str) -> np.ndarray:
        """One number per step."""
        values = read_numbers(file, key)
        column = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        self._check_shape(column, key, 1)
        return column

    def _flags(self, file: h5py.File, key: str) -> np.ndarray:
        """One flag per step, of any numeric type."""
        values = self._column(file, key)
        if not np.isin(values, (0, 1)).all():
            raise InputError(f"{self.path} has {key} that are neither 0 nor 1: they must be flags")
        return values.astype(bool)

    def _cut(self, seams: np.ndarray, limit: int | None, has_timeouts: bool) -> None:
        """Find the first rows of the episodes and the end, and check that they are plausible."""
        if limit is not None and not has_timeouts:
            ends = np.append(np.flatnonzero((self.terminals | seams)[:-1]), self.steps - 1)
            for start, end in pairwise([-1, *ends]):
                self.timeouts[start + limit : end + 1 : limit] = True
            self.timeouts &= ~self.terminals
            self.notes.append(f"it has no timeouts: episodes were ended at {limit} steps")
        flagged = self.terminals | self.timeouts
        if limit is not None and seams.sum() > (~flagged).sum() // 2:
            raise InputError(
                f"{self.path} has next_observations that are not the next row's observations: its rows are not in "
                "the order of time, and no sequences can be made of them"
            )
        self.offsets = np.concatenate([[0], np.flatnonzero((flagged | seams)[:-1]) + 1, [self.steps]])
        lengths = np.diff(self.offsets)
        if limit is not None and lengths.max() > limit:
            raise InputError(
                f"{self.path} has terminals and timeouts that leave an episode of {lengths.max()} steps from row "
                f"{self.offsets[lengths.argmax()]} on, longer than the {limit} of its environment: only version 2 of "
                "a D4RL file has right flags"
            )
        partial = ~flagged[self.offsets[1:] - 1]
        if partial.any():
            self.notes.append(
                f"{partial.sum()} of {len(partial)} episodes ({lengths[partial].sum()} steps) break off with no flag: "
                "they are kept, neither terminated nor truncated, unless --partial drop is asked for"
            )

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes in order, with the numbers of the file unchanged."""
        for start, stop in pairwise(self.offsets):
            yield Episode(
                np.concatenate([self.observations[start:stop], self.following[stop - 1 : stop]]),
                self.actions[start:stop],
                self.rewards[start:stop],
                terminated=bool(self.terminals[stop - 1]),
                truncated=bool(self.timeouts[stop - 1]),
            )


def write_file(path: Path, store: EpisodeStore) -> None:
    """Write a store in D4RL's layout to the new file `path`, atomically.

    Rewards are float64: with float32 the returns-to-go would differ in the last bit. Raises InputError if the file
    exists, or if a partial episode could not be separated from the next one.
    """
    first = store.file[store.first_rows, store.columns["observation"]]
    unflagged = ~(store.terminated | store.truncated)[:-1]
    if (unflagged & (store.final_observations[:-1] == first[1:]).all(1)).any():
        raise InputError(
            f"{store.path} has a partial episode that ends as the next one begins, which D4RL's layout cannot tell "
            "apart: export it as minari"
        )
    if path.exists():
        raise InputError(f"{path} exists: remove it, or name another file")
    widths = {"observations": store.observation_dim, "next_observations": store.observation_dim}
    with new_file(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs.update(environment_id=store.environment_id, decision_rnn_fingerprint=store.fingerprint)
        for key, width in (widths | {"actions": store.action_dim}).items():
            file.create_dataset(key, (store.steps, width), np.float32)
        file.create_dataset("rewards", (store.steps,), np.float64)
        for key, flags in (("terminals", store.terminated), ("timeouts", store.truncated)):
            column = np.zeros(store.steps, bool)
            column[store.offsets[1:] - 1] = flags
            file[key] = column
        start, pending = 0, []  # many episodes at a time: writing few rows is slow
        for index, episode in enumerate(store.read_episodes()):
            pending.append(episode)
            stop = store.offsets[index + 1]
            if stop - start >= CHUNK or stop == store.steps:
                file["observations"][start:stop] = np.concatenate([e.observations[:-1] for e in pending])
                file["next_observations"][start:stop] = np.concatenate([e.observations[1:] for e in pending])
                file["actions"][start:stop] = np.concatenate([e.actions for e in pending])
                file["rewards"][start:stop] = np.concatenate([e.rewards for e in pending])
                start, pending = stop, []

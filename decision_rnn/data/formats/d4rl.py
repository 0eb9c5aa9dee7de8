"""D4RL's HDF5 layout (Fu et al. 2020), version 2: steps end to end, cut into episodes by flags.

`observations` (N, O), `actions` (N, A), `rewards`, `terminals` and `timeouts` (N,) or (N, 1), of any numeric type;
`next_observations` (N, O) if present. Everything else in the file is ignored.
"""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from decision_rnn.data.formats.hdf5 import as_flags, check_finite, find_dataset, open_file
from decision_rnn.data.store.episode import Episode
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.store.writing import CHUNK
from decision_rnn.errors import InputError
from decision_rnn.files import new_file


class D4RLFile:
    """A file in D4RL's layout, validated as a whole before any of it is converted.

    An episode ends where `terminals | timeouts` is true, and where the next row does not continue it (as at the seam of
    a medium-expert file, where an array was cut). The last episode of a file is usually cut off too: it is kept,
    neither terminated nor truncated; `--partial drop` leaves such episodes out. Without `timeouts` an episode ends at
    `max_episode_steps`, as in D4RL's own `sequence_dataset`. Without `next_observations` the observation after an
    episode's last action is unknown, and the last observation is repeated. `notes` are sentences on which of these
    cases occurred.
    """

    def __init__(self, path: Path, max_episode_steps: int | None = None, observed: int | None = None) -> None:
        """Validate the file.

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
            observations = find_dataset(file, "observations", str(path))
            actions = find_dataset(file, "actions", str(path))
            if observations.ndim != 2 or 0 in observations.shape:
                raise InputError(f"{path} has observations of shape {observations.shape}: (N, O) is needed")
            self.steps, self.columns = observations.shape
            self.observation_dim = min(self.columns, observed or self.columns)
            if self.columns > self.observation_dim:
                self.notes.append(
                    f"only the first {self.observation_dim} of {self.columns} observations are kept: the environment "
                    "they are evaluated in gives no others"
                )
            if actions.ndim != 2 or len(actions) != self.steps or actions.shape[1] == 0:
                raise InputError(f"{path} has actions of shape {actions.shape}: ({self.steps}, A) is needed")
            self.action_dim = actions.shape[1]
            self._column(file, "rewards")
            self.terminals = as_flags(self._column(file, "terminals")[()].reshape(-1), "terminals", str(path))
            if "timeouts" in file:
                self.timeouts = as_flags(self._column(file, "timeouts")[()].reshape(-1), "timeouts", str(path))
            else:
                self.timeouts = np.zeros(self.steps, bool)
            self.has_next = "next_observations" in file
            if self.has_next and find_dataset(file, "next_observations", str(path)).shape != observations.shape:
                raise InputError(f"{path} has next_observations of another shape than observations")
            seams = self._check_values(file)
            if "timeouts" not in file:
                self._cut_at(max_episode_steps, seams)
        self._cut(seams, max_episode_steps)

    def _column(self, file: h5py.File, key: str) -> h5py.Dataset:
        """One number per step."""
        column = find_dataset(file, key, str(self.path))
        if column.shape not in ((self.steps,), (self.steps, 1)):
            raise InputError(f"{self.path} has {key} of shape {column.shape}: ({self.steps},) is needed")
        return column

    def _check_values(self, file: h5py.File) -> np.ndarray:
        """Check that all numbers are finite; returns (N,) bool, true where an episode breaks off with no flag."""
        seams = np.zeros(self.steps, bool)
        for first in range(0, self.steps, CHUNK):
            rows = slice(first, first + CHUNK)
            for key in ("observations", "actions", "rewards"):
                check_finite(file[key][rows], key, str(self.path), first)
            if self.has_next:
                following = file["next_observations"][rows]
                check_finite(following, "next_observations", str(self.path), first)
                observations = file["observations"][first + 1 : first + 1 + CHUNK]
                seams[first : first + len(observations)] = (following[: len(observations)] != observations).any(1)
        return seams & ~self.terminals & ~self.timeouts

    def _cut_at(self, limit: int | None, seams: np.ndarray) -> None:
        """Set timeouts at the time limit, for a file that has none."""
        if limit is None:
            return
        ends = np.append(np.flatnonzero((self.terminals | seams)[:-1]), self.steps - 1)
        start = 0
        for end in ends:
            self.timeouts[start + limit - 1 : end + 1 : limit] = True
            start = end + 1
        self.timeouts &= ~self.terminals
        self.notes.append(f"it has no timeouts: episodes were ended at {limit} steps")

    def _cut(self, seams: np.ndarray, limit: int | None) -> None:
        """Find the first rows and the ends of the episodes, and check that they are plausible."""
        flagged = self.terminals | self.timeouts
        if limit is not None and seams.sum() > (~flagged).sum() // 2:
            raise InputError(
                f"{self.path} has next_observations that are not the next row's observations: its rows are not in "
                "the order of time, and no sequences can be made of them"
            )
        self.stops = np.append(np.flatnonzero((flagged | seams)[:-1]), self.steps - 1) + 1
        self.starts = np.append(0, self.stops[:-1])
        lengths = self.stops - self.starts
        if limit is not None and lengths.max() > limit:
            start, length = self.starts[lengths.argmax()], lengths.max()
            raise InputError(
                f"{self.path} has terminals and timeouts that leave an episode of {length} steps from row {start} on, "
                f"longer than the {limit} of its environment: only version 2 of a D4RL file has right flags"
            )
        partial = int((~flagged[self.stops - 1]).sum())
        if partial:
            steps = int(lengths[~flagged[self.stops - 1]].sum())
            self.notes.append(
                f"{partial} of {len(self.stops)} episodes ({steps} steps) break off with no flag: they are kept, "
                "neither terminated nor truncated, unless --partial drop is asked for"
            )
        if not self.has_next:
            self.notes.append("it has no next_observations: an episode's last observation stands for what followed")

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes in order, with the numbers of the file unchanged."""
        with open_file(self.path) as file:
            first = 0
            while first < len(self.stops):
                # Many episodes at a time: reading a few rows would decompress whole chunks of the file.
                last = max(first + 1, int(np.searchsorted(self.stops, self.starts[first] + CHUNK)))
                begin, end = self.starts[first], self.stops[last - 1]
                block = {key: file[key][begin:end] for key in ("observations", "actions", "rewards")}
                block["rewards"] = block["rewards"].reshape(-1)
                following = file["next_observations" if self.has_next else "observations"][begin:end]
                for start, stop in zip(self.starts[first:last] - begin, self.stops[first:last] - begin, strict=True):
                    observations = np.concatenate([block["observations"][start:stop], following[stop - 1 : stop]])
                    yield Episode(
                        observations[:, : self.observation_dim],
                        block["actions"][start:stop],
                        block["rewards"][start:stop],
                        terminated=bool(self.terminals[begin + stop - 1]),
                        truncated=bool(self.timeouts[begin + stop - 1]),
                    )
                first = last


def write_file(path: Path, store: EpisodeStore) -> None:
    """Write a store in D4RL's layout to the new file `path`, atomically.

    Rewards are float64: with float32 the returns-to-go would differ in the last bit. Raises InputError if the file
    exists, or if a partial episode could not be separated from the next one.
    """
    ends = store.offsets[1:] - 1
    unflagged = ~(store.terminated | store.truncated)[:-1]
    seamless = (store.final_observations[:-1] == store.observations[store.offsets[1:-1]]).all(1)
    if (unflagged & seamless).any():
        raise InputError(
            f"{store.path} has a partial episode that ends as the next one begins, which D4RL's layout cannot tell "
            "apart: export it as minari"
        )
    if path.exists():
        raise InputError(f"{path} exists: remove it, or name another file")
    with new_file(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs.update(environment_id=store.environment_id, decision_rnn_fingerprint=store.fingerprint)
        shapes = {
            "observations": (store.steps, store.observation_dim),
            "next_observations": (store.steps, store.observation_dim),
            "actions": (store.steps, store.action_dim),
        }
        for key, shape in shapes.items():
            file.create_dataset(key, shape, np.float32)
        file["rewards"] = store.exact_rewards
        for key, flags in (("terminals", store.terminated), ("timeouts", store.truncated)):
            column = np.zeros(store.steps, bool)
            column[ends] = flags
            file[key] = column
        for first in range(0, store.steps, CHUNK):
            rows = slice(first, min(first + CHUNK, store.steps))
            file["observations"][rows] = store.observations[rows]
            file["actions"][rows] = store.actions[rows]
            following = np.zeros((rows.stop - first, store.observation_dim), np.float32)
            later = store.observations[first + 1 : rows.stop + 1]
            following[: len(later)] = later
            inside = slice(*np.searchsorted(ends, (first, rows.stop)))
            following[ends[inside] - first] = store.final_observations[inside]
            file["next_observations"][rows] = following

"""D4RL's HDF5 layout (Fu et al. 2020), version 2: steps end to end, cut into episodes by flags.

`observations` (N, O), `actions` (N, A), `rewards`, `terminals` and `timeouts` (N,) or (N, 1), of any numeric type;
`next_observations` (N, O) if present. Everything else in the file, such as `infos`, is ignored. Where the columns of
observations or actions have names, these are a list in JSON, the attribute `columns` of that array.
"""

import contextlib
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from decision_rnn.data.episode import Episode, is_finite
from decision_rnn.data.missing import Missing
from decision_rnn.data.spec import column_names
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.writing import CHUNK
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import counted

DEFLATE = 1032  # the maximum compression factor of HDF5's gzip filter (zlib's technical details)
COLUMNS = "columns"
FINGERPRINT = "decision_rnn_fingerprint"
"""The attribute of files that `write_file` wrote."""


class D4RLFile:
    """A file in D4RL's layout, read into memory and validated as a whole.

    An episode ends where `terminals | timeouts` is true, and where the next row does not continue it (as at the seam of
    a medium-expert file, where an array was cut). The last episode of a file is usually cut off too: it is kept,
    neither terminated nor truncated; `--partial drop` leaves such episodes out. Without `next_observations` the
    observation after an episode's last action is unknown, and the last observation is repeated. `notes` are sentences
    on which of these cases occurred. `environment_id` is the Gymnasium id that the file names, or None, and `names` are
    those of the columns of `observations` and `actions`, of each that has them.
    """

    def __init__(
        self,
        path: Path,
        max_episode_steps: int | None = None,
        observed: int | None = None,
        missing: Missing | None = None,
    ) -> None:
        """Read the file.

        Args:
            path: The HDF5 file.
            max_episode_steps: The environment's time limit, which no episode may exceed; None for a file of any task,
                which may lack timeouts.
            observed: The number of leading observation columns that the environment gives; the others are left out.
            missing: What the caller does with missing numbers: unless it is `error`, observations, actions and rewards
                may hold them. None if a user has no such choice.

        Raises:
            InputError: If the file is invalid; the message names the file and the key.
        """
        self.path, self.notes, self.missing = path, list[str](), missing
        if not path.is_file():
            raise InputError(f"{path} is not a file: name an HDF5 file")
        try:
            with h5py.File(path, "r") as file:
                has_next = "next_observations" in file
                untimed = max_episode_steps is None and "timeouts" not in file
                keys = ("observations", "actions", "rewards", "terminals", *["timeouts"] * (not untimed))
                arrays = [self._read(file, key) for key in keys]
                if untimed:
                    arrays.append(np.zeros_like(arrays[3]))
                self.following = self._read(file, "next_observations") if has_next else arrays[0]
                recorded = {key: file[key].attrs.get(COLUMNS) for key in keys[:2]}
                self.exported, environment = FINGERPRINT in file.attrs, file.attrs.get("environment_id")
        except InputError:
            raise
        except Exception as error:  # h5py raises many types for a damaged file
            raise InputError(f"{path} cannot be read as HDF5 ({one_line(error)}): fetch or write it again") from None
        self.environment_id = environment if isinstance(environment, str) else None
        self.observations, self.actions, self.rewards, terminals, timeouts = arrays
        shapes, steps = [values.shape for values in arrays], self.rewards.size
        if [len(shape) for shape in shapes] != [2, 2, 1, 1, 1] or any(s[0] != steps or 0 in s for s in shapes):
            found = ", ".join(f"{key} {shape}" for key, shape in zip(keys, shapes, strict=False))
            raise InputError(
                f"{path} has {found}: write them again as (N, O), (N, A) and, all others, (N,), with one N, not 0"
            )
        if self.following.shape != self.observations.shape:
            raise InputError(
                f"{path} has next_observations {self.following.shape} and observations {self.observations.shape}: "
                "write them again with the same shape"
            )
        sizes = zip(recorded.items(), (self.observations.shape[1], self.actions.shape[1]), strict=True)
        self.names = {key: names for (key, found), size in sizes if (names := _names(found, size))}
        if not np.isin([terminals, timeouts], (0, 1)).all():
            raise InputError(f"{path} has terminals or timeouts that are neither 0 nor 1: they must be flags")
        self.terminals, self.timeouts = terminals.astype(bool), timeouts.astype(bool)
        self.steps, self.columns, self.action_dim = steps, self.observations.shape[1], self.actions.shape[1]
        if observed is not None and self.columns > observed:
            self.notes.append(
                f"only the first {observed} of {self.columns} observations are kept: the environment they are "
                "evaluated in gives no others"
            )
        before, after = self.following[:-1], self.observations[1:]
        differ = (before != after) & ~(np.isnan(before) & np.isnan(after))  # NaN goes on as NaN
        seams = np.append(differ.any(1), False) if has_next else False
        self.observations, self.following = self.observations[:, :observed], self.following[:, :observed]
        self.observation_dim = self.observations.shape[1]
        self._cut(seams & ~self.terminals & ~self.timeouts, max_episode_steps)
        if untimed:
            self.notes.append("it has no timeouts: episodes end only at its terminals")
        if not has_next:
            self.notes.append("it has no next_observations: an episode's last observation stands for what followed")

    def _read(self, file: h5py.File, key: str) -> np.ndarray:
        """The numbers at `key`, (N, 1) as (N,) if it is no matrix; they must be in the file itself and finite."""
        item = file[key] if isinstance(file.get(key, getlink=True), h5py.HardLink) else None
        if not isinstance(item, h5py.Dataset) or item.external or item.is_virtual or item.dtype.kind not in "fiub":
            raise InputError(
                f"{self.path} has no {key} that are an array of numbers in this file: fetch or write it again"
            )
        if item.size is None or item.size * item.dtype.itemsize > DEFLATE * self.path.stat().st_size:
            raise InputError(f"{self.path} has {key} of shape {item.shape}, too much for its size: fetch it again")
        values: np.ndarray = item[()]
        missing = None if key in ("terminals", "timeouts") else self.missing
        if missing in (None, "error") and not (finite := is_finite(values)).all():
            row = np.argwhere(~finite)[0][0] if values.ndim else 0
            other = "" if missing is None else ", or choose missing drop_episode or missing end_episode"
            raise InputError(f"{self.path} has {key} that are not finite in float32, as in row {row}: mend them{other}")
        return values[:, 0] if key in ("rewards", "terminals", "timeouts") and values.shape[1:] == (1,) else values

    def _cut(self, seams: np.ndarray, limit: int | None) -> None:
        """Find the first rows of the episodes and the end, and check that they are plausible."""
        flagged = self.terminals | self.timeouts
        if (limit is not None or not self.exported) and seams.sum() > (~flagged).sum() // 2:
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
            steps = counted(lengths[partial].sum(), "step")
            self.notes.append(
                f"{partial.sum()} of {counted(len(partial), 'episode')} ({steps}) break off with no flag: they "
                "are kept, neither terminated nor truncated, unless --partial drop is asked for"
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


def _names(recorded: Any, size: int) -> list[str]:
    """So many names that are recorded in JSON; none if they are not."""
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        names = json.loads(recorded)
        if isinstance(names, list) and len(names) == size and all(isinstance(name, str) for name in names):
            return names
    return []


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
    with new_file(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs[FINGERPRINT] = store.fingerprint
        if store.environment_id is not None:
            file.attrs["environment_id"] = store.environment_id
        for key, flags in (("terminals", store.terminated), ("timeouts", store.truncated)):
            column = np.zeros(store.steps, bool)
            column[store.offsets[1:] - 1] = flags
            file[key] = column
        start, pending = 0, []  # many episodes at a time: writing few rows is slow
        for stop, episode in zip(store.offsets[1:], store.read_episodes(), strict=True):
            pending.append((episode.observations[:-1], episode.observations[1:], episode.actions, episode.rewards))
            if stop - start >= CHUNK or stop == store.steps:
                keys = ("observations", "next_observations", "actions", "rewards")
                for key, rows in zip(keys, map(np.concatenate, zip(*pending, strict=True)), strict=True):
                    file.require_dataset(key, (store.steps, *rows.shape[1:]), rows.dtype)[start:stop] = rows
                start, pending = stop, []
        for key in ("observations", "actions"):
            if names := column_names(store, key):
                file[key].attrs[COLUMNS] = json.dumps(names)

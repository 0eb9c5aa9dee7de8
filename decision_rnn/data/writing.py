"""Writes the files of an episode store, one episode at a time: memory does not grow with their number."""

import io
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from decision_rnn.data.episode import Episode
from decision_rnn.utils.errors import InputError

TABLE, REWARDS, RETURNS, FINAL = "steps.npy", "rewards.npy", "returns.npy", "final_observations.npy"
CHUNK = 65_536  # steps processed at once, to avoid holding a whole table in memory


def column_layout(observation_dim: int, action_dim: int) -> dict[str, slice]:
    """The columns of each part of a step in the packed table."""
    widths = (1, observation_dim, action_dim, action_dim, 1, 1, 1)
    names = ("return_to_go", "observation", "previous_action", "action", "reward", "timestep", "reset")
    return {name: slice(end - width, end) for name, width, end in zip(names, widths, accumulate(widths), strict=True)}


def _rows(episode: Episode) -> np.ndarray:
    """The episode as rows of the packed table, (T, columns) float32."""
    # Summed from the end in float64: a float32 running sum of 1000 rewards drifts in the fourth digit.
    returns_to_go = np.cumsum(episode.rewards[::-1], dtype=np.float64)[::-1]
    previous = np.concatenate([np.zeros_like(episode.actions[:1]), episode.actions[:-1]])
    times = np.arange(len(episode.rewards))
    parts = (returns_to_go, episode.observations[:-1], previous, episode.actions, episode.rewards, times, times == 0)
    return np.column_stack([part.astype(np.float32) for part in parts])


def npy_header(dtype: type, shape: tuple[int, ...]) -> bytes:
    """The header of a .npy file; numpy pads it, so that it has the same length for any first dimension."""
    buffer = io.BytesIO()
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue()


class _GrowingArray:
    """A .npy file whose first dimension is known only once it is complete."""

    def __init__(self, file: BinaryIO, dtype: type, row: tuple[int, ...]) -> None:
        self.file, self.dtype, self.row, self.length = file, dtype, row, 0
        file.write(npy_header(dtype, (0, *row)))

    def append(self, values: np.ndarray) -> None:
        """Add rows, (n, *row)."""
        self.file.write(values.astype(self.dtype, copy=False).tobytes())
        self.length += len(values)

    def finish(self) -> None:
        self.file.seek(0)
        self.file.write(npy_header(self.dtype, (self.length, *self.row)))


class Moments:
    """Mean and standard deviation of rows, accumulated chunk by chunk in float64."""

    def __init__(self) -> None:
        self.pending: list[np.ndarray] = []
        self.waiting = 0  # rows in `pending`
        self.count = 0
        self.mean: Any = 0.0
        self.squares: Any = 0.0  # summed squared distances from the mean

    def add(self, rows: np.ndarray) -> None:
        """Add rows (n, columns)."""
        self.pending.append(rows)
        self.waiting += len(rows)
        if self.waiting >= CHUNK:
            self._merge()

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation, (columns,) float64."""
        if self.pending:
            self._merge()
        return self.mean, np.sqrt(self.squares / self.count)

    def _merge(self) -> None:
        """Take in the pending rows with the pairwise update of Chan, Golub and LeVeque (1983)."""
        rows = np.concatenate(self.pending)
        mean = rows.mean(0, dtype=np.float64)
        squares = ((rows - mean) ** 2).sum(0)
        count = self.count + len(rows)
        difference = mean - self.mean
        self.squares = self.squares + squares + difference**2 * (self.count * len(rows) / count)
        self.mean = self.mean + difference * (len(rows) / count)
        self.pending, self.waiting, self.count = [], 0, count


def write_arrays(
    folder: Path, episodes: Iterable[Episode], name: str, sizes: Sequence[int | None] = (None, None)
) -> tuple[dict[str, Any], np.ndarray]:
    """Write the arrays of a store into `folder`.

    Args:
        folder: An empty folder.
        episodes: The episodes.
        name: The store, for messages.
        sizes: The sizes of an observation and an action; None is that of the first episode.

    Returns:
        The sizes and the moments of the observations, for the manifest; and the least and largest actions, (2, A).

    Raises:
        InputError: If there are no episodes, or, naming the episode, if one is empty, not finite or of other sizes.
    """
    lengths, returns = array("q"), array("d")
    terminated, truncated, final = bytearray(), bytearray(), bytearray()
    moments = Moments()
    with (folder / TABLE).open("wb") as table_file, (folder / REWARDS).open("wb") as rewards_file:
        for index, episode in enumerate(episodes):
            episode.validate(f"{name}: episode {index}")
            shape = (episode.observations.shape[1], episode.actions.shape[1])
            if index == 0:
                observation_dim, action_dim = (size or first for size, first in zip(sizes, shape, strict=True))
                columns = column_layout(observation_dim, action_dim)
                table = _GrowingArray(table_file, np.float32, (columns["reset"].stop,))
                rewards = _GrowingArray(rewards_file, np.float64, ())
                action_range = np.array([[np.inf], [-np.inf]]) * np.ones(action_dim)
            if shape != (observation_dim, action_dim):
                raise InputError(
                    f"{name}: episode {index} has observations and actions of {shape} numbers, expected "
                    f"{(observation_dim, action_dim)}. All episodes of a dataset come from one environment."
                )
            rows = _rows(episode)
            table.append(rows)
            rewards.append(episode.rewards)
            final += episode.observations[-1].astype(np.float32).tobytes()
            lengths.append(len(rows))
            returns.append(float(rows[:, columns["reward"]].sum(dtype=np.float64)))
            terminated.append(bool(episode.terminated))
            truncated.append(bool(episode.truncated))
            moments.add(rows[:, columns["observation"]])
            actions = rows[:, columns["action"]]
            action_range[0] = np.minimum(action_range[0], actions.min(0))
            action_range[1] = np.maximum(action_range[1], actions.max(0))
        if not lengths:
            raise InputError(f"{name} has no episodes: expected at least one.")
        table.finish()
        rewards.finish()
    mean, std = moments.finish()
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(np.frombuffer(lengths, np.int64))]))
    np.save(folder / RETURNS, np.frombuffer(returns))
    np.save(folder / FINAL, np.frombuffer(final, np.float32).reshape(len(lengths), -1))
    np.save(folder / "terminated.npy", np.frombuffer(terminated, bool))
    np.save(folder / "truncated.npy", np.frombuffer(truncated, bool))
    sizes_and_moments = {
        "observation_dim": observation_dim,
        "action_dim": action_dim,
        "observation_mean": mean.tolist(),
        "observation_std": std.tolist(),
    }
    return sizes_and_moments, action_range

"""Writes the files of an episode store, one episode at a time: memory does not grow with their number."""

import contextlib
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


class RowSummary:
    """Mean and standard deviation of the observations and the largest action, accumulated chunk by chunk."""

    def __init__(self, columns: dict[str, slice]) -> None:
        self.columns = columns
        self.pending: list[np.ndarray] = []
        self.waiting = 0  # steps in `pending`
        self.steps = 0
        self.mean: Any = 0.0
        self.squares: Any = 0.0  # summed squared distances from the mean
        self.largest_action = 0.0

    def add(self, rows: np.ndarray) -> None:
        """Add an episode's rows of the table."""
        self.pending.append(rows)
        self.waiting += len(rows)
        if self.waiting >= CHUNK:
            self._merge()

    def finish(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean and standard deviation of the observations, (O,) float64, and the largest action."""
        if self.pending:
            self._merge()
        return self.mean, np.sqrt(self.squares / self.steps), self.largest_action

    def _merge(self) -> None:
        """Take in the pending rows, in float64, with the pairwise update of Chan, Golub and LeVeque (1983)."""
        rows = np.concatenate(self.pending)
        observations = rows[:, self.columns["observation"]]
        mean = observations.mean(0, dtype=np.float64)
        squares = ((observations - mean) ** 2).sum(0)
        steps = self.steps + len(rows)
        apart = mean - self.mean
        self.squares = self.squares + squares + apart**2 * (self.steps * len(rows) / steps)
        self.mean = self.mean + apart * (len(rows) / steps)
        self.largest_action = max(self.largest_action, float(np.abs(rows[:, self.columns["action"]]).max(initial=0)))
        self.pending, self.waiting, self.steps = [], 0, steps


def write_arrays(
    folder: Path, episodes: Iterable[Episode], name: str, sizes: Sequence[int | None] = (None, None)
) -> dict[str, Any]:
    """Write the arrays of a store into `folder`; returns the sizes and statistics for its manifest.

    Raises InputError, with `name` for the store, if there are no episodes, or, naming the episode, if one is empty, not
    finite or has other `sizes` of an observation and an action; None is that of the first.
    """
    lengths, returns = array("q"), array("d")
    observation_dim, action_dim = sizes
    terminated, truncated, final = bytearray(), bytearray(), bytearray()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context((folder / file).open("wb")) for file in (TABLE, REWARDS)]
        for index, episode in enumerate(episodes):
            episode.validate(f"{name}: episode {index}")
            shapes = (episode.observations.shape[1], episode.actions.shape[1])
            needed = observation_dim, action_dim = observation_dim or shapes[0], action_dim or shapes[1]
            if shapes != needed:
                raise InputError(
                    f"{name}: episode {index} has observations and actions of {shapes} numbers where {needed} are "
                    "needed: all episodes of a dataset must come from one environment, which the dataset names"
                )
            if index == 0:
                columns = column_layout(*needed)
                summary = RowSummary(columns)
                table = _GrowingArray(files[0], np.float32, (columns["reset"].stop,))
                rewards = _GrowingArray(files[1], np.float64, ())
            rows = _rows(episode)
            table.append(rows)
            rewards.append(episode.rewards)
            final += episode.observations[-1].astype(np.float32).tobytes()
            lengths.append(len(rows))
            returns.append(float(rows[:, columns["reward"]].sum(dtype=np.float64)))
            terminated.append(bool(episode.terminated))
            truncated.append(bool(episode.truncated))
            summary.add(rows)
        if not lengths:
            raise InputError(f"{name} has no episodes: give at least one")
        table.finish()
        rewards.finish()
    mean, std, largest_action = summary.finish()
    counted = np.frombuffer(lengths, np.int64)
    ends = {key: np.frombuffer(flags, bool) for key, flags in (("terminated", terminated), ("truncated", truncated))}
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(counted)]))
    np.save(folder / RETURNS, np.frombuffer(returns))
    np.save(folder / FINAL, np.frombuffer(final, np.float32).reshape(len(lengths), -1))
    for key, flags in ends.items():
        np.save(folder / f"{key}.npy", flags)
    return {
        "observation_dim": observation_dim,
        "action_dim": action_dim,
        "observation_mean": mean.tolist(),
        "observation_std": std.tolist(),
        "largest_action": largest_action,
        "statistics": summarise(np.frombuffer(returns), counted, **ends),
    }


def summarise(
    returns: np.ndarray, lengths: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
) -> dict[str, float | int]:
    """The statistics of a dataset, from its episodes' returns (undiscounted), lengths (steps) and ends."""
    values = {f"return_p{q}": np.percentile(returns, q) for q in (10, 50, 90)}
    for name, numbers in (("return", returns), ("length", lengths)):
        values |= {f"{name}_mean": numbers.mean(), f"{name}_sd": numbers.std()}
    values |= {"return_min": returns.min(), "return_max": returns.max()}
    counts = {"steps": lengths.sum(), "terminated": terminated.sum(), "truncated": truncated.sum()}
    return {
        "episodes": len(returns),
        **{name: int(value) for name, value in counts.items()},
        **{name: float(value) for name, value in values.items()},
    }

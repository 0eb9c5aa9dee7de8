"""Writes the files of an episode store, one episode at a time: memory does not grow with their number."""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import IO

import numpy as np

from decision_rnn.environments.episode import Episode

TABLE, REWARDS, RETURNS, FINAL = "steps.npy", "rewards.npy", "returns.npy", "final_observations.npy"
CHUNK = 65_536  # steps whose moments are merged at once


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


def _write_header(file: IO[bytes], dtype: type, shape: tuple[int, ...]) -> None:
    """Write the header of a .npy file; numpy pads it, so that it has the same length for any first dimension."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def write_arrays(folder: Path, episodes: Iterable[Episode]) -> tuple[int, int]:
    """Write the arrays of a store into an empty folder; the episodes have finite numbers and the same sizes. Returns
    the sizes of an observation and of an action."""
    lengths, returns, finals, ends = list[int](), list[float](), list[np.ndarray](), list[tuple[bool, bool]]()
    with (folder / TABLE).open("wb") as table, (folder / REWARDS).open("wb") as rewards:
        for episode in episodes:
            rows = _rows(episode)
            if not lengths:
                _write_header(table, np.float32, (0, rows.shape[1]))
                _write_header(rewards, np.float64, (0,))
            table.write(rows.tobytes())
            rewards.write(episode.rewards.astype(np.float64).tobytes())
            lengths.append(len(rows))
            returns.append(rows[:, -3:-2].sum(dtype=np.float64))
            finals.append(episode.observations[-1].astype(np.float32))
            ends.append((episode.terminated, episode.truncated))
        for file, dtype, width in ((table, np.float32, (rows.shape[1],)), (rewards, np.float64, ())):
            file.seek(0)
            _write_header(file, dtype, (sum(lengths), *width))
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
    np.save(folder / RETURNS, np.array(returns))
    np.save(folder / FINAL, np.array(finals))
    for name, flags in zip(("terminated", "truncated"), zip(*ends, strict=True), strict=True):
        np.save(folder / f"{name}.npy", np.array(flags))
    return len(finals[0]), (rows.shape[1] - len(finals[0]) - 4) // 2


def moments(blocks: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation, (columns,) float64, of rows in blocks (n, columns), by the pairwise update of Chan,
    Golub and LeVeque (1983)."""
    count, mean, squares = 0, np.zeros(()), np.zeros(())
    for rows in _chunks(blocks):
        total, center = count + len(rows), rows.mean(0, dtype=np.float64)
        difference = center - mean
        squares = squares + ((rows - center) ** 2).sum(0) + difference**2 * (count * len(rows) / total)
        mean = mean + difference * (len(rows) / total)
        count = total
    return mean, np.sqrt(squares / count)


def _chunks(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Whole blocks end to end, in chunks of at least CHUNK rows."""
    pending, waiting = list[np.ndarray](), 0
    for block in blocks:
        pending.append(block)
        waiting += len(block)
        if waiting >= CHUNK:
            yield np.concatenate(pending)
            pending, waiting = [], 0
    if pending:
        yield np.concatenate(pending)

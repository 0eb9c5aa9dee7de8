"""Writes the files of an episode store, an episode at a time: memory does not grow with their number."""

from collections.abc import Iterable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np

from decision_rnn.environments.episode import Episode

TABLE, REWARDS, RETURNS, FINAL = "steps.npy", "rewards.npy", "returns.npy", "final_observations.npy"
CHUNK = 65_536  # steps whose moments are merged at once


def column_layout(observation_dim: int, action_dim: int) -> dict[str, slice]:
    """The columns of each part of a step in the packed table."""
    widths = (1, observation_dim, action_dim, action_dim, 1, 1, 1)
    names = ("return_to_go", "observation", "previous_action", "action", "reward", "timestep", "reset")
    return {name: slice(end - width, end) for name, width, end in zip(names, widths, accumulate(widths), strict=True)}


def _rows(episode: Episode, columns: dict[str, slice]) -> np.ndarray:
    """An episode as rows of the packed table, (steps, columns) float32."""
    rows = np.zeros((len(episode.rewards), columns["reset"].stop), np.float32)
    # In float64: a float32 running sum of 1000 rewards drifts in the fourth digit.
    rows[:, columns["return_to_go"].start] = np.cumsum(episode.rewards[::-1], dtype=np.float64)[::-1]
    rows[:, columns["observation"]] = episode.observations[:-1]
    rows[1:, columns["previous_action"]] = episode.actions[:-1]
    rows[:, columns["action"]] = episode.actions
    rows[:, columns["reward"].start] = episode.rewards
    rows[:, columns["timestep"].start] = np.arange(len(rows))
    rows[0, columns["reset"].start] = 1
    return rows


def _write_header(file: IO[bytes], dtype: type, shape: tuple[int, ...]) -> None:
    """Write the header of a .npy file; numpy pads it, so that it has the same length for any first dimension."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def write_arrays(folder: Path, episodes: Iterable[Episode]) -> tuple[int, int]:
    """Write the arrays of a store into an empty folder; the episodes have finite numbers and the same sizes. Returns
    the sizes of an observation and of an action."""
    written: dict[str, list[Any]] = {}
    with (folder / TABLE).open("wb") as table, (folder / REWARDS).open("wb") as rewards:
        for episode in episodes:
            columns = column_layout(episode.observations.shape[1], episode.actions.shape[1])
            rows = _rows(episode, columns)
            if not written:
                _write_header(table, np.float32, (0, rows.shape[1]))
                _write_header(rewards, np.float64, (0,))
            table.write(rows.tobytes())
            rewards.write(episode.rewards.astype(np.float64).tobytes())
            parts = {
                "lengths": len(rows),
                RETURNS: rows[:, columns["reward"].start].sum(dtype=np.float64),
                FINAL: episode.observations[-1].astype(np.float32),
                "terminated.npy": episode.terminated,
                "truncated.npy": episode.truncated,
            }
            for name, part in parts.items():
                written.setdefault(name, []).append(part)
        arrays = {name: np.array(each) for name, each in written.items()}
        offsets = np.concatenate([[0], np.cumsum(arrays.pop("lengths"))])
        for file, dtype, width in ((table, np.float32, (rows.shape[1],)), (rewards, np.float64, ())):
            file.seek(0)
            _write_header(file, dtype, (int(offsets[-1]), *width))
    for name, array in {**arrays, "offsets.npy": offsets}.items():
        np.save(folder / name, array)
    return episode.observations.shape[1], episode.actions.shape[1]


def chunk_edges(offsets: np.ndarray) -> list[int]:
    """The edges of chunks of whole episodes that end at `offsets`, each of at least CHUNK rows but for the last."""
    edges = [0]
    while edges[-1] < offsets[-1]:
        edges.append(int(offsets[np.searchsorted(offsets[:-1], edges[-1] + CHUNK)]))
    return edges


def moments(values: np.ndarray, offsets: np.ndarray, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation, (columns,) float64, of values (steps, columns), by the pairwise update of Chan,
    Golub and LeVeque (1983) over chunks of episodes that end at `offsets`; of the given `rows` if not all are steps."""
    count, mean, squares = 0, np.zeros(()), np.zeros(())
    for start, stop in pairwise(chunk_edges(offsets)):
        chunk = values[start:stop].copy() if rows is None else values[rows[start:stop]]
        total, center = count + len(chunk), chunk.mean(0, dtype=np.float64)
        difference = center - mean
        squares = squares + ((chunk - center) ** 2).sum(0) + difference**2 * (count * len(chunk) / total)
        mean = mean + difference * (len(chunk) / total)
        count = total
    return mean, np.sqrt(squares / count)

"""Writes the files of an episode store, a few episodes at a time: memory does not grow with their number."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO

import numpy as np

from decision_rnn.environments.episode import Episode

TABLE, REWARDS, RETURNS, FINAL = "steps.npy", "rewards.npy", "returns.npy", "final_observations.npy"
GROUP = 4096  # steps of short episodes that are handled together: there may be a million episodes of one step
CHUNK = 65_536  # steps whose moments are merged at once


def column_layout(observation_dim: int, action_dim: int) -> dict[str, slice]:
    """The columns of each part of a step in the packed table."""
    widths = (1, observation_dim, action_dim, action_dim, 1, 1, 1)
    names = ("return_to_go", "observation", "previous_action", "action", "reward", "timestep", "reset")
    return {name: slice(end - width, end) for name, width, end in zip(names, widths, accumulate(widths), strict=True)}


def of_equal_length(firsts: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The episodes of each length, (n,), and their rows, (n, length), a chunk at a time, from their first rows."""
    for length in np.unique(lengths):
        episodes, size = np.flatnonzero(lengths == length), max(1, CHUNK // int(length))
        for group in np.split(episodes, range(size, len(episodes), size)):
            yield group, firsts[group, None] + np.arange(length)


def returns_to_go(rewards: np.ndarray) -> np.ndarray:
    """The sums of rewards (n, T) from each step to the last, float64."""
    # In float64: a float32 running sum of 1000 rewards drifts in the fourth digit.
    return np.cumsum(rewards[:, ::-1], axis=1, dtype=np.float64)[:, ::-1]


def _grouped(episodes: Iterable[Episode]) -> Iterator[list[Episode]]:
    """Lists of successive episodes, each of at least GROUP steps but for the last."""
    group, steps = list[Episode](), 0
    for episode in episodes:
        group.append(episode)
        steps += len(episode.rewards)
        if steps >= GROUP:
            yield group
            group, steps = [], 0
    if group:
        yield group


def _rows(episodes: Sequence[Episode], lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Episodes as rows of the packed table, (steps, columns) float32, and their returns, (episodes,) float64."""
    firsts = np.cumsum(lengths) - lengths
    rewards = np.concatenate([episode.rewards for episode in episodes])
    observations = np.concatenate([episode.observations[:-1] for episode in episodes])
    actions = np.concatenate([episode.actions for episode in episodes])
    columns = column_layout(observations.shape[1], actions.shape[1])
    rows, returns = np.empty((len(rewards), columns["reset"].stop), np.float32), np.empty(len(episodes))
    rows[:, columns["observation"]], rows[:, columns["action"]] = observations, actions
    rows[1:, columns["previous_action"]] = actions[:-1]
    rows[firsts, columns["previous_action"]] = 0
    rows[:, columns["reward"].start] = rewards
    rows[:, columns["timestep"].start] = times = np.arange(len(rewards)) - np.repeat(firsts, lengths)
    rows[:, columns["reset"].start] = times == 0
    for group, steps in of_equal_length(firsts, lengths):
        rows[steps, columns["return_to_go"].start] = returns_to_go(rewards[steps])
        returns[group] = rows[steps, columns["reward"].start].sum(axis=1, dtype=np.float64)
    return rows, returns


def _write_header(file: IO[bytes], dtype: type, shape: tuple[int, ...]) -> None:
    """Write the header of a .npy file; numpy pads it, so that it has the same length for any first dimension."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def write_arrays(folder: Path, episodes: Iterable[Episode]) -> tuple[int, int]:
    """Write the arrays of a store into an empty folder; the episodes have finite numbers and the same sizes. Returns
    the sizes of an observation and of an action."""
    written: dict[str, list[np.ndarray]] = {}
    with (folder / TABLE).open("wb") as table, (folder / REWARDS).open("wb") as rewards:
        for group in _grouped(episodes):
            lengths = np.array([len(episode.rewards) for episode in group])
            rows, returns = _rows(group, lengths)
            if not written:
                _write_header(table, np.float32, (0, rows.shape[1]))
                _write_header(rewards, np.float64, (0,))
            table.write(rows.tobytes())
            rewards.write(np.concatenate([episode.rewards for episode in group], dtype=np.float64).tobytes())
            parts = {
                "lengths": lengths,
                RETURNS: returns,
                FINAL: np.array([episode.observations[-1] for episode in group]).astype(np.float32),
                "terminated.npy": np.array([episode.terminated for episode in group]),
                "truncated.npy": np.array([episode.truncated for episode in group]),
            }
            for name, part in parts.items():
                written.setdefault(name, []).append(part)
        arrays = {name: np.concatenate(each) for name, each in written.items()}
        offsets = np.concatenate([[0], np.cumsum(arrays.pop("lengths"))])
        for file, dtype, width in ((table, np.float32, (rows.shape[1],)), (rewards, np.float64, ())):
            file.seek(0)
            _write_header(file, dtype, (int(offsets[-1]), *width))
    for name, array in {**arrays, "offsets.npy": offsets}.items():
        np.save(folder / name, array)
    observation_dim = arrays[FINAL].shape[1]
    return observation_dim, (rows.shape[1] - observation_dim - 4) // 2


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

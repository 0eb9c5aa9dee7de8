"""EpisodeStore: the episodes of a dataset end to end in one flat, memory-mapped, verified table."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.data.episode import Episode
from decision_rnn.data.verification import CacheError, sha256_of, sha256_of_json, verify_files
from decision_rnn.data.writing import FINAL, RETURNS, REWARDS, TABLE, column_layout, write_arrays
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.files import new_directory
from decision_rnn.utils.messages import counted

FORMAT = 3  # version of the files below; incremented when their layout or meaning changes
MANIFEST = "manifest.json"


def cache_root() -> Path:
    """The folder of everything that can be regenerated: `$DECISION_RNN_CACHE`, or `~/.cache/decision_rnn`."""
    return Path(os.environ.get("DECISION_RNN_CACHE") or "~/.cache/decision_rnn").expanduser()


class EpisodeStore:
    """The episodes of a dataset, end to end in one packed float32 table (steps, columns).

    A row of the table is one step; `columns` maps its parts to slices of columns: return_to_go (1: undiscounted sum of
    the rewards from this step to the episode's end), observation (O), previous_action (A: zeros at an episode's first
    step), action (A), reward (1), timestep (1: steps since the episode's start), reset (1: 1.0 at an episode's first
    step).

    `table` is mapped copy-on-write: it takes no memory, and the file is never changed. `offsets` (episodes + 1,) int64
    are the first rows of the episodes and the table's end. `terminated` and `truncated` (episodes,) bool are separate;
    an episode with neither is partial. `final_observations` (episodes, O) float32 are the observations after the last
    actions. `episode_returns` (episodes,) float64 are undiscounted. `largest_action` is the largest absolute value in
    the actions. `read_episodes` has the original rewards, float64: float32 ones would not reproduce the returns-to-go
    exactly.

    `name` is that of the dataset which the store holds in full, if it was opened or written by name.

    `file` is the table on disk, in which the episodes begin at `first_rows` (episodes,) int64; the two are `table` and
    `offsets[:-1]`, except in a `Selection`.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        """Map the files of a verified store; callers use `open` or `write`."""
        self.path = path
        self.name: str | None = None
        self.manifest = manifest
        self.environment_id: str | None = manifest["environment_id"]
        self.observation_dim: int = manifest["observation_dim"]
        self.action_dim: int = manifest["action_dim"]
        self.columns = column_layout(self.observation_dim, self.action_dim)
        self.largest_action: float = manifest["largest_action"]
        self.observation_mean = np.array(manifest["observation_mean"], np.float64)
        self.observation_std = np.array(manifest["observation_std"], np.float64)
        self.file: np.memmap = np.load(path / TABLE, mmap_mode="c")
        self.offsets: np.ndarray = np.load(path / "offsets.npy")
        self.first_rows = self.offsets[:-1]
        self.terminated: np.ndarray = np.load(path / "terminated.npy")
        self.truncated: np.ndarray = np.load(path / "truncated.npy")
        self.final_observations: np.ndarray = np.load(path / FINAL, mmap_mode="r")
        self.episode_returns: np.ndarray = np.load(path / RETURNS)

    def __repr__(self) -> str:
        sizes = f"{counted(self.episodes, 'episode')}, {counted(self.steps, 'step')}"
        return f"{type(self).__name__}({str(self.path)!r}, {sizes})"

    @cached_property
    def table(self) -> np.ndarray:
        """(steps, columns) float32; of a selection, a copy."""
        return self.file

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the training data."""
        return str(self.manifest["fingerprint"])

    @property
    def steps(self) -> int:
        return int(self.offsets[-1])

    @property
    def episodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def observations(self) -> np.ndarray:
        """(steps, O), a view of `table`."""
        return self.table[:, self.columns["observation"]]

    @property
    def actions(self) -> np.ndarray:
        """(steps, A), a view of `table`."""
        return self.table[:, self.columns["action"]]

    @property
    def rewards(self) -> np.ndarray:
        """(steps,), a view of `table`."""
        return self.table[:, self.columns["reward"].start]

    @property
    def episode_lengths(self) -> np.ndarray:
        """(episodes,) int64, in steps."""
        return np.diff(self.offsets)

    def episode_rows(self) -> Iterator[slice]:
        """The rows of each episode in `file`."""
        for first, length in zip(self.first_rows.tolist(), self.episode_lengths.tolist(), strict=True):
            yield slice(first, first + length)

    def returns_to_go(self) -> np.ndarray:
        """(steps,) float32, the undiscounted sum of the rewards from each step to the episode's end."""
        rewards = np.load(self.path / REWARDS, mmap_mode="r")  # its own map: the pages read are released with it
        to_go = np.empty(self.steps, np.float32)
        for (start, stop), rows in zip(pairwise(self.offsets), self.episode_rows(), strict=True):
            to_go[start:stop] = np.cumsum(rewards[rows][::-1])[::-1]
        return to_go

    def read_episodes(self) -> Iterator[Episode]:
        """Yield the episodes; a store written from them has identical arrays."""
        rewards = np.load(self.path / REWARDS, mmap_mode="r")
        for index, rows in enumerate(self.episode_rows()):
            steps = self.file[rows]
            yield Episode(
                np.concatenate([steps[:, self.columns["observation"]], self.final_observations[index : index + 1]]),
                steps[:, self.columns["action"]],
                rewards[rows],
                terminated=bool(self.terminated[index]),
                truncated=bool(self.truncated[index]),
            )

    @classmethod
    def open(cls, path: Path) -> "EpisodeStore":
        """Open the store in `path` after checking that each file matches its manifest: see verification.py.

        Raises CacheError, naming the file, if anything is missing, truncated or changed.
        """
        try:
            manifest = read_manifest(path)
            verify_files(path, manifest["files"])
            return cls(path, manifest)
        except (InputError, OSError):
            raise
        except Exception as error:  # of any type: forged files can hold anything, but nothing is unpickled
            reason = f"{type(error).__name__}: {one_line(error)}"
            raise CacheError(f"{path} is not an episode store ({reason})", path) from None

    def verify(self) -> None:
        """Hash every file of the store again; raises CacheError naming a file that has changed since it was written."""
        verify_files(self.path, read_manifest(self.path)["files"], afresh=True)

    @classmethod
    def write(
        cls,
        path: Path,
        episodes: Iterable[Episode],
        *,
        environment_id: str | None,
        source: dict[str, Any],
        sizes: Sequence[int | None] = (None, None),
    ) -> "EpisodeStore":
        """Write `episodes`, one at a time, as a store in the new folder `path`, and open it.

        `path` is created atomically; an existing one is kept.

        Args:
            path: The folder.
            episodes: The episodes, all from one environment.
            environment_id: Its Gymnasium id; None if it has none, such as a robot.
            source: Where the episodes come from, as plain JSON, kept in the manifest.
            sizes: The sizes of an observation and an action; None is that of the first episode.

        Raises:
            InputError: If there are no episodes, or, naming the episode, if one is empty, not finite or of other sizes.
        """
        with new_directory(path) as folder:
            numbers = write_arrays(folder, episodes, f"{path} ({environment_id or 'no environment'})", sizes)
            files = {f.name: {"bytes": f.stat().st_size, "sha256": sha256_of(f)} for f in folder.glob("*.npy")}
            manifest = {
                "format": FORMAT,
                "environment_id": environment_id,
                "source": source,
                **numbers,
                "files": files,
                "fingerprint": fingerprint_of(files),
            }
            manifest["checksum"] = sha256_of_json(manifest)
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
        return cls.open(path)


def fingerprint_of(files: dict[str, Any]) -> str:
    """The fingerprint of a store, from the size and SHA-256 of each of its files by name.

    Only the training data count; rewards and returns follow from it, except for their last bits.
    """
    return sha256_of_json({name: file for name, file in files.items() if name not in (REWARDS, RETURNS)})


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of the store in `path`, without verifying arrays; raises CacheError if it is missing or damaged."""
    file = path / MANIFEST
    if not file.is_file():
        raise CacheError(f"{file} does not exist", path)
    try:
        manifest: dict[str, Any] = json.loads(file.read_bytes())
        checksum = manifest.pop("checksum")
    except (ValueError, AttributeError, KeyError, TypeError):
        raise CacheError(f"{file} is not the manifest of an episode store", path) from None
    if sha256_of_json(manifest) != checksum:
        raise CacheError(f"{file} is corrupt, its checksum does not match", path)
    if manifest["format"] != FORMAT:
        raise CacheError(f"{file} has format {manifest['format']}, not {FORMAT}", path)
    return manifest

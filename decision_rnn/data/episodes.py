"""EpisodeStore: the episodes of a dataset end to end in one flat, memory-mapped, verified table."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from decision_rnn.errors import InputError
from decision_rnn.files import new_directory

FORMAT = 2  # of the files below; raised when their layout or meaning changes
MANIFEST = "manifest.json"
REWARDS = "rewards.npy"
CHUNK = 65_536  # steps handled at once where the whole table would have to be copied


class CacheError(InputError):
    """A folder that could be made again cannot be used; `fault` says why, without the remedy."""

    def __init__(self, fault: str, folder: Path) -> None:
        super().__init__(f"{fault}: delete the folder {folder}, it will be made again")
        self.fault = fault


@dataclass(frozen=True, eq=False)  # arrays have no one truth value to compare by
class Episode:
    """One episode of T steps as an environment gave it.

    observations (T+1, O), the last one being what followed the last action; actions (T, A); rewards (T,).
    `terminated` and `truncated` describe the last step; both false marks a partial episode.
    `seed` is the environment's reset seed, where it is known.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    seed: int | None = None

    def validate(self, name: str) -> None:
        """Raise InputError, calling the episode `name`, unless it is non-empty, finite and of one length."""
        if self.rewards.ndim != 1 or self.actions.ndim != 2 or self.observations.ndim != 2:
            raise InputError(
                f"{name} has observations of shape {self.observations.shape}, actions {self.actions.shape} "
                f"and rewards {self.rewards.shape} where (T+1, O), (T, A) and (T,) are needed"
            )
        length = len(self.rewards)
        if length == 0:
            raise InputError(f"{name} has no steps: leave it out")
        if len(self.actions) != length or len(self.observations) != length + 1:
            raise InputError(
                f"{name} has {len(self.observations)} observations, {len(self.actions)} actions and {length} "
                "rewards: there must be as many actions as rewards and one observation more"
            )
        for field in ("observations", "actions", "rewards"):
            # Cast first: what overflows float32 would be stored as infinite.
            with np.errstate(over="ignore"):
                finite = np.isfinite(getattr(self, field).astype(np.float32)).all()
            if not finite:
                raise InputError(f"{name} has {field} that are not finite in float32: leave the episode out")


def cache_root() -> Path:
    """The folder of everything that can be made again: `$DECISION_RNN_CACHE`, or `~/.cache/decision_rnn`."""
    return Path(os.environ.get("DECISION_RNN_CACHE") or "~/.cache/decision_rnn").expanduser()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex (about 60 ms for 80 MB)."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sha256_of_json(value: Any) -> str:
    """SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _column_layout(observation_dim: int, action_dim: int) -> dict[str, slice]:
    widths = {
        "return_to_go": 1,
        "observation": observation_dim,
        "previous_action": action_dim,
        "action": action_dim,
        "reward": 1,
        "timestep": 1,
        "reset": 1,
    }
    columns, start = {}, 0
    for name, width in widths.items():
        columns[name] = slice(start, start + width)
        start += width
    return columns


def _rows(episode: Episode, columns: dict[str, slice]) -> np.ndarray:
    """The episode as rows of the packed table, (T, columns) float32."""
    table = np.zeros((len(episode.rewards), columns["reset"].stop), np.float32)
    # Summed from the end in float64: a float32 running sum of 1000 rewards drifts in the fourth digit.
    returns_to_go = np.cumsum(episode.rewards[::-1], dtype=np.float64)[::-1]
    table[:, columns["return_to_go"]] = returns_to_go[:, None]
    table[:, columns["observation"]] = episode.observations[:-1]
    table[1:, columns["previous_action"]] = episode.actions[:-1]
    table[:, columns["action"]] = episode.actions
    table[:, columns["reward"]] = episode.rewards[:, None]
    table[:, columns["timestep"]] = np.arange(len(table))[:, None]
    table[0, columns["reset"]] = 1.0
    return table


class EpisodeStore:
    """The episodes of a dataset, end to end in one packed float32 table (steps, columns).

    A row of the table is one step; `columns` says where its parts are:
    return_to_go (1: undiscounted sum of the rewards from this step to the episode's end), observation (O),
    previous_action (A: zeros at an episode's first step), action (A), reward (1),
    timestep (1: steps since the episode's start), reset (1: 1.0 at an episode's first step).

    `table` is mapped copy-on-write: it costs no memory, and the file is never altered.
    `offsets` (episodes + 1,) int64 are the first rows of the episodes and the table's end. `terminated` and
    `truncated` (episodes,) bool are kept apart; an episode with neither is partial.
    `final_observations` (episodes, O) float32 are what followed the last actions. `exact_rewards` (steps,) float64
    are the rewards as they came: from their float32 the same returns-to-go could not be made again.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        """Map the files of a verified store; callers use `open` or `write`."""
        self.path = path
        self.manifest = manifest
        self.environment_id: str = manifest["environment_id"]
        self.fingerprint: str = manifest["fingerprint"]
        self.observation_dim: int = manifest["observation_dim"]
        self.action_dim: int = manifest["action_dim"]
        self.columns = _column_layout(self.observation_dim, self.action_dim)
        self.observation_mean = np.array(manifest["observation_mean"], np.float64)
        self.observation_std = np.array(manifest["observation_std"], np.float64)
        self.table: np.ndarray = np.load(path / "steps.npy", mmap_mode="c")
        self.offsets: np.ndarray = np.load(path / "offsets.npy")
        self.terminated: np.ndarray = np.load(path / "terminated.npy")
        self.truncated: np.ndarray = np.load(path / "truncated.npy")
        self.final_observations: np.ndarray = np.load(path / "final_observations.npy")
        self.exact_rewards: np.ndarray = np.load(path / REWARDS, mmap_mode="r")

    @property
    def steps(self) -> int:
        return len(self.table)

    @property
    def episodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def observations(self) -> np.ndarray:
        """(steps, O), a view."""
        return self.table[:, self.columns["observation"]]

    @property
    def actions(self) -> np.ndarray:
        """(steps, A), a view."""
        return self.table[:, self.columns["action"]]

    @property
    def rewards(self) -> np.ndarray:
        """(steps,), a view."""
        return self.table[:, self.columns["reward"].start]

    @property
    def episode_lengths(self) -> np.ndarray:
        """(episodes,) int64, in steps."""
        return np.diff(self.offsets)

    @property
    def episode_returns(self) -> np.ndarray:
        """(episodes,) float64, undiscounted."""
        return np.add.reduceat(self.rewards.astype(np.float64), self.offsets[:-1])

    def read_episodes(self) -> Iterator[Episode]:
        """Yield the episodes: a store written from them has the same bits."""
        for index, (start, stop) in enumerate(pairwise(self.offsets)):
            yield Episode(
                np.concatenate([self.observations[start:stop], self.final_observations[index : index + 1]]),
                self.actions[start:stop],
                self.exact_rewards[start:stop],
                terminated=bool(self.terminated[index]),
                truncated=bool(self.truncated[index]),
            )

    @classmethod
    def open(cls, path: Path) -> "EpisodeStore":
        """Open the store in `path` after comparing each file's size and SHA-256 with its manifest.

        Raises CacheError, naming the file, when anything is absent, cut short or altered.
        """
        manifest_path = path / MANIFEST
        try:
            manifest = json.loads(manifest_path.read_bytes())
            checksum = manifest.pop("checksum")
        except FileNotFoundError:
            raise CacheError(f"{manifest_path} does not exist", path) from None
        except (ValueError, AttributeError, KeyError, TypeError):
            raise CacheError(f"{manifest_path} is not the manifest of an episode store", path) from None
        if sha256_of_json(manifest) != checksum:
            raise CacheError(f"{manifest_path} is corrupt, its checksum does not match", path)
        if manifest["format"] != FORMAT:
            raise CacheError(f"{manifest_path} has format {manifest['format']}, not {FORMAT}", path)
        for name, expected in manifest["files"].items():
            file = path / name
            if not file.is_file():
                raise CacheError(f"{file} does not exist", path)
            if file.stat().st_size != expected["bytes"]:
                raise CacheError(f"{file} has {file.stat().st_size} bytes, not {expected['bytes']}", path)
            if sha256_of(file) != expected["sha256"]:
                raise CacheError(f"{file} is corrupt, its SHA-256 does not match the manifest's", path)
        return cls(path, manifest)

    @classmethod
    def write(
        cls, path: Path, episodes: Iterable[Episode], *, environment_id: str, source: dict[str, Any]
    ) -> "EpisodeStore":
        """Write `episodes`, one at a time, as a store in the new folder `path`, and open it.

        `source` is kept in the manifest: where the episodes come from, as plain JSON.
        Raises InputError, naming the episode, when one is empty, not finite or of other shapes than the
        first, and when there are none. `path` appears whole or not at all; one that exists already is kept.
        """
        with new_directory(path) as folder:
            dims = _write_arrays(folder, episodes)
            manifest = _describe(folder, *dims)
            manifest |= {"environment_id": environment_id, "source": source}
            manifest["checksum"] = sha256_of_json(manifest)
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
        return cls.open(path)


def _write_header(file: BinaryIO, dtype: type, shape: tuple[int, ...]) -> None:
    # numpy pads the header so that it can be rewritten in place once the first dimension is known.
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def _write_arrays(folder: Path, episodes: Iterable[Episode]) -> tuple[int, int]:
    """Write the arrays of a store; return the observation's and the action's dimension."""
    lengths: list[int] = []
    terminated: list[bool] = []
    truncated: list[bool] = []
    final_observations: list[np.ndarray] = []
    columns: dict[str, slice] = {}
    dims = (0, 0)
    with (folder / "steps.npy").open("wb") as file, (folder / REWARDS).open("wb") as rewards:
        for index, episode in enumerate(episodes):
            episode.validate(f"episode {index}")
            shapes = (episode.observations.shape[1], episode.actions.shape[1])
            if not columns:
                dims, columns = shapes, _column_layout(*shapes)
                _write_header(file, np.float32, (0, columns["reset"].stop))
                _write_header(rewards, np.float64, (0,))
            elif shapes != dims:
                raise InputError(
                    f"episode {index} has observations and actions of {shapes} numbers, those before {dims}: "
                    "all episodes of a dataset must come from one environment"
                )
            file.write(_rows(episode, columns).tobytes())
            rewards.write(episode.rewards.astype(np.float64).tobytes())
            lengths.append(len(episode.rewards))
            terminated.append(episode.terminated)
            truncated.append(episode.truncated)
            final_observations.append(episode.observations[-1].astype(np.float32))
        if not columns:
            raise InputError("the dataset has no episodes")
        file.seek(0)
        _write_header(file, np.float32, (sum(lengths), columns["reset"].stop))
        rewards.seek(0)
        _write_header(rewards, np.float64, (sum(lengths),))
    np.save(folder / "offsets.npy", np.cumsum([0, *lengths], dtype=np.int64))
    np.save(folder / "terminated.npy", np.array(terminated, bool))
    np.save(folder / "truncated.npy", np.array(truncated, bool))
    np.save(folder / "final_observations.npy", np.stack(final_observations))
    return dims


def _describe(folder: Path, observation_dim: int, action_dim: int) -> dict[str, Any]:
    """The manifest of the arrays in `folder`: sizes, hashes, normalisation and summary statistics."""
    table = np.load(folder / "steps.npy", mmap_mode="r")
    offsets = np.load(folder / "offsets.npy")
    columns = _column_layout(observation_dim, action_dim)
    files = {file.name: {"bytes": file.stat().st_size, "sha256": sha256_of(file)} for file in folder.glob("*.npy")}
    mean, std = _moments(table[:, columns["observation"]])
    returns = np.add.reduceat(table[:, columns["reward"].start].astype(np.float64), offsets[:-1])
    return {
        "format": FORMAT,
        "observation_dim": observation_dim,
        "action_dim": action_dim,
        "observation_mean": mean.tolist(),
        "observation_std": std.tolist(),
        "statistics": summarise(
            returns,
            np.diff(offsets),
            np.load(folder / "terminated.npy"),
            np.load(folder / "truncated.npy"),
        ),
        "files": files,
        # Of what is trained on.
        "fingerprint": sha256_of_json({name: file for name, file in files.items() if name != REWARDS}),
    }


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation over the rows of (N, D), in float64, a chunk at a time."""
    chunks = range(0, len(values), CHUNK)
    mean = sum(values[i : i + CHUNK].sum(0, dtype=np.float64) for i in chunks) / len(values)
    squares = sum(((values[i : i + CHUNK] - mean) ** 2).sum(0) for i in chunks)
    return np.asarray(mean), np.sqrt(squares / len(values))


def summarise(
    returns: np.ndarray, lengths: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
) -> dict[str, float | int]:
    """What a dataset holds, from its episodes' returns (undiscounted), lengths (steps) and ends."""
    p10, p50, p90 = np.percentile(returns, [10, 50, 90])
    return {
        "steps": int(lengths.sum()),
        "episodes": len(returns),
        "terminated": int(terminated.sum()),
        "truncated": int(truncated.sum()),
        "return_mean": float(returns.mean()),
        "return_sd": float(returns.std()),
        "return_min": float(returns.min()),
        "return_p10": float(p10),
        "return_p50": float(p50),
        "return_p90": float(p90),
        "return_max": float(returns.max()),
        "length_mean": float(lengths.mean()),
        "length_sd": float(lengths.std()),
    }

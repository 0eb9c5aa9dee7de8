"""EpisodeStore: the episodes of a dataset end to end in one flat, memory-mapped table."""

import contextlib
import copy
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.data.cache import cache_root, sha256_of, sha256_of_json
from decision_rnn.data.writing import FINAL, RETURNS, REWARDS, TABLE, column_layout, moments, write_arrays
from decision_rnn.environments.episode import Episode, Missing, checked_episodes
from decision_rnn.environments.layouts import Layout
from decision_rnn.environments.spaces import (
    SPACE_KEYS,
    OptionalSpaces,
    bounded_spaces,
    described_spaces,
    layouts_of,
    read_spaces,
)
from decision_rnn.utils.errors import InputError, reading
from decision_rnn.utils.files import locked, new_directory, remove_directory
from decision_rnn.utils.messages import pluralize, warn

FORMAT = 4  # version of the files below; incremented when their layout or meaning changes
MANIFEST = "manifest.json"


class EpisodeStore:
    """The episodes of a dataset, end to end in one packed float32 table (steps, columns).

    A row of the table is one step; `columns` maps its parts to slices of columns: return_to_go (1: undiscounted sum of
    the rewards from this step to the episode's end), observation (O), previous_action (A: zeros at an episode's first
    step), action (A), reward (1), timestep (1: steps since the episode's start), reset (1: 1.0 at an episode's first
    step).

    `len(store)` is the number of episodes, `store[i]` the i-th `Episode`, and iteration yields all of them, with the
    original rewards, float64: a store written from them has identical arrays. An open store keeps its episodes when
    its dataset is replaced or removed.

    Attributes:
        name: The name of the dataset that the store holds in full; None if it was opened in another way.
        environment_id: The Gymnasium id of the environment; None if there is none, such as for a robot.
        source: Where the episodes come from, as plain JSON.
        fingerprint: SHA-256 of the training data.
        observation_space: The space of an observation.
        action_space: The space of an action; every entry of a box has finite bounds.
        stated_spaces: The two spaces, None for one that the writer did not know.
        observation_mean: (O,) float64; `observation_std` likewise.
        table: (steps, columns) float32, mapped copy-on-write: it takes no memory, and the file is never changed. A copy
            for a store made by `select`.
        offsets: (episodes + 1,) int64, the first rows of the episodes and the table's end.
        terminated: (episodes,) bool; `truncated` likewise. An episode with neither is partial.
        final_observations: (episodes, O) float32, the observations after the last actions.
        episode_returns: (episodes,) float64, undiscounted.
        file: The table on disk, in which the episodes begin at `first_rows` (episodes,) int64; these are `table` and
            `offsets[:-1]`, except for a store made by `select`.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        """Map the files of a store; callers use `open` or `write`."""
        self.path, self.manifest = path, manifest
        self.name: str | None = None
        self.environment_id: str | None = manifest["environment_id"]
        self.source: dict[str, Any] = manifest["source"]
        self.fingerprint: str = manifest["fingerprint"]
        self.observation_dim: int = manifest["observation_dim"]
        self.action_dim: int = manifest["action_dim"]
        self.columns = column_layout(self.observation_dim, self.action_dim)
        self.observation_space, self.action_space = read_spaces(manifest["spaces"])
        self.stated_spaces = tuple(
            space if kind in manifest["stated_spaces"] else None
            for kind, space in zip(SPACE_KEYS, (self.observation_space, self.action_space), strict=True)
        )
        self.observation_mean = np.array(manifest["observation_mean"], np.float64)
        self.observation_std = np.array(manifest["observation_std"], np.float64)
        self.file: np.memmap = np.load(path / TABLE, mmap_mode="c")
        self._inode = (path / TABLE).stat().st_ino
        self.offsets: np.ndarray = np.load(path / "offsets.npy")
        self.first_rows = self.offsets[:-1]
        self.terminated: np.ndarray = np.load(path / "terminated.npy")
        self.truncated: np.ndarray = np.load(path / "truncated.npy")
        self.final_observations: np.ndarray = np.load(path / FINAL, mmap_mode="r")
        self.episode_returns: np.ndarray = np.load(path / RETURNS)
        self._rewards: np.ndarray = np.load(path / REWARDS, mmap_mode="r")

    def __repr__(self) -> str:
        return f"EpisodeStore({str(self.path)!r}, {pluralize(len(self), 'episode')}, {pluralize(self.steps, 'step')})"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Episode:
        index = range(len(self))[index]
        first, length = int(self.first_rows[index]), int(self.offsets[index + 1] - self.offsets[index])
        rows = slice(first, first + length)
        steps = np.asarray(self.file[rows])
        observations, actions = steps[:, self.columns["observation"]], steps[:, self.columns["action"]]
        observations = np.concatenate([observations, self.final_observations[index : index + 1]])
        ends = bool(self.terminated[index]), bool(self.truncated[index])
        return Episode(observations, actions, self._rewards[rows], *ends)

    def __iter__(self) -> Iterator[Episode]:
        return map(self.__getitem__, range(len(self)))

    @property
    def num_episodes(self) -> int:
        return len(self)

    @property
    def steps(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def table(self) -> np.ndarray:
        if len(self.file) == self.steps and np.array_equal(self.first_rows, self.offsets[:-1]):
            return self.file
        return self.file[self.file_rows]

    @cached_property
    def file_rows(self) -> np.ndarray:
        """(steps,) int64, the rows of `file` that hold the steps."""
        return np.repeat(self.first_rows - self.offsets[:-1], self.episode_lengths) + np.arange(self.steps)

    def map_file(self) -> np.memmap:
        """A new map of `file`; InputError if the dataset has been replaced or removed since it was opened."""
        path = self.path / TABLE
        if not path.exists() or path.stat().st_ino != self._inode:
            raise InputError(f"{self.path} has been replaced or removed. Open the dataset again.")
        mapped: np.memmap = np.load(path, mmap_mode="c")
        return mapped

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

    @property
    def equal_returns(self) -> bool:
        """Whether all episodes have the same return, up to rounding."""
        return bool(np.ptp(self.episode_returns) <= 1e-6 * np.abs(self.episode_returns).max())

    @cached_property
    def statistics(self) -> dict[str, float]:
        """Mean, standard deviation and extremes of the episodes' returns, and of their lengths."""
        values: dict[str, Any] = {}
        for name, numbers in (("return", self.episode_returns), ("length", self.episode_lengths)):
            values |= {f"{name}_mean": numbers.mean(), f"{name}_sd": numbers.std()}
            values |= {f"{name}_min": numbers.min(), f"{name}_max": numbers.max()}
        return {name: float(value) for name, value in values.items()}

    def entry_names(self, kind: str) -> list[str]:
        """The names of the entries of `observations` or `actions`, which a log has; empty if there are none."""
        names: list[str] = self.source.get("columns", {}).get(kind, [])
        return names if len(names) == self.layout(kind).size else []  # the choices of one column are many entries

    @property
    def action_names(self) -> list[str]:
        """The names of the numbers of an action, such as of each choice; empty if there are none."""
        names: list[str] = self.source.get("columns", {}).get("actions", [])
        return names if len(names) == (len(self.layout("actions").parts[0].choices) or self.action_dim) else []

    def space(self, kind: str) -> gymnasium.Space[Any]:
        """The space of the `observations` or `actions`."""
        return self.observation_space if kind == "observations" else self.action_space

    def layout(self, kind: str) -> Layout:
        """The layout of the rows of `observations` or `actions`."""
        return Layout.of_space(self.space(kind), kind)

    def labels(self, kind: str) -> list[str]:
        """The names of the entries of `observations` or `actions`, also those by their space, such as `move 3` for a
        choice; empty if it is flat."""
        layout = self.layout(kind)
        if kind == "actions" and (part := layout.parts[0]).choices:
            choices = zip(self.action_names, part.start, part.choices, strict=False)  # none without names
            return [f"{name} {choice}" for name, start, count in choices for choice in range(start, start + count)]
        return self.entry_names(kind) or layout.names

    def check_entries(
        self, owner: str, sizes: tuple[int, int], observations: Sequence[str], actions: Sequence[str]
    ) -> None:
        """InputError if observations and actions have other sizes than those of `owner`, or their entries other names,
        or another order; unnamed ones have any."""
        if sizes != (own_sizes := (self.observation_dim, self.action_dim)):
            raise InputError(
                f"the observations and actions of {self.name or self.path} have the sizes {own_sizes}, expected "
                f"{sizes}, those of {owner}. Name data of the same task."
            )
        names = {"observations": (self.labels("observations"), observations), "actions": (self.action_names, actions)}
        for kind, (own, expected) in names.items():
            if own and expected and own != list(expected):
                raise InputError(
                    f"the {kind} of {self.name or self.path} are {', '.join(own):.300}; expected, in this order, "
                    f"those of {owner}: {', '.join(expected):.300}. Import or write it so."
                )

    def select(self, episodes: Any) -> "EpisodeStore":
        """Some of the episodes, with the spaces of the whole store; nothing is written or copied.

        Args:
            episodes: A mask (episodes,) bool, the indices of the episodes, or a slice.

        Raises:
            InputError: If there are none.
        """
        indices = np.arange(len(self))[episodes]
        if not len(indices):
            raise InputError(f"none of the {pluralize(len(self), 'episode')} of {self.path} is selected.")
        selection = copy.copy(self)
        for name in ("table", "file_rows", "statistics"):
            selection.__dict__.pop(name, None)
        selection.name = None
        selection.offsets = np.concatenate([[0], np.cumsum(self.episode_lengths[indices])])
        for name in ("first_rows", "terminated", "truncated", "final_observations", "episode_returns"):
            setattr(selection, name, getattr(self, name)[indices])
        selection.source = {**self.source, "notes": list(self.source.get("notes", []))}
        selection.fingerprint = sha256_of_json([self.fingerprint, indices.tolist()])
        observations = self.file[:, self.columns["observation"]]
        selection.observation_mean, selection.observation_std = moments(
            observations, selection.offsets, selection.file_rows
        )
        return selection

    def action_changes(self) -> np.ndarray:
        """(2, A) float64: the smallest and the largest change of actions from one step to the next, 0 included."""
        changes = self.actions - self.table[:, self.columns["previous_action"]].astype(np.float64)
        changes[self.offsets[:-1]] = 0.0
        return np.stack([changes.min(axis=0), changes.max(axis=0)])

    def returns_to_go(self) -> np.ndarray:
        """(steps,) float32, the undiscounted sum of the rewards from each step to the episode's end."""
        return self.file[self.file_rows, self.columns["return_to_go"].start]

    @classmethod
    def open(cls, path: Path) -> "EpisodeStore":
        """Open the store in `path` after checking the sizes of its files.

        Raises InputError, naming the file or folder, if anything is missing, truncated or of another format.
        """
        with reading(path / MANIFEST, "that of an episode store"):  # nothing is unpickled
            manifest = json.loads((path / MANIFEST).read_bytes())
            files = {path / name: file["bytes"] for name, file in manifest["files"].items()}
            damaged = [file for file, size in files.items() if not file.is_file() or file.stat().st_size != size]
            if manifest["format"] != FORMAT or damaged:
                raise InputError(f"{[*damaged, path / MANIFEST][0]} is missing, damaged or not of format {FORMAT}.")
            return cls(path, manifest)

    def verify(self) -> None:
        """Hash every file of the store; InputError naming one that has changed since it was written."""
        for name, file in self.manifest["files"].items():
            if sha256_of(self.path / name) != file["sha256"]:
                raise InputError(f"{self.path / name} is corrupt: its SHA-256 is not that of the manifest.")

    @classmethod
    def write(
        cls,
        path: Path,
        episodes: Iterable[Any],
        *,
        environment_id: str | None,
        source: dict[str, Any],
        spaces: OptionalSpaces = (None, None),
        label: str | None = None,
        missing: Missing = "error",
    ) -> "EpisodeStore":
        """Write `episodes`, one at a time, as a store in the new folder `path`, and open it.

        `path` is created atomically; an existing one is kept.

        Args:
            path: The folder.
            episodes: The episodes, all from one environment: `Episode`, or objects with the same attributes.
            environment_id: Its Gymnasium id; None if it has none, such as a robot.
            source: Where the episodes come from, as plain JSON, kept in the manifest.
            spaces: Of an observation and an action; None for vectors, with the range of the data as bounds of actions.
            label: What the episodes are called in messages; by default, the folder.
            missing: What is done with episodes in which a number is missing; the `notes` of the source, if any, say so.

        Raises:
            InputError: If there are no episodes, or, naming the episode, if one is empty, not finite or not of the
                spaces.
        """
        label = label or f"{path} ({environment_id or 'no environment'})"
        layouts = layouts_of(spaces, label)
        with new_directory(path) as folder:
            sizes = write_arrays(folder, checked_episodes(episodes, label, layouts, missing, source.get("notes")))
            table, columns = np.load(folder / TABLE, mmap_mode="r"), column_layout(*sizes)
            observations, actions = table[:, columns["observation"]], table[:, columns["action"]]
            action_range = np.array([actions.min(0), actions.max(0)], np.float64)
            mean, std = moments(observations, np.load(folder / "offsets.npy"))
            files = {f.name: {"bytes": f.stat().st_size, "sha256": sha256_of(f)} for f in folder.glob("*.npy")}
            manifest = {
                "format": FORMAT,
                "environment_id": environment_id,
                "source": source,
                "spaces": described_spaces(*bounded_spaces(spaces, sizes[0], *action_range)),
                "stated_spaces": [kind for kind, space in zip(SPACE_KEYS, spaces, strict=True) if space is not None],
                "observation_dim": sizes[0],
                "action_dim": sizes[1],
                "observation_mean": mean.tolist(),
                "observation_std": std.tolist(),
                "files": files,
                # Of the training data: rewards and returns follow from them, except for their last bits.
                "fingerprint": sha256_of_json({n: f for n, f in files.items() if n not in (REWARDS, RETURNS)}),
            }
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
        return cls.open(path)


def top_episodes(store: EpisodeStore, fraction: float) -> EpisodeStore:
    """The given fraction (above 0) of a store's episodes with the highest undiscounted returns, in their order; for 1,
    `store` itself. Their number is rounded down, but at least one; of equal returns, earlier episodes are preferred.

    Behaviour cloning on it is filtered behaviour cloning: %BC of Chen et al., "Decision Transformer" (2021), section
    5.1, which takes a fraction of the steps, and `any_percent_bc.py` of CORL, which ranks by discounted return.
    Observations are normalised with the statistics of the selected episodes.
    """
    if fraction == 1:
        return store
    # Exact decimal arithmetic: 0.29 * 100 is less than 29 in floating point.
    count = max(1, int(Fraction(repr(float(fraction))) * len(store)))
    mask = np.zeros(len(store), bool)
    mask[np.argsort(-store.episode_returns, kind="stable")[:count]] = True
    return store.select(mask)


def complete_episodes(store: EpisodeStore) -> EpisodeStore:
    """The episodes that terminated or were truncated; if all did, `store` itself. InputError if none did."""
    complete = store.terminated | store.truncated
    if complete.all():
        return store
    steps = store.episode_lengths[~complete].sum()
    partial = f"{(~complete).sum():,} of {pluralize(len(store), 'episode')} ({pluralize(steps, 'step')})"
    selection = store.select(complete)
    selection.source["notes"].append(f"{partial} were partial and are dropped")
    return selection


def store_folder(name: str) -> Path:
    """The folder of the converted store of the dataset `name`, of the current format."""
    return cache_root() / f"stores-{FORMAT}" / name


def open_or_make(
    name: str, is_current: Callable[[dict[str, Any]], bool], make: Callable[[Path], EpisodeStore]
) -> EpisodeStore:
    """The converted store of `name`. If several processes need it at once, one makes it and the others wait.

    Args:
        name: The name of the dataset.
        is_current: Whether a store whose manifest has this `source` need not be made again.
        make: Makes the store in the given folder; called if there is no store, or no valid one.
    """
    path = store_folder(name)
    if (store := _current(path, is_current)) is not None:
        return store
    with locked(cache_root() / "locks" / name):
        store = _current(path, is_current, warn)  # another process may have made it by now
        if store is None:
            remove_directory(path)
            store = make(path)
        return store


def _current(
    path: Path, is_current: Callable[[dict[str, Any]], bool], log: Callable[[str], object] = str
) -> EpisodeStore | None:
    """The store in `path` if it is there, whole and current; otherwise `log` is called with why it is made again.

    Raises InputError if it cannot be opened for now, such as for lack of permission.
    """
    if path.exists():
        try:
            store = EpisodeStore.open(path)
            with contextlib.suppress(KeyError, TypeError, AttributeError):  # it does not say what it was made from
                if is_current(store.source):
                    return store
            log(f"{path} was made from something else, or by another recipe; making it again")
        except InputError as error:
            cause = error.__context__
            if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
                raise  # it may be whole: such as too many open files, or no permission
            log(f"{error}; making it again")
    return None

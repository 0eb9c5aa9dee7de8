"""Datasets by name. The part before the first "/" is the source; a name never falls back to another source."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from decision_rnn.data.selection import complete_episodes
from decision_rnn.data.sources import SOURCES, Source
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import MANIFEST, EpisodeStore
from decision_rnn.utils.errors import InputError

DEFAULT_SOURCE = "standin"
PARTIAL_HELP = "keep or drop episodes that break off, neither terminated nor truncated"


@dataclass(frozen=True)
class Dataset:
    """A dataset, as returned by `open_dataset`; nothing is read before you access `spec` or call `open`.

    Attributes:
        name: The full name, including the source.
        source: The source that it comes from.
        path: The file to read, for D4RL's and OGBench's datasets.
        partial: Whether partial episodes, neither terminated nor truncated, are kept; with `drop` the store is a
            `Selection`, with its own fingerprint.
    """

    name: str
    source: Source
    path: Path | None = None
    partial: Literal["keep", "drop"] = "keep"

    @property
    def spec(self) -> DatasetSpec:
        """Its evaluation environment, references and target returns; raises InputError if there is no such dataset.

        Once the store exists, the spec also reflects its contents: access it again after `open`.
        """
        return self.source.spec(self.name)

    @property
    def ready(self) -> bool:
        """Whether its store, with all episodes, exists; it is not verified here."""
        return (self.source.folder(self.name) / MANIFEST).is_file()

    def open(self, progress: bool = True) -> EpisodeStore:
        """Its episodes, made or converted on first use and reopened afterwards.

        A converted store is valid for what it was made from: a recipe, or files with a size and SHA-256. If that has
        changed or the store is corrupt, it is made again, with a line on stderr. Raises InputError if the source is
        unavailable or invalid.

        Args:
            progress: Show progress bars on stderr if that is a terminal.
        """
        store = self.source.open(self.name, progress, self.path)
        store.name = self.name
        return store if self.partial == "keep" else complete_episodes(self.name, store)

    def download(self, progress: bool = True) -> list[Path]:
        """Download its source files if they are missing; returns their paths."""
        return self.source.download(self.name, progress)


def names() -> list[str]:
    """The names of known datasets, by source; a Minari dataset may not be downloaded yet."""
    return [name for source in SOURCES.values() for name in source.names()]


def open_dataset(name: str, path: Path | str | None = None, partial: Literal["keep", "drop"] = "keep") -> Dataset:
    """The dataset called `name`; a name without a source means the stand-in ("hopper-medium").

    Nothing is read or made yet: `Dataset.spec` and `Dataset.open` do that, and raise an error for a name that is
    unknown to its source.

    Args:
        name: The name of the dataset: `hopper-medium`, `d4rl/hopper-medium-v2`, `minari/mujoco/hopper/medium-v0`,
            `local/mine`.
        path: The file to read, for D4RL's and OGBench's datasets.
        partial: Whether partial episodes are kept or dropped.

    Returns:
        The dataset, for `train`. `.spec` describes how agents are evaluated and scored; `.open()` makes or converts the
        data on first use and returns the episodes, an `EpisodeStore`: `.observations` (steps, O), `.actions` (steps,
        A), `.rewards` (steps,), `.episode_returns` and `.episode_lengths` (episodes,).

    Raises:
        InputError: If there is no such source, the message lists the known names; or if `partial` is neither value.

    Example:
        >>> dataset = decision_rnn.open_dataset("local/swing")
        >>> dataset.spec.environment_id
        'MountainCarContinuous-v0'
        >>> store = dataset.open()
        >>> store.episodes, store.observations.shape[1], store.actions.shape[1]
        (4, 2, 1)
    """
    if partial not in ("keep", "drop"):
        raise InputError(f"partial is {partial!r:.100}: it must be keep or drop")
    full = name if "/" in name else f"{DEFAULT_SOURCE}/{name}"
    source = SOURCES.get(full.partition("/")[0])
    if source is None:
        default = SOURCES[DEFAULT_SOURCE]
        known = ", ".join([*default.names(), *(s.pattern for s in SOURCES.values() if s is not default)])
        raise InputError(
            f"unknown dataset {name!r}: known are {known}; `decision-rnn data list` lists them, and --plugins MODULE "
            "adds the sources of a module of your own"
        )
    return Dataset(full, source, Path(path) if path else None, partial)

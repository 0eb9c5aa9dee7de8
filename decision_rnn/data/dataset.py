"""A named dataset: described by its spec, opened when its episodes are needed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from decision_rnn.data.sources.contract import Source
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store.episode_store import MANIFEST, EpisodeStore
from decision_rnn.data.store.selection import complete_episodes


@dataclass(frozen=True)
class Dataset:
    """A dataset, as returned by `open_dataset`; nothing is read before you access `spec` or call `open`.

    Attributes:
        name: The full name, including the source.
        source: The source that it comes from.
        path: The file to read, for D4RL datasets.
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

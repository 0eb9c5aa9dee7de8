"""A dataset that has been named: known by its spec, opened when its episodes are needed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from decision_rnn.data.sources.contract import Source
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store.complete import complete_episodes
from decision_rnn.data.store.episode_store import MANIFEST, EpisodeStore


@dataclass(frozen=True)
class Dataset:
    """What `catalog.open_dataset` finds under a name; nothing is read before `spec` or `open` ask for it.

    Attributes:
        name: The full name, its source included.
        source: Where it comes from.
        path: The file to read, for the datasets of D4RL.
        partial: What becomes of partial episodes, which neither terminated nor were truncated: with `drop` the store
            is another one, with a fingerprint of its own.
    """

    name: str
    source: Source
    path: Path | None = None
    partial: Literal["keep", "drop"] = "keep"

    @property
    def spec(self) -> DatasetSpec:
        """Where it is evaluated and how it is scored; InputError where there is no such dataset.

        Once the store is there the spec also tells what its contents change of that: ask again after `open`.
        """
        return self.source.spec(self.name)

    @property
    def ready(self) -> bool:
        """Whether its store, with all episodes, has been made; it is not verified here."""
        return (self.source.folder(self.name) / MANIFEST).is_file()

    def open(self, progress: bool = True) -> EpisodeStore:
        """Its episodes, made or converted on first use and opened ever after.

        A store is keyed by the dataset's name and by what it was made from: a recipe, or files of a size and SHA-256.
        One that is corrupt, or was made from something else, is never used: it is made again, with a line on stderr.
        Raises InputError for a source that cannot be had or used.

        Args:
            progress: Show bars on stderr where that is a terminal.
        """
        store = self.source.open(self.name, progress, self.path)
        return store if self.partial == "keep" else complete_episodes(self.name, store)

    def download(self, progress: bool = True) -> list[Path]:
        """Fetch what it is made from, where that is not here; returns where it lies."""
        return self.source.download(self.name, progress)

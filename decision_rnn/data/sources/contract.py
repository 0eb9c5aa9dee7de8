"""The interface of a source of datasets, and the registry of sources."""

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TypeVar

from decision_rnn.data.cache import store_folder
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError


class Source(ABC):
    """A source of datasets: their names, the spec of each, and how its store is made.

    A dataset is named `PREFIX/...`; the methods take the full name. Sources are independent of each other.

    Attributes:
        prefix: The part before the first "/" in the names of its datasets.
        pattern: The form of its datasets' names, for messages: "toy/NUMBER".
    """

    prefix: str
    pattern: str

    @abstractmethod
    def names(self) -> list[str]:
        """The datasets that it can list, in order; it may be able to open others."""

    @abstractmethod
    def spec(self, name: str) -> DatasetSpec:
        """The dataset's evaluation environment and references; raises InputError if there is no such dataset.

        Download nothing, and do not make the store for what can be known without it. If the store exists and its
        contents are not what the name implies (a file that is not the published one), the spec says so.
        """

    @abstractmethod
    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        """Its episodes, made on first use (`open_or_make`); raises InputError if they are not available.

        Args:
            name: The name of the dataset.
            progress: Show progress bars on stderr if that is a terminal.
            path: The file given by `--path`, or None. A source that reads no file raises InputError for one.
        """

    def download(self, name: str, progress: bool) -> list[Path]:
        """Download a store's source files if they are missing; returns their paths. By default raises InputError."""
        raise InputError(
            f"{self.spec(name).name} is not downloaded, there is nothing to fetch: use `decision-rnn data make`"
        )

    def folder(self, name: str) -> Path:
        """The folder of the store, which may not exist yet; by default in the cache of what can be regenerated."""
        return store_folder(name)


SOURCES: dict[str, Source] = {}
"""All registered sources, by prefix."""

SourceClass = TypeVar("SourceClass", bound=type[Source])


def register_source(source: SourceClass) -> SourceClass:
    """Class decorator: register a source, so that its datasets are known by name. The class is instantiated once,
    without arguments.

    Raises:
        ValueError: If its prefix is not a word or is taken; the message lists the registered ones.
        TypeError: If it lacks a method of `Source`.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", source.prefix) or source.prefix in SOURCES:
        raise ValueError(
            f"source {source.__name__} has the prefix {source.prefix!r}: it must be a lower-case word that is not "
            f"taken; registered are {', '.join(SOURCES)}"
        )
    SOURCES[source.prefix] = source()
    return source

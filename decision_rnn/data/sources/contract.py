"""What a source of datasets is, and the registry that they are found in."""

import re
from abc import abstractmethod
from pathlib import Path
from typing import Protocol, TypeVar

from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store.cache import BEST, DERIVED, store_folder
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError


class Source(Protocol):
    """Where datasets come from: it knows their names, what is known of each, and how its store is made.

    A dataset is called `PREFIX/...`; the methods are given the whole name. Sources know nothing of each other.

    Attributes:
        prefix: What stands before the first "/" in the names of its datasets.
        pattern: What its datasets are called, for people: "toy/NUMBER".
    """

    prefix: str
    pattern: str

    @abstractmethod
    def names(self) -> list[str]:
        """The datasets that it can name, in order; there may be others that it can open."""
        ...

    @abstractmethod
    def spec(self, name: str) -> DatasetSpec:
        """Where the dataset is evaluated and how it is scored; InputError where there is no such dataset.

        What can be known without making the store is known without making it; where the store is there, and its
        contents change what holds for the name (a file that is not the published one), the spec says so.
        """
        ...

    @abstractmethod
    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        """Its episodes, made on first use (`open_or_make`); InputError where they cannot be had.

        Args:
            name: Of the dataset.
            progress: Show bars on stderr where that is a terminal.
            path: The file that the user named by `--path`; None where they named none. A source that reads no file
                refuses one.
        """
        ...

    def download(self, name: str, progress: bool) -> list[Path]:
        """Fetch what a store is made from, where it is not here; returns where it lies. By default an InputError."""
        raise InputError(f"{name} is not downloaded: there is nothing to fetch")

    def folder(self, name: str) -> Path:
        """Where the store lies, or will once it is made; by default in the cache of what can be made again."""
        return store_folder(name)


SOURCES: dict[str, Source] = {}
"""All that are registered, by prefix."""

SourceClass = TypeVar("SourceClass", bound=type[Source])


def register_source(source: SourceClass) -> SourceClass:
    """Class decorator: make the datasets of a source known by their names. The class is made without arguments, once.

    Raises:
        ValueError: If the class lacks a member of `Source`, or its prefix is no word or taken; the message lists those
            that are registered.
    """
    lacking = [m for m in ("prefix", "pattern", "download", "folder") if not hasattr(source, m)]
    lacking += sorted(getattr(source, "__abstractmethods__", ()))
    lacking += [m for m in ("names", "spec", "open") if not hasattr(source, m)]
    if lacking:
        raise ValueError(f"source {source.__name__} has no {', '.join(lacking)}: derive it from Source and add them")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", source.prefix):
        raise ValueError(f"source {source.__name__} has the prefix {source.prefix!r}: it must be a lower-case word")
    if source.prefix in SOURCES or source.prefix in (DERIVED, BEST):
        raise ValueError(
            f"source {source.__name__} has the prefix {source.prefix!r}, which is taken: "
            f"registered are {', '.join(SOURCES)}"
        )
    SOURCES[source.prefix] = source()
    return source

"""The interface of a source of datasets, and the registry of sources."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, store_folder
from decision_rnn.utils.errors import InputError, did_you_mean
from decision_rnn.utils.registry import Registry

PUBLISHED = "published"
"""The value of a path that means the file that the dataset's authors published."""


class Source(ABC):
    """A source of datasets: their names, how the store of each is made, and its spec.

    A dataset is named `PREFIX/...`; the methods take the full name. Sources are independent of each other.

    Attributes:
        prefix: The part before the first "/" in the names of its datasets.
        pattern: The form of its datasets' names, for messages: "toy/NUMBER".
        reads_files: Whether users may name the file of a dataset by `--path`.
    """

    prefix: str
    pattern: str
    reads_files: bool = False

    @abstractmethod
    def names(self) -> list[str]:
        """The datasets that it can list, in order; it may be able to open others."""

    @abstractmethod
    def open(self, name: str, path: Path | None) -> EpisodeStore:
        """Its episodes, made on first use (`open_or_make`); raises InputError if they are not available.

        Args:
            name: The name of the dataset, which `check` accepts.
            path: The file given by `--path`, or None, as for every source that does not set `reads_files`.
        """

    def check(self, name: str) -> None:
        """Raise InputError if there is no dataset of that name; nothing is made. By default, if it is not listed."""
        known = self.names()
        if name not in known:
            raise InputError(
                f"unknown dataset {name!r:.200}: {did_you_mean(name, known)}expected {self.pattern}. Known are "
                f"{', '.join(known) or 'none'}."
            )

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        """The dataset's evaluation environment and references, given its store; by default as its contents say, or the
        source of the dataset that it is a part of (`Dataset.select`)."""
        whole = str(store.source.get("origin", ""))
        source = SOURCES.get(whole.partition("/")[0], self)
        if source is self:
            return spec_of_store(name, store)
        spec = source.spec(whole, store)
        return replace(spec, name=name, comparable=f"the data are a part of {whole}; for the whole, {spec.comparable}")

    def folder(self, name: str) -> Path:
        """The folder of the store, which may not exist yet; by default in the cache of what can be made again."""
        return store_folder(name)


SOURCES: Registry[Source] = Registry("source")
"""All registered sources, by prefix."""

SourceClass = TypeVar("SourceClass", bound=type[Source])


def register_source(source: SourceClass) -> SourceClass:
    """Class decorator: register a source, so that its datasets are known by name. The class is instantiated once,
    without arguments.

    Raises:
        ValueError: If another class has its prefix.
        TypeError: If it lacks a method of `Source`.
    """
    SOURCES.add(source.prefix, source(), source)
    return source


def file_places(file_name: str, folder: str) -> list[Path]:
    """Where a published file may be: in `$DECISION_RNN_DATA`, or in `folder`."""
    folders = (os.environ.get("DECISION_RNN_DATA"), folder)
    return [Path(each).expanduser() / file_name for each in folders if each]


def find_file(name: str, path: Path | None, places: Sequence[Path], download: Callable[[], Path]) -> Path | None:
    """The file `path`, or without one the first of `places` that exists; InputError if `path` does not exist. The path
    `published` means the first of `places` that exists, or else the file that `download` returns."""
    if path is None or path.name == PUBLISHED:
        return next(filter(Path.is_file, places), None) or (download() if path else None)
    file = Path(os.path.expanduser(path))
    if not os.path.isfile(file):  # unlike Path.is_file, it accepts any string
        raise InputError(f"{file}, given for {name}, is not a file.")
    return file

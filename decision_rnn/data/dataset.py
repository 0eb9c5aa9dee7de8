"""Datasets by name. The part before the first "/" is the source; a name never falls back to another source."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import minari
import numpy as np
from gymnasium.spaces import Box

from decision_rnn.data.sources import SOURCES, Source
from decision_rnn.data.sources.d4rl import write_d4rl
from decision_rnn.data.sources.local import cache_episodes, check_new, write_stores
from decision_rnn.data.sources.minari import check_dataset_id, dataset_folder, write_minari
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import MANIFEST, EpisodeStore, complete_episodes
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.registry import registered, settings_of
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.files import check_folder
from decision_rnn.utils.messages import pluralize

DEFAULT_SOURCE = "standin"

Partial = Literal["keep", "drop"]
Format = Literal["minari", "d4rl"]


@dataclass(frozen=True)
class Dataset:
    """A dataset that was opened by `open_dataset`.

    `len(dataset)` is the number of episodes, `dataset[7]` an `Episode` with its arrays, iteration yields all episodes,
    and `dataset.select(mask)` is the dataset of some of them.

    Attributes:
        name: The full name, including the source.
        store: Its episodes.
        spec: Its evaluation environment, references, target returns and contents.
        path, partial: As given to `open_dataset`.
    """

    name: str
    store: EpisodeStore
    spec: DatasetSpec
    path: Path | None = None
    partial: Partial = "keep"

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {self.store!r})"

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, index: int) -> Episode:
        return self.store[index]

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.store)

    def select(self, episodes: Any) -> "Dataset":
        """The dataset of some of the episodes, for `train`; nothing is written or copied.

        Args:
            episodes: A mask (episodes,) bool, such as `dataset.store.episode_lengths > 50`, the indices of the
                episodes, or a slice.

        Raises:
            InputError: If there are none.
        """
        store = self.store.select(episodes)
        store.source.setdefault("origin", self.name)  # whose source says how agents are scored
        return Dataset(self.name, store, _source(self.name).spec(self.name, store))


def open_dataset(name: str, path: Path | str | None = None, partial: Partial = "keep") -> Dataset:
    """Open the dataset called `name`; it is made, converted or downloaded on first use.

    A converted store is valid for what it was made from: a recipe, or files with a size and SHA-256. If that has
    changed or the store is damaged, it is made again, with a line on stderr.

    Args:
        name: The name of the dataset: `hopper-medium`, `d4rl/hopper-medium-v2`, `minari/mujoco/hopper/medium-v0`,
            `local/mine`. A name without a source means the stand-in.
        path: The file to read, for datasets of D4RL, OGBench and OCBench; `published` downloads D4RL's and OGBench's.
        partial: `keep` or `drop` episodes that break off, neither terminated nor truncated.

    Returns:
        The dataset, for `train`, and a sequence of its episodes. `.spec` describes how agents are evaluated and scored;
        `.store` has the arrays of all episodes: `.observations` (steps, O), `.actions` (steps, A), `.rewards` (steps,),
        `.episode_returns` and `.episode_lengths` (episodes,).

    Raises:
        InputError: If there is no such dataset, its source is unavailable or invalid, or no episode is left.

    Example:
        >>> dataset = decision_rnn.open_dataset("local/swing")
        >>> dataset.spec.environment_id
        'MountainCarContinuous-v0'
        >>> len(dataset), dataset[2].observations.shape, dataset[2].actions.shape
        (4, (79, 2), (78, 1))
        >>> store = dataset.store
        >>> best = dataset.select(store.episode_returns > np.median(store.episode_returns))
        >>> len(best), sum(len(episode.actions) for episode in best)
        (2, 156)
    """
    name = check_name(name)
    path = None if path is None else Path(path)
    source = _source(name)
    if path is not None and not source.reads_files:
        raise InputError(f"{name} is read from no file: leave out --path {path}.")
    store = source.open(name, path)
    store.name = name
    if partial == "drop":
        store = complete_episodes(store)
    return Dataset(name, store, source.spec(name, store), path, partial)


def check_name(name: str) -> str:
    """The full name of a dataset; raises InputError if there is none. Nothing is opened or made."""
    if os.path.isfile(name):  # unlike Path.is_file, also of names that are too long
        raise InputError(f"{name} is a file: import it, `decision-rnn data import {name} --name local/NAME`.")
    name = full_name(name)
    _source(name).check(name)
    return name


def full_name(name: str) -> str:
    """The name of a dataset with its source, which may not be registered."""
    return name if "/" in name else f"{DEFAULT_SOURCE}/{name}"


def _source(name: str) -> Source:
    prefix = name.partition("/")[0]
    if prefix not in SOURCES:
        patterns = ", ".join(source.pattern for source in SOURCES.values())
        raise InputError(f"unknown dataset {name!r:.200}: expected a name such as {patterns}, or --plugins MODULE.")
    return SOURCES[prefix]


def dataset_names() -> list[str]:
    """The names of known datasets, by source; a Minari dataset may not be downloaded yet."""
    return [name for source in SOURCES.values() for name in source.names()]


def is_ready(name: str) -> bool:
    """Whether the store of a dataset exists; it is not opened."""
    name = full_name(name)
    return (_source(name).folder(name) / MANIFEST).is_file()


def as_dataset(
    data: Any, environment_id: str | None = None, path: Path | str | None = None, partial: Partial = "keep"
) -> Dataset:
    """The dataset given by a name, a `Dataset`, a store or a list of episodes or of dictionaries.

    Episodes in memory are written to the cache as `episodes/HASH`, where HASH depends on their contents: the same
    episodes are the same dataset. Those of a dataset or a store keep its source and spaces.

    Raises:
        InputError: If `environment_id` or `path` does not apply, or the data are a log or an object of Minari.
    """
    if isinstance(data, minari.MinariDataset):
        raise InputError(
            f"a MinariDataset is given by its name, 'minari/{data.spec.dataset_id}'; a part of it by its episodes, "
            "list(part.iterate_episodes()), and an environment_id."
        )
    stated = isinstance(data, str | Dataset | EpisodeStore)
    if (stated and environment_id is not None) or (path is not None and not isinstance(data, str)):
        raise InputError(
            f"environment_id is {environment_id!r:.100} and path {path!r:.100}: a dataset or store states its own "
            "environment, and only the name of a dataset has a path."
        )
    if isinstance(data, Mapping) or hasattr(data, "to_numpy"):  # also tables
        raise InputError(f"a {type(data).__name__} is a log: import it, import_log(data, 'local/NAME', ...).")
    if isinstance(data, str):
        return open_dataset(data, path, partial)
    if isinstance(data, Dataset) and (data.store.name is not None or data.partial == "drop"):
        return data if partial == "keep" else open_dataset(data.name, data.path, partial)
    store = data.store if isinstance(data, Dataset) else data
    if isinstance(store, EpisodeStore):  # also selected from a dataset
        spaces = store.observation_space, store.action_space
        name = store.name or cache_episodes(store, store.environment_id, store.source, spaces)
    else:
        name = cache_episodes(data, environment_id, {})
    return open_dataset(name, None, partial)


def merge_datasets(name: str, datasets: Sequence[str | Dataset]) -> Dataset:
    """Write the episodes of multiple datasets of one environment as a new one; the parts stay.

    Args:
        name: The name of the new dataset: `local/` and a word.
        datasets: The names of the parts, or what `open_dataset`, `write_store` or `record` returned; their episodes
            follow in this order.

    Returns:
        The dataset, as from `open_dataset`.

    Raises:
        InputError: If the parts' environments, columns or spaces differ, or the name is taken or invalid. Nothing is
            written in this case.

    Example:
        >>> more = decision_rnn.record(run, "MountainCarContinuous-v0", "local/more", episodes=1, progress=False)
        >>> decision_rnn.merge_datasets("local/both", ["local/swing", more]).store.num_episodes
        5
    """
    parts = [as_dataset(dataset) for dataset in datasets]
    if not parts:
        raise InputError(f"there are no parts of {name}: expected at least one.")
    stores = [part.store for part in parts]
    for part in parts:
        for trait, expected in _traits(stores[0]).items():
            if None not in (expected, own := _traits(part.store)[trait]) and own != expected:
                raise InputError(f"{part.name} has the {trait} {one_line(own)}, expected {one_line(expected)}.")
    inherited = ("columns", "environment_settings", "requirements")
    source = {key: value for key, value in stores[0].source.items() if key in inherited}
    notes = dict.fromkeys(note for store in stores for note in store.source.get("notes", ()))
    source |= {"notes": list(notes), "merged": {part.name: part.store.fingerprint for part in parts}}
    write_stores(name, stores, source)
    return open_dataset(name)


def _traits(store: EpisodeStore) -> dict[str, Any]:
    """What the episodes of one dataset have in common, by name; None for what a store does not state."""
    settings, known = store.source.get("environment_settings"), registered(store.environment_id)
    observations, actions = store.stated_spaces
    return {
        "environment": store.environment_id or "none",
        "environment settings": settings_of(known) if settings is None and known is not None else settings,
        "columns": store.source.get("columns"),
        "observation space": observations,
        "action space": actions.shape if isinstance(actions, Box) else actions,  # data may bound a Box
    }


def split_dataset(
    dataset: str | Dataset,
    hold_out: float = 0.1,
    seed: int = 0,
    *,
    overwrite: bool = False,
    path: Path | str | None = None,
    partial: Partial = "keep",
) -> tuple[Dataset, Dataset]:
    """Split a dataset by whole episodes, at random, into one to train on and one that is held out.

    The two are the new datasets `local/NAME-train` and `local/NAME-held-out`; for `minari/mujoco/hopper/medium-v0`,
    NAME is `mujoco-hopper-medium-v0`. Both record the split in their notes; the dataset stays.

    Args:
        dataset: The name of a dataset, or what `open_dataset` returned.
        hold_out: The share of the episodes to hold out, more than 0 and less than 1, rounded to whole episodes; at
            least one is held out, and at least one is not.
        seed: The seed of the choice: with the same one, the same episodes of a dataset are held out.
        overwrite: If the new datasets exist, replace them.
        path: As for `open_dataset`.
        partial: As for `open_dataset`.

    Returns:
        The dataset to train on and the held-out one.

    Raises:
        InputError: If the share is out of range, the dataset has a single episode, or a new dataset exists.

    Example:
        >>> training, held_out = decision_rnn.split_dataset("local/swing", hold_out=0.25)
        >>> held_out.name, len(training), len(held_out)
        ('local/swing-held-out', 3, 1)
    """
    whole = as_dataset(dataset, None, path, partial)
    total, word = len(whole), whole.name.partition("/")[2].replace("/", "-")
    if not 0 < hold_out < 1 or total < 2:
        raise InputError(
            f"hold_out {hold_out:g} of {pluralize(total, 'episode')} of {whole.name}: expected a share such as 0.1, "
            "and at least two episodes, as `data import --episode COLUMN` cuts a log."
        )
    names = [f"local/{word}-train", f"local/{word}-held-out"]
    for name in names:
        check_new(name, overwrite)
    order = np.random.default_rng(seed).permutation(total)
    count = min(max(1, round(hold_out * total)), total - 1)
    split = {"dataset": whole.name, "fingerprint": whole.store.fingerprint, "hold_out": hold_out, "seed": seed}
    for name, indices in zip(names, (np.sort(order[count:]), np.sort(order[:count])), strict=True):
        part = whole.select(indices).store
        share = f"{len(part):,} of {pluralize(total, 'episode')} of {whole.name}"
        part.source["notes"].append(f"{share}, split with hold_out {hold_out:g} and seed {seed}")
        write_stores(name, [part], part.source | {"split": split | {"episodes": indices.tolist()}}, overwrite)
    return open_dataset(names[0]), open_dataset(names[1])


def export_dataset(
    name: str, format: Format, output: str, path: Path | str | None = None, partial: Partial = "keep"
) -> Path:
    """Write a dataset as a new Minari dataset, or as a new HDF5 file in D4RL's layout.

    Args:
        name: The dataset's name, as for `open_dataset`; so are `path` and `partial`.
        format: The format: `minari` or `d4rl`.
        output: A new Minari id, or a new HDF5 file.

    Returns:
        The new file, or the folder of the Minari dataset.

    Raises:
        InputError: If the output exists, before the dataset is opened, which may take minutes; or if the format cannot
            hold the dataset.
    """
    if format == "minari":
        check_dataset_id(output)
    target = dataset_folder(output) if format == "minari" else Path(output)
    if target.exists():
        raise InputError(f"{target} exists: remove it, or name another --output")
    check_folder(target.parent)
    dataset = open_dataset(name, path, partial)
    if format == "minari":
        write_minari(output, dataset.store, dataset.spec)
    else:
        write_d4rl(target, dataset.store)
    return target

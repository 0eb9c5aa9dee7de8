"""Datasets by name. The part before the first "/" is the source; a name never falls back to another source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import gymnasium
import minari
import numpy as np

from decision_rnn.data.formats import expand_folder, open_log
from decision_rnn.data.logs import Log, LogOptions, Remarks
from decision_rnn.data.sources import SOURCES, Source
from decision_rnn.data.sources.d4rl import write_d4rl
from decision_rnn.data.sources.local import cache_episodes, check_new, merge_stores, write_store
from decision_rnn.data.sources.minari import check_id, dataset_folder, environment_of, write_minari
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import MANIFEST, EpisodeStore, complete_episodes
from decision_rnn.environments.episode import Episode, Missing
from decision_rnn.environments.spaces import OptionalSpaces
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import check_folder
from decision_rnn.utils.messages import bar, quiet, warn
from decision_rnn.utils.parsing import Names, convert

DEFAULT_SOURCE = "standin"
MOST_CHOICES = 100
"""Actions that are whole numbers up to here may number choices."""

Partial = Literal["keep", "drop"]
Format = Literal["minari", "d4rl"]


@dataclass(frozen=True)
class Dataset:
    """A dataset that was opened by `open_dataset`.

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


def open_dataset(name: str, path: Path | str | None = None, partial: Partial = "keep") -> Dataset:
    """Open the dataset called `name`; it is made, converted or downloaded on first use.

    A converted store is valid for what it was made from: a recipe, or files with a size and SHA-256. If that has
    changed or the store is damaged, it is made again, with a line on stderr.

    Args:
        name: The name of the dataset: `hopper-medium`, `d4rl/hopper-medium-v2`, `minari/mujoco/hopper/medium-v0`,
            `local/mine`. A name without a source means the stand-in.
        path: The file to read, for D4RL's and OGBench's datasets; `published` downloads their authors' file.
        partial: `keep` or `drop` episodes that break off, neither terminated nor truncated.

    Returns:
        The dataset, for `train`. `.spec` describes how agents are evaluated and scored; `.store` has the episodes:
        `.observations` (steps, O), `.actions` (steps, A), `.rewards` (steps,), `.episode_returns` and
        `.episode_lengths` (episodes,).

    Raises:
        InputError: If there is no such dataset, its source is unavailable or invalid, or no episode is left.

    Example:
        >>> dataset = decision_rnn.open_dataset("local/swing")
        >>> dataset.spec.environment_id
        'MountainCarContinuous-v0'
        >>> store = dataset.store
        >>> store.num_episodes, store.observations.shape[1], store.actions.shape[1]
        (4, 2, 1)
    """
    name = check_name(name)
    path = None if path is None else Path(path)
    source = _source(name)
    store = source.open(name, path)
    store.name = name
    if partial == "drop":
        store = complete_episodes(store)
    return Dataset(name, store, source.spec(name, store), path, partial)


def check_name(name: str) -> str:
    """The full name of a dataset; raises InputError if there is none. Nothing is opened or made."""
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
    """The dataset given by a name, a `Dataset`, a Minari dataset, a store or a list of episodes.

    Episodes in memory are written to the cache as `episodes/HASH`, where HASH depends on their contents: the same
    episodes are the same dataset. Those of a store or of a part of a Minari dataset keep the settings of their
    environment.

    Raises:
        InputError: If the environment of episodes is not given, or if `environment_id` or `path` does not apply.
    """
    if isinstance(data, minari.MinariDataset) and data.total_episodes == data.storage.total_episodes:
        data = f"minari/{data.spec.dataset_id}"
    stated = isinstance(data, str | Dataset | EpisodeStore)
    missing = environment_id is None and not stated and not isinstance(data, minari.MinariDataset)
    if missing or (stated and environment_id is not None) or (path is not None and not isinstance(data, str)):
        raise InputError(
            f"environment_id is {environment_id!r:.100} and path {path!r:.100}: episodes need an environment such as "
            "Hopper-v5 (if there is none, write them with write_store first), a dataset or store states its own, and "
            "only the name of a dataset has a path."
        )
    if isinstance(data, Dataset):
        return data if partial == "keep" else open_dataset(data.name, data.path, partial)
    if isinstance(data, str):
        return open_dataset(data, path, partial)
    if isinstance(data, EpisodeStore) and data.name is not None:
        return open_dataset(data.name, None, partial)
    settings: dict[str, Any] | None = None
    spaces: OptionalSpaces = (None, None)
    if isinstance(data, EpisodeStore):
        environment_id, settings = data.environment_id, data.source.get("environment_settings")
        spaces = data.observation_space, data.action_space
    elif isinstance(data, minari.MinariDataset):
        if environment_id is None and data.spec.env_spec is not None:
            metadata = data.storage.read_raw_metadata(data.storage.data_path)
            environment_id, settings = environment_of(metadata, f"the Minari dataset {data.spec.dataset_id}")
        spaces = data.spec.observation_space, data.spec.action_space
    return open_dataset(cache_episodes(data, environment_id, settings, spaces), None, partial)


def import_log(
    log: Any,
    name: str,
    observations: str | Sequence[str] = (),
    actions: str | Sequence[str] = (),
    reward: str | None = None,
    episode: str | None = None,
    *,
    time: str | None = None,
    terminated: str | None = None,
    truncated: str | None = None,
    environment_id: str | None = None,
    action_space: gymnasium.Space[Any] | None = None,
    missing: Missing = "error",
    append: bool = False,
    join: bool = False,
    split: str | None = None,
    progress: bool = True,
) -> Dataset:
    """Write a log, such as a robot's or another library's file, as a dataset that `train` reads.

    A log has a row for every step: the observation, the action that was chosen at it, and the reward of that action. No
    row is lost: where no observation follows an episode's last action, as in most logs, the last observation is
    repeated, which agents are not trained on. A last row with neither action nor reward is the observation after the
    last action.

    Args:
        log: The path of a CSV or parquet file, a pandas DataFrame, or a dictionary of columns, which are read with
            pandas (the extra `logs`), as is the folder of a LeRobot dataset; the path of an HDF5 or npz file in the
            layout of D4RL, robomimic, d3rlpy, Minari, ManiSkill or diffusion policy; a dictionary of arrays; or a
            folder or a list of these, whose episodes follow each other. Columns and arrays of usual names need not be
            named.
        name: The name of the new dataset: `local/` and a word.
        observations: The columns or arrays of an observation, as `x,y` or a list; a name may be a pattern such as
            `obs_*`, and a parquet column may have a list of numbers in each row. Several arrays are the parts of a
            `Dict` space.
        actions: The columns or arrays of an action.
        reward: The column of the rewards; if left out, they are 0: train with the condition `none`.
        episode: The column that identifies episodes, numbers or text; its rows need not be side by side. If left
            out, a log is one episode, or multiple if flags end them.
        time: The column, of numbers or times, that orders the rows of an episode; if left out, they are in order.
        terminated: The column, of true and false or 1 and 0, that is true in the last row of an episode whose task
            ended; empty is false.
        truncated: The column that is true in the last row of an episode whose time ended; if left out, episodes that
            did not terminate were truncated.
        environment_id: As for `write_store`; if left out, the one that the HDF5 file names, if any.
        action_space: As for `write_store`.
        missing: What is done with an episode in which a number is missing, NaN or infinite: `error`, which names the
            row and the column, `drop_episode`, or `end_episode`, which ends it before that row, neither terminated nor
            truncated. Unless it is `error`, an episode that cannot be read is left out.
        append: If the dataset exists, add the episodes to its end.
        join: Whether files are parts of one log, in which an episode may go on in the next file; by default the same
            `episode` in two files is two episodes.
        split: The name of the episodes to read, if the file has splits, such as `valid` in one of robomimic's; by
            default all.
        progress: Whether to show progress bars and remarks.

    Returns:
        The dataset, as from `open_dataset`.

    Raises:
        InputError: If a log cannot be read, a column is missing or does not hold what it should, a number is missing,
            the name is taken or invalid, or pandas is not installed. Nothing is written in this
            case.

    Example:
        >>> log = {"run": [1, 1, 2, 2], "x": [0, 0.1, 0, 0.2], "push": [1, 1, -1, 1], "gain": [0.1, 0.1, -0.1, 0.3]}
        >>> dataset = decision_rnn.import_log(log, "local/cart", "x", "push", "gain", "run", progress=False)
        >>> dataset.store.num_episodes, dataset.store.episode_returns.round(3)
        (2, array([0.2, 0.2]))
    """
    logs = list(chain.from_iterable(map(expand_folder, log if isinstance(log, list | tuple) else [log])))
    if not logs:
        raise InputError(f"there are no logs for {name}: expected at least one.")
    single = {"rewards": reward, "episode": episode, "time": time, "terminated": terminated, "truncated": truncated}
    names = {role: [column] for role, column in single.items() if column is not None}
    multiple = {"observations": convert(observations, Names), "actions": convert(actions, Names)}
    options = LogOptions(names | {role: columns for role, columns in multiple.items() if columns}, split, missing)
    notes, remarks = list[str](), Remarks()
    if not append:
        check_new(name)

    batches = [logs] if join else [[each] for each in logs]
    missing_log: Missing = missing if len(batches) > 1 else "error"

    def open_logs() -> Iterator[tuple[str, Log]]:
        for number, each in enumerate(batches):
            where = str(each[0]) if isinstance(each[0], str | Path) else f"log {number}"
            with remarks.leaving_out(where, missing_log, ""):
                yield where, open_log(each, options, remarks)

    def read_all() -> Iterator[Episode]:
        for where, log in chain([(label, first)], opened):
            if (log.columns, log.spaces[0]) != (first.columns, first.spaces[0]):
                layout = f"the columns {log.columns} and the observations {log.spaces[0] or 'vectors'}"
                raise InputError(f"{where} has {layout}, unlike {label}: import it alone.")
            with remarks.leaving_out(where, missing_log, ""):
                yield from log.episodes
        notes.extend(remarks.sentences())

    with quiet(not progress):
        opened = open_logs()
        label, first = next(opened, None) or ("", open_log(batches[0], options, remarks))
        spaces = {"observation_space": first.spaces[0], "action_space": action_space or first.spaces[1]}
        episodes = bar(read_all(), "importing", unit=" episodes")
        settings: dict[str, Any] = {"missing": missing, "columns": first.columns, "notes": notes, **spaces}
        store = write_store(name, episodes, environment_id or first.environment_id, append=append, **settings)
        for note in dict.fromkeys(notes):
            warn(f"{name}: {note}")
        largest, whole = store.actions.max(), (store.actions == np.floor(store.actions)).all()
        if store.stated_spaces[1] is None and store.actions.min() == 0 < largest <= MOST_CHOICES and whole:
            warn(
                f"{name}: the actions are whole numbers from 0 to {largest:.0f}, read as quantities. If they number "
                "choices, import them with --choices, in Python with an action_space such as Discrete(3)."
            )
    return open_dataset(name)


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
    merge_stores(name, [part.name for part in parts], [part.store for part in parts])
    return open_dataset(name)


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
        check_id(output)
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

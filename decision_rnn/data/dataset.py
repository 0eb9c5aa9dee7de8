"""Datasets by name. The part before the first "/" is the source; a name never falls back to another source."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import gymnasium
import minari
import numpy as np
from gymnasium.spaces import Box

from decision_rnn.data.formats import expand_folder, open_log
from decision_rnn.data.logs import Log, LogOptions, Remarks
from decision_rnn.data.sources import SOURCES, Source
from decision_rnn.data.sources.d4rl import write_d4rl
from decision_rnn.data.sources.local import cache_episodes, check_new, check_same, write_store, write_stores
from decision_rnn.data.sources.minari import check_id, dataset_folder, environment_of, write_minari
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import MANIFEST, EpisodeStore, complete_episodes
from decision_rnn.environments.episode import Episode, Missing
from decision_rnn.environments.spaces import OptionalSpaces
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import check_folder
from decision_rnn.utils.messages import bar, counted, quiet, tell, warn
from decision_rnn.utils.parsing import Names, Numbers, PositiveInt, convert

DEFAULT_SOURCE = "standin"
MOST_CHOICES = 100
"""Actions that are whole numbers up to here may number choices."""

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
        path: The file to read, for D4RL's and OGBench's datasets; `published` downloads their authors' file.
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
    """The dataset given by a name, a `Dataset`, a Minari dataset, a store or a list of episodes or of dictionaries.

    Episodes in memory are written to the cache as `episodes/HASH`, where HASH depends on their contents: the same
    episodes are the same dataset. Those of a dataset, a store or a part of a Minari dataset keep its source and the
    settings of their environment.

    Raises:
        InputError: If `environment_id` or `path` does not apply, or the data are a log.
    """
    if isinstance(data, minari.MinariDataset) and data.total_episodes == data.storage.total_episodes:
        data = f"minari/{data.spec.dataset_id}"
    stated = isinstance(data, str | Dataset | EpisodeStore)
    if (stated and environment_id is not None) or (path is not None and not isinstance(data, str)):
        raise InputError(
            f"environment_id is {environment_id!r:.100} and path {path!r:.100}: a dataset or store states its own "
            "environment, and only the name of a dataset has a path."
        )
    if isinstance(data, Mapping) or hasattr(data, "to_numpy"):  # also tables
        raise InputError(f"a {type(data).__name__} is a log: import it, import_log(data, 'local/NAME', ...).")
    if isinstance(data, Dataset) and data.store.name is None and data.partial == "keep":  # selected from a dataset
        data = data.store
    if isinstance(data, Dataset):
        return data if partial == "keep" else open_dataset(data.name, data.path, partial)
    if isinstance(data, str):
        return open_dataset(data, path, partial)
    if isinstance(data, EpisodeStore) and data.name is not None:
        return open_dataset(data.name, None, partial)
    source: dict[str, Any] = {}
    spaces: OptionalSpaces = (None, None)
    if isinstance(data, EpisodeStore):
        environment_id, source = data.environment_id, data.source
        spaces = data.observation_space, data.action_space
    elif isinstance(data, minari.MinariDataset):
        if environment_id is None and data.spec.env_spec is not None:
            metadata = data.storage.read_raw_metadata(data.storage.data_path)
            environment_id, settings = environment_of(metadata, f"the Minari dataset {data.spec.dataset_id}")
            source = {} if settings is None else {"environment_settings": settings}
        spaces = data.spec.observation_space, data.spec.action_space
    return open_dataset(cache_episodes(data, environment_id, source, spaces), None, partial)


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
    action_low: Numbers | None = None,
    action_high: Numbers | None = None,
    every: PositiveInt = 1,
    missing: Missing = "error",
    append: bool = False,
    overwrite: bool = False,
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
        log: The path of a CSV or parquet file, a pandas DataFrame, a dictionary of columns, or a list of rows as
            dictionaries of numbers, which are read with pandas (the extra `logs`), as is the folder of a LeRobot
            dataset; the path of an HDF5 or npz file in the layout of D4RL, robomimic, d3rlpy, Minari, ManiSkill or
            diffusion policy; a dictionary of arrays; or a folder or a list of these, whose episodes follow each other.
            Columns and arrays of usual names need not be named.
        name: The name of the new dataset: `local/` and a word.
        observations: The columns or arrays of an observation, as `x,y` or a list; a name may be a pattern such as
            `obs_*`, and a parquet column may have a list of numbers in each row. Several arrays are the parts of a
            `Dict` space.
        actions: The columns or arrays of an action.
        reward: The column of the rewards; if left out, they are 0, and agents clone the data.
        episode: The column that identifies episodes, numbers or text; its rows need not be side by side. If left
            out, a log is one episode, or multiple if flags end them.
        time: The column, of numbers or times, that orders the rows of an episode; if left out, they are in order.
        terminated: The column, of true and false or 1 and 0, that is true in the last row of an episode whose task
            ended; empty is false.
        truncated: The column that is true in the last row of an episode whose time ended; if left out, episodes that
            did not terminate were truncated.
        environment_id: As for `write_store`; if left out, the one that the HDF5 file names, if any.
        action_space: As for `write_store`.
        action_low: The lower bound of actions, a number for all of their entries or one for each, as `-1,0`. By
            default, and unless `action_space` is given, actions keep to their range in the log.
        action_high: The upper bound; both are given, or neither.
        every: Keep the first of so many steps, for a log that is faster than the decisions are to be. The rewards of
            the steps left out are added to that of the one before; the agent then acts once in so many steps.
        missing: What is done with an episode in which a number is missing, NaN or infinite: `error`, which names the
            row and the column, `drop_episode`, or `end_episode`, which ends it before that row, neither terminated nor
            truncated. Unless it is `error`, an episode that cannot be read is left out.
        append: If the dataset exists, add the episodes to its end.
        overwrite: If the dataset exists, replace it once the whole log is read; until then, or if that fails, it stays.
        join: Whether files are parts of one log, in which an episode may go on in the next file; by default the same
            `episode` in two files is two episodes.
        split: The name of the episodes to read, if the file has splits, such as `valid` in one of robomimic's; by
            default all.
        progress: Whether to show progress bars and remarks.

    Returns:
        The dataset, as from `open_dataset`.

    Raises:
        InputError: If a log cannot be read, a column is missing or does not hold what it should, a number is missing,
            the name is taken or invalid, or pandas is not installed. Nothing is written in this case.

    Example:
        >>> log = {"run": [1, 1, 2, 2], "x": [0, 0.1, 0, 0.2], "push": [1, 1, -1, 1], "gain": [0.1, 0.1, -0.1, 0.3]}
        >>> dataset = decision_rnn.import_log(log, "local/cart", "x", "push", "gain", "run", progress=False)
        >>> dataset.store.num_episodes, dataset.store.episode_returns.round(3)
        (2, array([0.2, 0.2]))
    """
    several = isinstance(log, list | tuple)
    if several and log and isinstance(log[0], Mapping) and not any(map(np.ndim, log[0].values())):
        several = False  # the rows of one table
    logs = list(chain.from_iterable(map(expand_folder, log if several else [log])))
    if not logs:
        raise InputError(f"there are no logs for {name}: expected at least one.")
    single = {"rewards": reward, "episode": episode, "time": time, "terminated": terminated, "truncated": truncated}
    names = {"observations": convert(observations, Names), "actions": convert(actions, Names)}
    names |= {role: (column,) * (column is not None) for role, column in single.items()}
    options = LogOptions({role: columns for role, columns in names.items() if columns}, split, missing)
    notes, remarks = list[str](), Remarks()
    if convert(every, PositiveInt, "every") > 1:
        notes.append(f"only the first of every {every} steps is kept: agents act once in {every} steps of the log")
    check_new(name, append, overwrite)

    batches = [logs] if join else [[each] for each in logs]
    missing_log: Missing = missing if len(batches) > 1 else "error"

    def open_logs() -> Iterator[tuple[str, Log]]:
        for number, each in enumerate(batches):
            where = str(each[0]) if isinstance(each[0], str | Path) else f"log {number}"
            with remarks.leaving_out(where, missing_log, ""):
                yield where, open_log(each, options, remarks)

    def read_all() -> Iterator[Episode]:
        shapes: list[Any] = []
        for where, log in chain([(label, first)], opened):
            with remarks.leaving_out(where, missing_log, ""):
                if (log.columns, log.spaces[0]) != (first.columns, first.spaces[0]):
                    layout = f"the columns {log.columns} and the observations {log.spaces[0] or 'vectors'}"
                    raise InputError(f"{where} has {layout}, unlike {label}: import it alone.")
                for episode in log.episodes:
                    rows = [np.shape(each)[1:] for each in (episode.observations, episode.actions)]
                    if (shapes := shapes or rows) != rows:
                        raise InputError(f"{where} has rows of the shapes {rows}, unlike {shapes} in {label}.")
                    yield _every(episode, every) if every > 1 else episode
        notes.extend(remarks.sentences())

    with quiet(not progress):
        opened = open_logs()
        label, first = next(opened, None) or ("", open_log(batches[0], options, remarks))
        for match in remarks.names.get("patterns", ()):
            tell(f"{name}: {match}")
        episodes: Iterator[Episode] = read_all()
        action_space = action_space or first.spaces[1]
        if action_low is not None or action_high is not None:
            if action_space is not None:
                raise InputError("action_low and action_high bound numbers: leave out choices and the action space.")
            for sample in (samples := list(islice(episodes, 1))):  # which says how many entries there are
                action_space = _box(action_low, action_high, np.shape(sample.actions)[1])
            episodes = chain(samples, episodes)
        settings: dict[str, Any] = {"observation_space": first.spaces[0], "action_space": action_space}
        settings |= {"append": append, "overwrite": overwrite, "missing": missing, "columns": first.columns}
        counting = bar(episodes, "importing", unit=" episodes")
        store = write_store(name, counting, environment_id or first.environment_id, notes=notes, **settings)
        for note in dict.fromkeys(notes):
            warn(f"{name}: {note}")
        for warning in warn_of_choices(store):
            warn(f"{name}: {warning}")
    return open_dataset(name)


def warn_of_choices(store: EpisodeStore) -> Iterator[str]:
    """A sentence if actions without a stated space seem to number choices."""
    largest, whole = store.actions.max(), (store.actions == np.floor(store.actions)).all()
    if store.stated_spaces[1] is None and store.actions.min() == 0 < largest <= MOST_CHOICES and whole:
        choices = f"Discrete({largest + 1:.0f})" if store.action_dim == 1 else "MultiDiscrete"
        yield (
            f"the actions are whole numbers from 0 to {largest:.0f}, read as quantities. If they number choices, "
            f"import them with --choices, in Python with an action_space such as {choices}"
        )


def _every(episode: Episode, number: int) -> Episode:
    """The first of every so many steps of an episode, with the rewards of all, its last observation and its end."""
    observations = np.concatenate([episode.observations[:-1:number], episode.observations[-1:]])
    rewards = np.add.reduceat(episode.rewards, np.arange(0, len(episode.rewards), number))
    return replace(episode, observations=observations, actions=episode.actions[::number], rewards=rewards)


def _box(action_low: Any, action_high: Any, size: int) -> Box:
    """The box of `size` actions with these bounds, a number or one for each action; InputError if they do not fit."""
    low, high = (np.ravel(np.float32(np.nan if bound is None else bound)) for bound in (action_low, action_high))
    if not {len(low), len(high)} <= {1, size} or not (low < high).all():
        raise InputError(
            f"action_low is {action_low} and action_high {action_high}: expected a lower and a higher number, or both "
            f"for each of {counted(size, 'action')}."
        )
    return Box(np.broadcast_to(low, size), np.broadcast_to(high, size))


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
    stores = [part.store for part in parts]
    for part, store in zip(parts, stores, strict=True):
        check_same(part.name, stores[0], store.environment_id, store.source, store.stated_spaces)
    inherited = ("columns", "environment_settings", "requirements")
    source = {key: value for key, value in stores[0].source.items() if key in inherited}
    notes = dict.fromkeys(note for store in stores for note in store.source.get("notes", ()))
    source |= {"notes": list(notes), "merged": {part.name: part.store.fingerprint for part in parts}}
    write_stores(name, stores, source)
    return open_dataset(name)


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
        path, partial: As for `open_dataset`.

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
            f"hold_out {hold_out:g} of {counted(total, 'episode')} of {whole.name}: expected a share such as 0.1, and "
            "at least two episodes, as `data import --episode COLUMN` cuts a log."
        )
    names = [f"local/{word}-train", f"local/{word}-held-out"]
    for name in names:
        check_new(name, overwrite=overwrite)
    order = np.random.default_rng(seed).permutation(total)
    count = min(max(1, round(hold_out * total)), total - 1)
    split = {"dataset": whole.name, "fingerprint": whole.store.fingerprint, "hold_out": hold_out, "seed": seed}
    for name, indices in zip(names, (np.sort(order[count:]), np.sort(order[:count])), strict=True):
        part = whole.select(indices).store
        share = f"{len(part):,} of {counted(total, 'episode')} of {whole.name}"
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

"""Turns any collection of episodes into a named dataset: a run records the name, and is resumed and scored with it."""

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import gymnasium
import h5py
import numpy as np

from decision_rnn.data.catalog import Dataset, open_dataset
from decision_rnn.data.episode import as_episodes
from decision_rnn.data.formats.d4rl import D4RLFile
from decision_rnn.data.formats.minari import environment_of
from decision_rnn.data.missing import Missing, check_policy
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.sources.local import check_new, merge_stores, write_local, write_store
from decision_rnn.data.spec import spec_of_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.environments import describe_alteration, known_spaces, layouts_of
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import bar, quiet, warn
from decision_rnn.utils.parsing import split_names

MOST_CHOICES = 100
"""Whole numbers up to here are taken for those of choices, and remarked on."""


def find_dataset(
    data: Any,
    environment_id: str | None = None,
    path: Path | str | None = None,
    partial: Literal["keep", "drop"] = "keep",
) -> Dataset:
    """The dataset given by a name, a `Dataset`, a Minari dataset, a store or a list of episodes.

    Unnamed episodes are written as `local/episodes-HASH`, where HASH depends on their contents: the same episodes are
    the same dataset. Those of a store or of a part of a Minari dataset keep the settings of their environment.

    Raises:
        InputError: If `data` is none of these, if the environment of episodes is not given, or if `environment_id` or
            `path`, the file of a D4RL dataset given by name, does not apply.
    """
    minari = sys.modules.get("minari")  # unless it is imported, `data` is not a Minari dataset
    of_minari = minari is not None and isinstance(data, minari.MinariDataset)
    whole = of_minari and data.total_episodes == data.storage.total_episodes
    if environment_id is not None and (whole or isinstance(data, Dataset | str | EpisodeStore)):
        raise InputError(f"environment_id is {environment_id!r:.100}, which this dataset defines itself: leave it out")
    if path is not None and not isinstance(data, str):
        raise InputError(f"path is {str(path)!r:.100}: it is the file of a dataset that is named, so leave it out")
    if isinstance(data, Dataset):
        return data if partial == "keep" else open_dataset(data.name, data.path, partial)
    if isinstance(data, str):
        return open_dataset(data, path, partial)
    if whole:
        return open_dataset(f"minari/{data.spec.dataset_id}", None, partial)
    settings, alone = None, not (of_minari or isinstance(data, EpisodeStore))
    spaces: tuple[Any, Any] = (None, None)
    if isinstance(data, EpisodeStore):
        if data.name:
            return open_dataset(data.name, None, partial)
        environment_id, settings = data.environment_id, data.manifest["source"].get("environment_settings")
        spec = spec_of_store("", data)
        spaces, data = (spec.observation_space, spec.action_space), data.read_episodes()
    elif of_minari:
        if environment_id is None and data.spec.env_spec is not None:
            metadata = data.storage.read_raw_metadata(data.storage.data_path)
            environment_id, settings = environment_of(metadata, f"the Minari dataset {data.spec.dataset_id}")
        spaces = data.spec.observation_space, data.spec.action_space
        data = data.iterate_episodes()  # a subset of the dataset
    if not isinstance(data, Iterable) or isinstance(data, dict | bytes | Path):
        raise InputError(
            f"{type(data).__name__} is not a dataset: give the name of one, what open_dataset, write_store or record "
            "returned, a Minari dataset, or a list of episodes"
        )
    if environment_id is None and alone:
        raise InputError(
            "a list of episodes does not say its environment: name it, such as environment_id='Hopper-v5', "
            "or, if there is none, write them with write_store first"
        )
    spaces = spaces if any(spaces) else known_spaces(environment_id, settings) or (None, None)
    kept = list(as_episodes(data, "the list of episodes", layouts_of(spaces, str(environment_id))))
    digest = hashlib.sha256((environment_id or "").encode())
    if describe_alteration(environment_id, settings):  # the same numbers may come from another environment
        digest.update(json.dumps(settings, sort_keys=True).encode())
    for episode in kept:
        for array in (episode.observations, episode.actions, episode.rewards):
            digest.update(str((array.dtype, array.shape)).encode())
            digest.update(np.ascontiguousarray(array))
        digest.update(bytes([episode.terminated, episode.truncated]))
    name = f"local/episodes-{digest.hexdigest()[:16]}"
    if not SOURCES["local"].folder(name).is_dir():
        observations, actions = spaces
        write_store(
            name,
            kept,
            environment_id,
            environment_settings=settings,
            observation_space=observations,
            action_space=actions,
        )
    return open_dataset(name, None, partial)


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
    progress: bool = True,
) -> Dataset:
    """Write a log, such as a robot's, as a dataset that `train` reads.

    A log has a row for every step: the observation, the action that was chosen at it, and the reward of that action. No
    row is lost: where no observation follows an episode's last action, as in most logs, the last observation is
    repeated, which agents are not trained on. A last row with neither action nor reward is the observation after the
    last action.

    Args:
        log: The path of a CSV or parquet file, a pandas or other DataFrame, or a dictionary of columns, which are read
            with `pip install 'decision-rnn[logs]'`; the path of an HDF5 file in D4RL's layout, of any task, for which
            no columns are named; or a list of these, whose episodes follow each other. A file is read into memory.
        name: The name of the new dataset: `local/` and a word.
        observations: The columns of an observation, as `x,y` or a list; a name may be a pattern such as `obs_*`, and a
            parquet column may have a list of numbers in each row.
        actions: Those of an action.
        reward: The column of the rewards; if left out, they are 0: train with the condition `none`.
        episode: The column of what tells episodes apart, numbers or text; its rows need not be side by side. If left
            out, a log is one episode, or several if flags end them.
        time: The column, of numbers or times, that orders the rows of an episode; if left out, they are in order.
        terminated: The column, of true and false or 1 and 0, that is true in the last row of an episode whose task
            ended; empty is false.
        truncated: The column that is true in the last row of an episode whose time ended; if left out, episodes that
            did not terminate were truncated.
        environment_id: As for `write_store`; if left out, the one that the HDF5 file names, if any.
        action_space: As for `write_store`.
        missing: What is done with an episode in which a number is missing, NaN or infinite: `error`, which names the
            row and the column, `drop_episode`, or `end_episode`, which ends it before that row, neither terminated nor
            truncated.
        append: If the dataset exists, add the episodes to its end.
        progress: Whether to show progress bars and remarks.

    Returns:
        The dataset, as from `open_dataset`.

    Raises:
        InputError: If a log cannot be read, a column is missing or does not hold what it should, a number is missing,
            the name is taken or invalid, or pyarrow, which reads logs, is not installed. Nothing is written in this
            case.

    Example:
        >>> log = {"run": [1, 1, 2, 2], "x": [0, 0.1, 0, 0.2], "push": [1, 1, -1, 1], "gain": [0.1, 0.1, -0.1, 0.3]}
        >>> dataset = decision_rnn.import_log(log, "local/cart", "x", "push", "gain", "run", progress=False)
        >>> dataset.open().episodes, dataset.open().episode_returns.round(3)
        (2, array([0.2, 0.2]))
    """
    logs = list(log) if isinstance(log, list | tuple) else [log]
    observed, acted = (
        tuple(split_names(given) if isinstance(given, str) else given) for given in (observations, actions)
    )
    named = {"reward": reward, "episode": episode, "time": time, "terminated": terminated, "truncated": truncated}
    check_new(name, append)
    check_policy(missing)
    if not logs:
        raise InputError(f"{name}: there is no log to import: give at least one")
    with quiet(not progress):
        if any(map(_is_hdf5, logs)):
            if observed or acted or any(named.values()):
                raise InputError(f"{logs[0]}: columns are named, which D4RL's layout has names for: leave them out")
            files = [D4RLFile(Path(each).expanduser(), missing=missing) for each in logs]
            columns = next((file.names for file in files if file.names), {})
            if other := next((file for file in files if file.names not in ({}, columns)), None):
                raise InputError(f"{other.path} names other columns than a file before it: give files with the same")
            environment_id = environment_id or files[0].environment_id
            notes = list(dict.fromkeys(note for file in files for note in file.notes))
            episodes = chain.from_iterable(file.episodes() for file in files)
        else:
            try:
                from decision_rnn.data.formats.logs import Columns, LogReader
            except ModuleNotFoundError as error:
                raise InputError(
                    f"reading a log needs {error.name}, which is missing: pip install 'decision-rnn[logs]'"
                ) from None
            reader, notes = LogReader(Columns(observed, acted, **named), missing), []
            read = reader.read(logs, notes)
            episodes, columns = chain([next(read)], read), reader.entries  # known once a log has been read
        store = write_local(
            name,
            bar(episodes, "importing", unit=" episodes"),
            environment_id,
            append=append,
            action_space=action_space,
            missing=missing,
            notes=notes,
            columns=columns,
        )
        for note in notes:
            warn(f"{name}: {note}")
        if "action" not in store.manifest["source"]["spaces"]:
            _remark_on_choices(name, store.actions)
    return open_dataset(name)


def _remark_on_choices(name: str, actions: np.ndarray) -> None:
    """Remark on actions of an unknown space that look like the numbers of choices."""
    largest = actions.max()
    if 0 < largest <= MOST_CHOICES and actions.min() == 0 and (actions == np.floor(actions)).all():
        warn(
            f"{name}: the actions are whole numbers from 0 to {largest:.0f}, taken as quantities: if they number "
            "choices, import them with --choices, in Python with an action_space such as Discrete(3)"
        )


def _is_hdf5(log: Any) -> bool:
    return isinstance(log, str | Path) and (Path(log).suffix in (".hdf5", ".h5") or h5py.is_hdf5(log))


def merge_datasets(name: str, datasets: Sequence[str | Dataset]) -> Dataset:
    """Write the episodes of several datasets of one environment as a new one; the parts stay.

    Args:
        name: The name of the new dataset: `local/` and a word.
        datasets: The names of the parts, or what `open_dataset`, `write_store` or `record` returned; their episodes
            follow in this order.

    Returns:
        The dataset, as from `open_dataset`.

    Raises:
        InputError: If the parts' environments or sizes differ, there are fewer than two, one is given twice, or the
            name is taken or invalid. Nothing is written in this case.

    Example:
        >>> more = decision_rnn.record(run, "MountainCarContinuous-v0", "local/more", episodes=1, progress=False)
        >>> decision_rnn.merge_datasets("local/both", ["local/swing", more]).open().episodes
        5
    """
    found = [find_dataset(data) for data in datasets]
    stores = {dataset.name: dataset.open() for dataset in found}
    if len(stores) < max(2, len(found)):
        raise InputError(f"{name}: give at least two datasets to merge, each once")
    merge_stores(name, stores)
    return open_dataset(name)

"""Turns any collection of episodes into a named dataset: a run records the name, and is resumed and scored with it."""

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from decision_rnn.data.catalog import Dataset, open_dataset
from decision_rnn.data.environments import describe_alteration, known_spaces, layouts_of
from decision_rnn.data.formats.minari import environment_of
from decision_rnn.data.sources import SOURCES
from decision_rnn.data.sources.own import merge_stores, write_store
from decision_rnn.data.spec import spec_of_store
from decision_rnn.data.store.episode import as_episodes
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError


def find_dataset(
    data: Any,
    environment_id: str | None = None,
    path: Path | str | None = None,
    partial: Literal["keep", "drop"] = "keep",
) -> Dataset:
    """The dataset given by a name, a `Dataset`, a Minari dataset, a store or a list of episodes.

    Unnamed episodes are written as `own/episodes-HASH`, where HASH depends on their contents: the same episodes are the
    same dataset. Those of a store or of a part of a Minari dataset keep the settings of their environment.

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
    name = f"own/episodes-{digest.hexdigest()[:16]}"
    if not SOURCES["own"].folder(name).is_dir():
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


def merge_datasets(name: str, datasets: Sequence[str | Dataset]) -> Dataset:
    """Write the episodes of several datasets of one environment as a new one; the parts stay.

    Args:
        name: The name of the new dataset: `own/` and a word.
        datasets: The names of the parts, or what `open_dataset`, `write_store` or `record` returned; their episodes
            follow in this order.

    Returns:
        The dataset, as from `open_dataset`.

    Raises:
        InputError: If the parts' environments or sizes differ, there are fewer than two, one is given twice, or the
            name is taken or invalid. Nothing is written in this case.

    Example:
        >>> more = decision_rnn.record(run, "MountainCarContinuous-v0", "own/more", episodes=1, progress=False)
        >>> decision_rnn.merge_datasets("own/both", ["own/swing", more]).open().episodes
        5
    """
    found = [find_dataset(data) for data in datasets]
    stores = {dataset.name: dataset.open() for dataset in found}
    if len(stores) < max(2, len(found)):
        raise InputError(f"{name}: give at least two datasets to merge, each once")
    merge_stores(name, stores)
    return open_dataset(name)

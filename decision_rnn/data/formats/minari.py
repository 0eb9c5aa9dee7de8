"""Episodes to and from Minari datasets (minari.farama.org), in the user's own Minari folder."""

import contextlib
import copy
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
from gymnasium.envs.registration import EnvSpec
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_dataset import parse_dataset_id
from minari.dataset.minari_storage import MinariStorage
from minari.namespace import create_namespace, list_local_namespaces
from minari.storage import get_dataset_path

from decision_rnn.data import environments
from decision_rnn.data.formats.hdf5 import as_flags, find_dataset, open_file
from decision_rnn.data.store.episode import Episode
from decision_rnn.data.store.verification import CacheError, sha256_of
from decision_rnn.errors import InputError
from decision_rnn.files import new_directory

DATA_FILE = "main_data.hdf5"
METADATA_FILE = "metadata.json"
LONGEST = 100  # characters per part of a name: file systems allow about 250, of which we need some
OUR_METADATA = "decision_rnn"  # the key in metadata.json under which we keep what Minari has no field for


def check_id(dataset_id: str) -> None:
    """Raise InputError unless the id is valid for Minari: nothing but names and slashes."""
    try:
        parse_dataset_id(dataset_id)
        usable = max(map(len, dataset_id.split("/"))) <= LONGEST
    except (ValueError, TypeError):
        usable = False
    if not usable:
        raise InputError(f"{dataset_id!r:.200} is no Minari id: it must be such as mujoco/hopper/medium-v0")


def dataset_folder(dataset_id: str) -> Path:
    """The folder of the dataset, under `$MINARI_DATASETS_PATH` or `~/.minari/datasets`, which is created.

    Raises InputError if it cannot be.
    """
    try:
        return Path(get_dataset_path(dataset_id))
    except OSError as error:
        raise InputError(
            f"cannot use Minari's folder {error.filename}: {error.strerror}; name another with MINARI_DATASETS_PATH"
        ) from None


def write_dataset(
    dataset_id: str,
    episodes: Iterable[Episode],
    *,
    environment_id: str,
    metadata: dict[str, Any],
    source: dict[str, Any],
    sizes: tuple[int, int] | None = None,
    settings: dict[str, Any] | None = None,
) -> None:
    """Write `episodes`, one at a time, as the new Minari dataset `dataset_id`, atomically.

    `metadata` holds Minari's own fields (author, description, ref_min_score, ...). `source` says where the episodes
    come from, in plain JSON; it is kept in metadata.json with the SHA-256 of the data. An existing dataset of that id
    is kept. `settings` are the environment's, as returned by `read_environment`. If it is not registered here, or not
    with these settings, the spaces are boxes of `sizes`, those of an observation and an action.
    """
    register_namespace(dataset_id)
    # create_dataset_from_buffers would need all episodes in memory and would show a half-written dataset.
    with new_directory(dataset_folder(dataset_id)) as folder:
        specification, spaces = _describe_environment(environment_id, sizes, settings)
        storage = MinariStorage.new(folder / "data", *spaces)
        storage.update_metadata(
            {
                "dataset_id": dataset_id,
                "minari_version": minari.__version__,
                "env_spec": specification,
                "eval_env_spec": specification,
                **metadata,
            }
        )
        storage.update_episodes(_to_buffer(episode) for episode in episodes)
        checksum = sha256_of(folder / "data" / DATA_FILE)
        storage.update_metadata({OUR_METADATA: {"sha256": checksum, **source}})


def _describe_environment(
    environment_id: str, sizes: tuple[int, int] | None, settings: dict[str, Any] | None
) -> tuple[str, tuple[gymnasium.Space[Any], gymnasium.Space[Any]]]:
    """The environment's specification in JSON, as Minari stores it, and its observation and action spaces."""
    described = json.loads(EnvSpec(environment_id).to_json())
    if environments.describe_alteration(environment_id, settings) is None:
        with contextlib.suppress(environments.MissingEnvironmentError):
            spaces = environments.environment_spaces(environment_id)
            try:
                return gymnasium.spec(environment_id).to_json(), spaces
            except ValueError:  # it was registered with a class, which JSON cannot name
                return json.dumps(described | environments.registered_settings(environment_id)), spaces
    if sizes is None:
        environments.check_environment(environment_id, settings=settings)
    low, high = -np.inf, np.inf
    observation_space, action_space = (gymnasium.spaces.Box(low, high, (size,), np.float32) for size in sizes or ())
    return json.dumps(described | (settings or {})), (observation_space, action_space)


def register_namespace(dataset_id: str) -> None:
    """Register the dataset's namespace, without which Minari does not list the dataset."""
    namespace = parse_dataset_id(dataset_id)[0]
    if namespace is not None and namespace not in list_local_namespaces():
        with contextlib.suppress(ValueError):  # another process was faster
            create_namespace(namespace)


def _to_buffer(episode: Episode) -> EpisodeBuffer:
    ends = np.zeros((2, len(episode.rewards)), bool)
    ends[:, -1] = episode.terminated, episode.truncated
    return EpisodeBuffer(
        seed=episode.seed,
        observations=episode.observations,
        actions=episode.actions,
        rewards=episode.rewards,
        terminations=ends[0],
        truncations=ends[1],
    )


def read_source(dataset_id: str) -> dict[str, Any]:
    """The `source` that `write_dataset` was given for the local dataset, with the SHA-256 of its data.

    Raises InputError if the dataset was not written by `write_dataset`, CacheError if its data have changed.
    """
    folder = dataset_folder(dataset_id)
    data = folder / "data" / DATA_FILE
    try:
        source: dict[str, Any] = MinariStorage.read_raw_metadata(folder / "data")[OUR_METADATA]
    except (ValueError, KeyError):
        raise InputError(f"{folder} was not made by decision_rnn: move it away, its name is needed") from None
    if not data.is_file() or sha256_of(data) != source["sha256"]:
        raise CacheError(f"{data} is corrupt, its SHA-256 does not match that in metadata.json", folder)
    return source


def read_metadata(dataset_id: str) -> dict[str, Any]:
    """The contents of the local dataset's metadata.json; raises InputError if either is missing or unreadable."""
    folder = dataset_folder(dataset_id)
    if not (folder / "data").is_dir():
        raise InputError(
            f"there is no Minari dataset {dataset_id} in {dataset_folder('')}: "
            f"fetch a published one with `decision-rnn data download minari/{dataset_id}`"
        )
    try:
        metadata = json.loads((folder / "data" / METADATA_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise InputError(f"{folder / 'data' / METADATA_FILE} cannot be read as metadata: fetch or write it again")
    return metadata


def read_environment(dataset_id: str) -> tuple[str, dict[str, Any]]:
    """The Gymnasium id and the settings of the local dataset's evaluation environment.

    The settings are `kwargs`, `max_episode_steps` and `additional_wrappers` as in the dataset, in plain JSON. The
    environment need not be installed; nothing that a dataset names is made, as it could be any code. Raises InputError
    if the dataset names no environment.
    """
    return environment_of(read_metadata(dataset_id), f"the Minari dataset {dataset_id}")


def environment_of(metadata: dict[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    """`read_environment` from the contents of metadata.json; `where` names the dataset in errors."""
    try:
        given = json.loads(metadata.get("eval_env_spec") or metadata["env_spec"])
        environment_id, arguments = given["id"], dict(given.get("kwargs") or {})
        settings = {key: given.get(key) for key in ("max_episode_steps", "additional_wrappers")}
        arguments.pop("render_mode", None)
        settings = copy.deepcopy({"kwargs": arguments, **settings})  # fails if nested too deeply for a checkpoint
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise InputError(f"{where} names no environment: write its env_spec into {METADATA_FILE}") from None
    return environments.check_id(environment_id, where), settings


def requirements(dataset_id: str) -> list[str]:
    """The packages that the local dataset declares for its environment, one per entry."""
    stated = read_metadata(dataset_id).get("requirements")
    return [entry for entry in stated if isinstance(entry, str)] if isinstance(stated, list) else []


def sizes(dataset_id: str) -> tuple[int, int] | None:
    """The sizes of the local dataset's observations and actions by its metadata; None if that has no spaces.

    Raises InputError if they are not flat vectors.
    """
    metadata = read_metadata(dataset_id)
    found = []
    for kind in ("observation", "action"):
        space = metadata.get(f"{kind}_space")
        if space is not None:
            found.append(_flat_size(space, f"the Minari dataset {dataset_id} has {kind}s"))
    return (found[0], found[1]) if len(found) == 2 else None


def reference_scores(dataset_id: str) -> list[float] | None:
    """The returns that score 0 and 1 (`ref_min_score`, `ref_max_score`), if the dataset has them."""
    metadata = read_metadata(dataset_id)
    scores = [metadata.get("ref_min_score"), metadata.get("ref_max_score")]
    numbers = [float(s) for s in scores if isinstance(s, int | float) and math.isfinite(s)]
    return numbers if len(numbers) == 2 and numbers[0] < numbers[1] else None


def read_episodes(dataset_id: str) -> Iterator[Episode]:
    """Yield the episodes of the local Minari dataset `dataset_id`, in order.

    Raises InputError if there is no such dataset here, it cannot be read, or its observations or actions are not flat
    vectors.
    """
    metadata = read_metadata(dataset_id)
    data = dataset_folder(dataset_id) / "data" / DATA_FILE
    if metadata.get("data_format", "hdf5") != "hdf5":
        raise InputError(f"the Minari dataset {dataset_id} is kept as {metadata['data_format']}: only hdf5 is read")
    sizes(dataset_id)
    with open_file(data) as file:
        if len(file) == 0 or metadata.get("total_episodes") != len(file):
            raise InputError(
                f"{data} has {len(file)} episodes where its metadata say {metadata.get('total_episodes')}: "
                "fetch or write it again"
            )
        for index in range(len(file)):
            yield _read_episode(file, f"episode_{index}", f"{data}: episode_{index}")


def _flat_size(space: Any, what: str) -> int:
    """The length of a one-dimensional Box, as Minari serialises it; raises InputError for any other space."""
    try:
        known = json.loads(space)
        (size,) = known["shape"]
        flat = known["type"] == "Box" and isinstance(size, int)
    except (ValueError, TypeError, KeyError, RecursionError):
        flat = False
    if not flat:
        raise InputError(f"{what} that are not flat vectors: {space!s:.200}")
    return int(size)


def _read_episode(file: h5py.File, key: str, where: str) -> Episode:
    group = file[key] if isinstance(file.get(key, getlink=True), h5py.HardLink) else None
    if not isinstance(group, h5py.Group):
        raise InputError(f"{where} is not there: fetch or write the file again")
    arrays = {name: find_dataset(group, name, where) for name in ("observations", "actions", "rewards")}
    ends = []
    for name in ("terminations", "truncations"):
        column = find_dataset(group, name, where)
        if column.shape != arrays["rewards"].shape or column.size == 0:
            raise InputError(f"{where} has {name} of shape {column.shape} and rewards {arrays['rewards'].shape}")
        flags = as_flags(column[()], name, where)
        if flags[:-1].any():
            raise InputError(f"{where} has {name} before its last step: cut it into episodes")
        ends.append(bool(flags[-1]))
    episode = Episode(**{name: array[()] for name, array in arrays.items()}, terminated=ends[0], truncated=ends[1])
    episode.validate(where)
    return episode

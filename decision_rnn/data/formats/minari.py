"""Episodes to and from Minari datasets (minari.farama.org), in the user's own Minari folder."""

import contextlib
import copy
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
from gymnasium.envs.registration import EnvSpec
from minari.data_collector import EpisodeBuffer
from minari.dataset._storages import get_minari_storage
from minari.dataset.episode_data import EpisodeData
from minari.dataset.minari_dataset import parse_dataset_id
from minari.dataset.minari_storage import MinariStorage
from minari.namespace import create_namespace, list_local_namespaces
from minari.storage import get_dataset_path

from decision_rnn.data.episode import Episode, as_episodes
from decision_rnn.data.layouts import Layout
from decision_rnn.data.spec import read_space
from decision_rnn.data.verification import CacheError, sha256_of
from decision_rnn.environments import environments
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.files import new_directory

METADATA_FILE = "metadata.json"
PART_LENGTH = 100  # characters per part of a name: file systems allow about 250, of which we need some
OUR_METADATA = "decision_rnn"  # the key in metadata.json under which we keep what Minari has no field for


def check_id(dataset_id: str) -> None:
    """Raise InputError unless the id is valid for Minari: nothing but names and slashes."""
    with contextlib.suppress(ValueError, TypeError):
        parse_dataset_id(dataset_id)
        if max(map(len, dataset_id.split("/"))) <= PART_LENGTH:
            return
    raise InputError(f"{dataset_id!r:.200} is not a Minari id: it must be such as mujoco/hopper/medium-v0")


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


def data_files(dataset_id: str) -> list[Path]:
    """The files of the local dataset, sorted; empty if it is not here, or not completely."""
    folder = dataset_folder(dataset_id) / "data"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return files if len(files) > 1 and folder / METADATA_FILE in files else []


def write_dataset(
    dataset_id: str,
    episodes: Iterable[Episode],
    *,
    environment_id: str | None,
    spaces: tuple[gymnasium.Space[Any], gymnasium.Space[Any]],
    metadata: dict[str, Any],
    source: dict[str, Any],
    settings: dict[str, Any] | None = None,
) -> None:
    """Write `episodes`, one at a time, as the new Minari dataset `dataset_id`, atomically; an existing one is kept.

    `metadata` holds Minari's own fields (author, description, ref_min_score, ...). `source` says where the episodes
    come from, in plain JSON; it is kept in metadata.json with the SHA-256 of the data. `settings` are those of the
    environment, as returned by `environment_of`. `spaces` of observations and actions replace the environment's if it
    is not registered here, or not with these settings.
    """
    register_namespace(dataset_id)
    specification = {} if environment_id is None else json.loads(EnvSpec(environment_id).to_json()) | (settings or {})
    if environment_id is not None and environments.describe_alteration(environment_id, settings) is None:
        with contextlib.suppress(environments.MissingEnvironmentError):
            spaces = environments.environment_spaces(environment_id)
            specification |= environments.registered_settings(environment_id)
            with contextlib.suppress(ValueError):  # it was registered with a class, which JSON cannot name
                specification = json.loads(gymnasium.spec(environment_id).to_json())
    layouts = [Layout.of_space(space, "values") for space in spaces]
    # create_dataset_from_buffers would need all episodes in memory and would show a half-written dataset.
    with new_directory(dataset_folder(dataset_id)) as folder:
        storage = MinariStorage.new(folder / "data", *spaces)
        both = dict.fromkeys(("env_spec", "eval_env_spec"), json.dumps(specification)) if specification else {}
        storage.update_metadata({"dataset_id": dataset_id, "minari_version": minari.__version__, **both, **metadata})
        storage.update_episodes(_to_buffer(episode, *layouts) for episode in episodes)
        (data,) = (path for path in (folder / "data").iterdir() if path.name != METADATA_FILE)
        storage.update_metadata({OUR_METADATA: {"sha256": sha256_of(data), **source}})


def register_namespace(dataset_id: str) -> None:
    """Register the dataset's namespace, without which Minari does not list the dataset."""
    namespace = parse_dataset_id(dataset_id)[0]
    if namespace is not None and namespace not in list_local_namespaces():
        with contextlib.suppress(ValueError):  # another process was faster
            create_namespace(namespace)


def _to_buffer(episode: Episode, seen: Layout, acted: Layout) -> EpisodeBuffer:
    ends = np.zeros((2, len(episode.rewards)), bool)
    ends[:, -1] = episode.terminated, episode.truncated
    return EpisodeBuffer(
        seed=episode.seed,
        observations=seen.values(episode.observations),
        actions=acted.values(episode.actions),
        rewards=episode.rewards,
        terminations=ends[0],
        truncations=ends[1],
    )


def read_source(dataset_id: str) -> dict[str, Any]:
    """The `source` that `write_dataset` was given for the local dataset, with the SHA-256 of its data.

    Raises InputError if the dataset was not written by `write_dataset`, CacheError if its data have changed.
    """
    folder = dataset_folder(dataset_id)
    try:
        source: dict[str, Any] = json.loads((folder / "data" / METADATA_FILE).read_bytes())[OUR_METADATA]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{folder} was not made by decision_rnn: move it away, its name is needed") from None
    if [sha256_of(file) for file in data_files(dataset_id) if file.name != METADATA_FILE] != [source["sha256"]]:
        raise CacheError(f"the data in {folder} are corrupt, their SHA-256 is not that in {METADATA_FILE}", folder)
    return source


def read_metadata(dataset_id: str) -> dict[str, Any]:
    """The contents of the local dataset's metadata.json; raises InputError if either is missing or unreadable."""
    path = dataset_folder(dataset_id) / "data" / METADATA_FILE
    if not path.parent.is_dir():
        raise InputError(
            f"there is no Minari dataset {dataset_id} in {dataset_folder('')}: "
            f"fetch a published one with `decision-rnn data download minari/{dataset_id}`"
        )
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        raise InputError(f"{path} cannot be read as metadata: fetch or write it again") from None


def environment_of(metadata: dict[str, Any], where: str) -> tuple[str | None, dict[str, Any] | None]:
    """The Gymnasium id and the settings of a dataset's evaluation environment, from its metadata.

    The settings are `kwargs`, `max_episode_steps` and `additional_wrappers` as in the dataset, in plain JSON. The
    environment need not be installed; nothing that a dataset names is made, as it could be any code. Both are None for
    data of no environment. Raises InputError, with `where` for the dataset, if what it names is none.
    """
    if not (metadata.get("eval_env_spec") or metadata.get("env_spec")):
        return None, None
    try:
        given = json.loads(metadata.get("eval_env_spec") or metadata["env_spec"])
        kwargs, unseen = given.get("kwargs") or {}, environments.RENDERING_ARGUMENTS
        arguments = {key: value for key, value in kwargs.items() if key not in unseen}
        settings = {
            "kwargs": arguments,
            **{key: given.get(key) for key in ("max_episode_steps", "additional_wrappers")},
        }
        settings = copy.deepcopy(settings)  # fails if nested too deeply for a checkpoint
        return environments.check_id(given["id"], where), settings
    except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError):
        raise InputError(f"{where} names no environment: write its env_spec into {METADATA_FILE}") from None


def describe(dataset_id: str) -> dict[str, Any]:
    """What a store keeps of the local dataset's metadata, which third parties write: `reference_scores`, the returns
    that score 0 and 1, if it has them, and `requirements`, the packages declared for its environment."""
    metadata = read_metadata(dataset_id)
    scores = [metadata.get("ref_min_score"), metadata.get("ref_max_score")]
    numbers = [float(score) for score in scores if isinstance(score, int | float) and math.isfinite(score)]
    stated = metadata.get("requirements")
    return {
        "reference_scores": numbers if len(numbers) == 2 and numbers[0] < numbers[1] else None,
        "requirements": [entry for entry in stated if isinstance(entry, str)] if isinstance(stated, list) else [],
    }


def read_episodes(dataset_id: str) -> Iterator[Episode]:
    """Yield the episodes of the local Minari dataset `dataset_id`, in order, by Minari's own reader.

    Raises InputError if there is no such dataset here, or it cannot be read.
    """
    folder = str(dataset_folder(dataset_id))
    layouts = environments.layouts_of(spaces_of(dataset_id) or (None, None), folder)
    yield from as_episodes(_read(dataset_id), folder, layouts)


def spaces_of(dataset_id: str) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]] | None:
    """The spaces of an observation and an action in the local dataset's metadata; None if they do not say."""
    metadata = read_metadata(dataset_id)
    try:
        found = [read_space(metadata[f"{kind}_space"]) for kind in ("observation", "action")]
    except Exception:  # third parties write them: any type of error
        return None
    return found[0], found[1]


def _read(dataset_id: str) -> Iterator[EpisodeData]:
    """Read the episodes: Minari's own way to open a dataset may make the environment that it names."""
    metadata, folder = read_metadata(dataset_id), dataset_folder(dataset_id) / "data"
    vector = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    spaces = spaces_of(dataset_id) or (vector, vector)
    try:
        storage = get_minari_storage(metadata.get("data_format", "hdf5"))(folder, *spaces)
        steps = 0
        for data in storage.get_episodes(range(metadata["total_episodes"])):
            steps += len(data["rewards"])
            yield EpisodeData(**data)
        if steps != metadata["total_steps"]:
            raise ValueError(f"it has {steps} steps where its metadata say {metadata['total_steps']}")
    except Exception as error:  # Minari and its storages raise many types for a damaged dataset
        raise InputError(f"{folder} cannot be read by Minari ({one_line(error)}): fetch or write it again") from None

"""Episodes to and from Minari datasets (minari.farama.org), in the user's own Minari folder."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_dataset import parse_dataset_id
from minari.dataset.minari_storage import MinariStorage
from minari.namespace import create_namespace, list_local_namespaces
from minari.storage import get_dataset_path

from decision_rnn.data.episodes import CacheError, Episode, sha256_of
from decision_rnn.errors import InputError
from decision_rnn.files import new_directory

DATA_FILE = "main_data.hdf5"
OUR_METADATA = "decision_rnn"  # the key in metadata.json under which we keep what Minari has no field for


def dataset_folder(dataset_id: str) -> Path:
    """Where the dataset lies: under `$MINARI_DATASETS_PATH`, or `~/.minari/datasets`."""
    return Path(get_dataset_path(dataset_id))


def write_dataset(
    dataset_id: str,
    episodes: Iterable[Episode],
    *,
    environment_id: str,
    metadata: dict[str, Any],
    source: dict[str, Any],
) -> None:
    """Write `episodes`, one at a time, as the new Minari dataset `dataset_id`: whole or not at all.

    `metadata` holds Minari's own fields (author, description, ref_min_score, ...). `source` says where the
    episodes come from, in plain JSON; it is kept in metadata.json with the SHA-256 of the data.
    A dataset of that id that exists already is kept.
    """
    _register_namespace(dataset_id)
    # create_dataset_from_buffers would need all episodes in memory and would show a half-written dataset.
    with new_directory(dataset_folder(dataset_id)) as folder:
        specification = gymnasium.spec(environment_id)
        storage = MinariStorage.new(folder / "data", env_spec=specification)
        storage.update_metadata(
            {
                "dataset_id": dataset_id,
                "minari_version": minari.__version__,
                "eval_env_spec": specification.to_json(),
                **metadata,
            }
        )
        storage.update_episodes(_to_buffer(episode) for episode in episodes)
        checksum = sha256_of(folder / "data" / DATA_FILE)
        storage.update_metadata({OUR_METADATA: {"sha256": checksum, **source}})


def _register_namespace(dataset_id: str) -> None:
    """Make the dataset's namespace known, without which Minari's listing leaves the dataset out."""
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
    """What `write_dataset` was told of the local dataset's source, with the SHA-256 of its data.

    Raises InputError when `write_dataset` did not write the dataset, CacheError when its data have changed.
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


def read_episodes(dataset_id: str) -> Iterator[Episode]:
    """Yield the episodes of the local Minari dataset `dataset_id`, in order.

    Raises InputError when there is no such dataset here, when it cannot be read, and when its observations or
    actions are not flat vectors.
    """
    try:
        dataset = minari.load_dataset(dataset_id)
        for name, space in (("observations", dataset.observation_space), ("actions", dataset.action_space)):
            if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
                raise InputError(f"the Minari dataset {dataset_id} has {name} that are not flat vectors: {space}")
        for episode in dataset.iterate_episodes():
            yield Episode(
                np.asarray(episode.observations),
                np.asarray(episode.actions),
                np.asarray(episode.rewards),
                terminated=bool(episode.terminations[-1]),
                truncated=bool(episode.truncations[-1]),
            )
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(
            f"there is no Minari dataset {dataset_id} in {dataset_folder('')}: "
            f"fetch a published one with `minari download {dataset_id}`"
        ) from None
    except Exception as error:  # h5py and Minari raise many kinds for a damaged file
        folder = dataset_folder(dataset_id)
        raise InputError(f"the Minari dataset {folder} cannot be read ({error}): delete or mend it") from error

"""Minari's datasets (minari.farama.org): those in the user's own Minari folder, and published ones to download."""

import contextlib
import json
import sys
import warnings
from collections.abc import Iterator
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

from decision_rnn.data.cache import identify, is_made_of
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments import registry
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.layouts import Layout
from decision_rnn.environments.registry import RENDERING_ARGUMENTS, describe_alteration, known_spaces, settings_of
from decision_rnn.environments.spaces import Spaces, read_space
from decision_rnn.environments.tasks import TASKS
from decision_rnn.utils.errors import InputError, one_line, reading
from decision_rnn.utils.files import new_directory
from decision_rnn.utils.messages import progress_bar

METADATA_FILE = "metadata.json"
LEVELS = ("simple", "medium", "expert")


@register_source
class MinariSource(Source):
    """Minari's datasets, downloaded if they are not in the user's Minari folder. A store made from other contents than
    the dataset's is made again."""

    prefix = "minari"
    pattern = "minari/ID"

    def names(self) -> list[str]:
        """The published datasets of the known tasks, and all in the user's Minari folder."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that hold no dataset
            local = minari.list_local_datasets()
        published = [f"mujoco/{task}/{level}-v0" for task in TASKS for level in LEVELS]
        return [f"minari/{dataset_id}" for dataset_id in dict.fromkeys([*published, *local])]

    def check(self, name: str) -> None:
        check_dataset_id(name.removeprefix("minari/"))

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        """The episodes; the environment they were collected in need not be installed."""
        dataset_id = name.removeprefix("minari/")

        def make(folder: Path) -> EpisodeStore:
            if not data_files(dataset_id):
                _download(dataset_id)
            metadata = read_metadata(dataset_id)
            environment_id, settings = environment_of(metadata, f"the Minari dataset {name}")
            return EpisodeStore.write(
                folder,
                progress_bar(read_minari(dataset_id), "converting", unit=" episodes"),
                environment_id=environment_id,
                source={
                    "files": identify(data_files(dataset_id)),
                    "environment_settings": settings,
                    "reference_scores": _reference_scores(metadata),
                    "requirements": list(map(str, metadata.get("requirements") or [])),
                },
                spaces=_spaces(metadata) or known_spaces(environment_id, settings) or (None, None),
            )

        def is_current(source: dict[str, Any]) -> bool:
            files = data_files(dataset_id)
            return not files or is_made_of(source["files"], files)

        return open_or_make(name, is_current, make)


def check_dataset_id(dataset_id: str) -> None:
    """Raise InputError unless the id is valid for Minari: nothing but names and slashes."""
    with reading(repr(dataset_id), "a Minari id, such as mujoco/hopper/medium-v0"):
        parse_dataset_id(dataset_id)


def dataset_folder(dataset_id: str) -> Path:
    """The folder of the dataset, under `$MINARI_DATASETS_PATH` or `~/.minari/datasets`, which is created."""
    return Path(get_dataset_path(dataset_id))


def data_files(dataset_id: str) -> list[Path]:
    """The files of the local dataset, sorted; empty if it is not here, or not completely."""
    folder = dataset_folder(dataset_id) / "data"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return files if len(files) > 1 and folder / METADATA_FILE in files else []


def read_metadata(dataset_id: str) -> dict[str, Any]:
    """The contents of the local dataset's metadata.json; raises InputError if either is missing or unreadable."""
    path = dataset_folder(dataset_id) / "data" / METADATA_FILE
    with reading(path, "Minari's metadata"):
        return dict(json.loads(path.read_bytes()))


def environment_of(metadata: dict[str, Any], where: str) -> tuple[str | None, dict[str, Any] | None]:
    """The Gymnasium id and the settings of a dataset's evaluation environment, from its metadata.

    The settings are `kwargs`, `max_episode_steps` and `additional_wrappers` as in the dataset, in plain JSON. The
    environment need not be installed; nothing that a dataset names is made, as it could be any code. Both are None for
    data of no environment. Raises InputError, with `where` for the dataset, if what it names is none.
    """
    if not (metadata.get("eval_env_spec") or metadata.get("env_spec")):
        return None, None
    with reading(f"env_spec of {where}", "an environment"):
        described = json.loads(metadata.get("eval_env_spec") or metadata["env_spec"])
        kwargs = (described.get("kwargs") or {}).items()
        settings = {
            "kwargs": {key: value for key, value in kwargs if key not in RENDERING_ARGUMENTS},
            **{key: described.get(key) for key in ("max_episode_steps", "additional_wrappers")},
        }
        return registry.check_id(described["id"], where), settings


def read_minari(dataset_id: str) -> Iterator[EpisodeData]:
    """The episodes of the local dataset, in order: Minari's own way to open a dataset may make the environment that it
    names. Raises InputError if there is no such dataset here, or it cannot be read."""
    metadata, folder = read_metadata(dataset_id), dataset_folder(dataset_id) / "data"
    vector = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    spaces = _spaces(metadata) or (vector, vector)
    with reading(folder, "Minari's data"):
        storage = get_minari_storage(metadata.get("data_format", "hdf5"))(folder, *spaces)
        for data in storage.get_episodes(range(metadata["total_episodes"])):
            yield EpisodeData(**data)


def write_minari(dataset_id: str, store: EpisodeStore, spec: DatasetSpec) -> None:
    """Write a store as the new Minari dataset `dataset_id`, one episode at a time, atomically; an existing one is
    kept."""
    _register_namespace(dataset_id)
    environment = {}
    if store.environment_id is not None:
        description = json.loads(EnvSpec(store.environment_id).to_json()) | (spec.environment_settings or {})
        altered = describe_alteration(store.environment_id, spec.environment_settings)
        if altered is None and (known := registry.registered(store.environment_id)) is not None:
            description |= settings_of(known)
            with contextlib.suppress(ValueError):  # it was registered with a class, which JSON cannot name
                description = json.loads(known.to_json())
        environment = dict.fromkeys(("env_spec", "eval_env_spec"), json.dumps(description))
    metadata = {
        "dataset_id": dataset_id,
        "minari_version": minari.__version__,
        **environment,
        **({"requirements": list(spec.requirements)} if spec.requirements else {}),
        "description": f"{spec.name}, exported by decision_rnn: {spec.comparable}",
        "ref_min_score": spec.reference_min,
        "ref_max_score": spec.reference_max,
    }
    spaces = store.observation_space, store.action_space
    observations, actions = (Layout.of_space(space, "values") for space in spaces)

    def to_buffer(episode: Episode) -> EpisodeBuffer:
        last = np.arange(len(episode.rewards)) == len(episode.rewards) - 1
        return EpisodeBuffer(
            observations=observations.values(episode.observations),
            actions=actions.values(episode.actions),
            rewards=episode.rewards,
            terminations=last & episode.terminated,
            truncations=last & episode.truncated,
        )

    # create_dataset_from_buffers would need all episodes in memory and would show a half-written dataset.
    with new_directory(dataset_folder(dataset_id)) as folder:
        storage = MinariStorage.new(folder / "data", *spaces)
        storage.update_metadata(metadata)
        storage.update_episodes(map(to_buffer, store))


def _register_namespace(dataset_id: str) -> None:
    """Register the dataset's namespace, without which Minari does not list the dataset."""
    namespace = parse_dataset_id(dataset_id)[0]
    if namespace is not None and namespace not in list_local_namespaces():
        with contextlib.suppress(ValueError):  # another process was faster
            create_namespace(namespace)


def _reference_scores(metadata: dict[str, Any]) -> list[float] | None:
    """The returns that score 0 and 1 in a dataset's metadata, which third parties write; None if it has none."""
    scores = [metadata.get("ref_min_score"), metadata.get("ref_max_score")]
    numbers = [float(score) for score in scores if isinstance(score, int | float)]
    return numbers if len(numbers) == 2 and numbers[0] < numbers[1] else None


def _spaces(metadata: dict[str, Any]) -> Spaces | None:
    """The spaces of an observation and an action in a dataset's metadata; None if they do not say."""
    try:
        observations, actions = (
            read_space(json.loads(metadata[f"{kind}_space"])) for kind in ("observation", "action")
        )
    except Exception:  # third parties write them: any type of error
        return None
    return observations, actions


def _download(dataset_id: str) -> None:
    """Download a published dataset with Minari's own client, which resumes what it has begun; InputError, with the
    client's reason, if it cannot."""
    target = dataset_folder(dataset_id)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            minari.download_dataset(dataset_id, force_download=target.exists())
        read_metadata(dataset_id)
    except Exception as error:  # from Minari, its host's client or the network
        raise InputError(
            f"cannot download the Minari dataset {dataset_id} ({one_line(error)}). Check the network and `pip install "
            f"huggingface_hub`, or put the dataset into {target} by other means."
        ) from None
    _register_namespace(dataset_id)

"""Minari's datasets (minari.farama.org): those in the user's own Minari folder, and published ones, downloaded."""

import itertools
import re
import warnings
from pathlib import Path
from typing import Any

import minari as minari_package
from tqdm import tqdm

from decision_rnn.data.environments import of_environment
from decision_rnn.data.formats import minari
from decision_rnn.data.spec import BODIES, D4RL_REFERENCES, DatasetSpec, spec_of_store
from decision_rnn.data.store.cache import check_room, check_unchanged, identify, open_or_make, store_folder
from decision_rnn.data.store.episodes import EpisodeStore
from decision_rnn.errors import InputError

PATTERN = "minari/ID"
PUBLISHED = re.compile(rf"mujoco/({'|'.join(BODIES)})/(simple|medium|expert|medium-expert)-v(\d+)")


def names() -> list[str]:
    """The published ones of the bodies we know, and all in the user's Minari folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of folders that hold no dataset
        local = minari_package.list_local_datasets()
    levels = ("simple", "medium", "expert", "medium-expert")
    published = [f"mujoco/{body}/{level}-v0" for body in BODIES for level in levels]
    return [f"minari/{dataset_id}" for dataset_id in dict.fromkeys([*published, *local])]


def lookup(name: str) -> DatasetSpec:
    """The spec of `name`: known for the published MuJoCo sets, else read from the dataset, which is converted."""
    published = PUBLISHED.fullmatch(_id(name))
    if published is None:
        return spec_of_store(name, open_store(name, True, None))
    body = BODIES[published[1]]
    return body.spec(name, f"{body.environment}-v5", D4RL_REFERENCES)


def open_store(name: str, progress: bool, path: Path | None) -> EpisodeStore:
    """The episodes of the Minari dataset, downloaded where it is not in the user's Minari folder.

    `mujoco/BODY/medium-expert-v0`, which Minari does not publish, is `medium-v0` and `expert-v0` end to end. A store
    made from other contents than the dataset's is made again.
    """
    if path is not None:
        raise InputError(f"{name} is read from Minari's folder {minari.dataset_folder('')}: leave out --path")
    ids = parts(name)

    def check(source: dict[str, Any]) -> None:
        if all(is_local(dataset_id) for dataset_id in ids):
            check_unchanged(source["files"], _files(ids), store_folder(name))

    return open_or_make(name, check, lambda folder: _convert(name, ids, folder, progress))


def parts(name: str) -> list[str]:
    """The ids of the datasets that make up `name`."""
    published = PUBLISHED.fullmatch(_id(name))
    if published is None or published[2] != "medium-expert":
        return [_id(name)]
    return [f"mujoco/{published[1]}/{level}-v{published[3]}" for level in ("medium", "expert")]


def is_local(dataset_id: str) -> bool:
    """Whether the dataset lies in the user's Minari folder."""
    return (minari.dataset_folder(dataset_id) / "data").is_dir()


def download(name: str, progress: bool) -> list[Path]:
    """Bring the datasets that make up `name` into the user's Minari folder; returns their folders."""
    for dataset_id in parts(name):
        if not is_local(dataset_id):
            minari.download_dataset(dataset_id)
    return [minari.dataset_folder(dataset_id) for dataset_id in parts(name)]


def _id(name: str) -> str:
    dataset_id = name.removeprefix("minari/")
    minari.check_id(dataset_id)
    return dataset_id


def _files(ids: list[str]) -> list[Path]:
    folders = [minari.dataset_folder(dataset_id) / "data" for dataset_id in ids]
    files = [folder / name for folder in folders for name in (minari.DATA_FILE, minari.METADATA_FILE)]
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} is not there: fetch or write the dataset again")
    return files


def _convert(name: str, ids: list[str], folder: Path, progress: bool) -> EpisodeStore:
    download(name, progress)
    identities = identify(_files(ids))
    environment_ids = {minari.recover_environment(dataset_id) for dataset_id in ids}
    published = PUBLISHED.fullmatch(_id(name))
    if published is not None and {e.rpartition("-v")[0] for e in environment_ids} != {BODIES[published[1]].environment}:
        raise InputError(f"{name} was collected in {', '.join(sorted(environment_ids))}: it is not what its name says")
    environment_id = environment_ids.pop()
    check_room(folder, sum(identity["bytes"] for identity in identities))
    episodes = itertools.chain.from_iterable(minari.read_episodes(dataset_id) for dataset_id in ids)
    return EpisodeStore.write(
        folder,
        tqdm(
            of_environment(episodes, environment_id, name),
            "converting",
            unit=" episodes",
            disable=None if progress else True,
        ),
        environment_id=environment_id,
        source={"files": identities, "minari": ids, "reference_scores": minari.reference_scores(ids[0]), "notes": []},
    )

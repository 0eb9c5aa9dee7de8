"""Minari's datasets (minari.farama.org): those in the user's own Minari folder, and published ones to download."""

import contextlib
import itertools
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import minari as minari_package

from decision_rnn.data.environments import (
    MissingEnvironmentError,
    describe_alteration,
    environment_sizes,
    of_environment,
)
from decision_rnn.data.formats import minari
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import D4RL_REFERENCES, TASKS, DatasetSpec, spec_of_store, task_of
from decision_rnn.data.store.cache import check_room, check_unchanged, identify, open_or_make, store_folder
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError
from decision_rnn.messages import bar

PUBLISHED = re.compile(rf"mujoco/({'|'.join(TASKS)})/(simple|medium|expert|medium-expert)-v(\d+)")

ANT_OBSERVATIONS = 105  # of Ant-v5, with contact forces


@register_source
class MinariSource(Source):
    """Minari's datasets, downloaded if they are not in the user's Minari folder.

    `mujoco/TASK/medium-expert-v0`, which Minari does not publish, is `medium-v0` and `expert-v0` end to end. A store
    made from other contents than the dataset's is made again.
    """

    prefix = "minari"
    pattern = "minari/ID"

    def names(self) -> list[str]:
        """The published datasets of the known tasks, and all in the user's Minari folder."""
        minari.dataset_folder("")  # raises an InputError where list_local_datasets raises an OSError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that hold no dataset
            local = minari_package.list_local_datasets()
        levels = ("simple", "medium", "expert", "medium-expert")
        published = [f"mujoco/{task}/{level}-v0" for task in TASKS for level in levels]
        return [f"minari/{dataset_id}" for dataset_id in dict.fromkeys([*published, *local])]

    def spec(self, name: str) -> DatasetSpec:
        """Predefined for the published MuJoCo datasets, otherwise read from the dataset, which is then converted."""
        published = PUBLISHED.fullmatch(_id(name))
        if published is None:
            return spec_of_store(name, self.open(name, True, None))
        task = TASKS[published[1]]
        observed = ANT_OBSERVATIONS if task.environment == "Ant" else None
        return task.spec(name, f"{task.environment}-v5", D4RL_REFERENCES, observed)

    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        """The episodes; the environment they were collected in need not be installed."""
        if path is not None:
            raise InputError(f"{name} is read from Minari's folder {minari.dataset_folder('')}: leave out --path")
        ids = _parts(name)

        def check(source: dict[str, Any]) -> None:
            if all(_is_local(dataset_id) for dataset_id in ids):
                check_unchanged(source["files"], _files(ids), store_folder(name))

        return open_or_make(name, check, lambda folder: self._convert(name, ids, folder, progress))

    def download(self, name: str, progress: bool) -> list[Path]:
        """Download the datasets that make up `name` into the user's Minari folder; returns their folders."""
        for dataset_id in _parts(name):
            if not _is_local(dataset_id):
                _download(dataset_id)
        return [minari.dataset_folder(dataset_id) for dataset_id in _parts(name)]

    def _convert(self, name: str, ids: list[str], folder: Path, progress: bool) -> EpisodeStore:
        self.download(name, progress)
        identities = identify(_files(ids))
        environment_id, settings = self._environment(name, ids)
        check_room(folder, sum(identity["bytes"] for identity in identities))
        episodes = itertools.chain.from_iterable(minari.read_episodes(dataset_id) for dataset_id in ids)
        sizes = minari.sizes(ids[0])
        if describe_alteration(environment_id, settings) is None:
            with contextlib.suppress(MissingEnvironmentError):  # it is needed to evaluate, not to read
                sizes = environment_sizes(environment_id)
        return EpisodeStore.write(
            folder,
            bar(
                of_environment(episodes, environment_id, name, sizes),
                "converting",
                unit=" episodes",
                show=progress,
            ),
            environment_id=environment_id,
            source={
                "files": identities,
                "minari": ids,
                "reference_scores": minari.reference_scores(ids[0]),
                "requirements": minari.requirements(ids[0]),
                "environment_settings": settings,
                "notes": [],
            },
        )

    def _environment(self, name: str, ids: list[str]) -> tuple[str, dict[str, Any]]:
        """The environment of the datasets that make up `name`, and its settings."""
        environment_id, settings = minari.read_environment(ids[0])
        others = [minari.read_environment(dataset_id) for dataset_id in ids[1:]]
        published = PUBLISHED.fullmatch(_id(name))
        if published is None:
            return environment_id, settings
        altered = describe_alteration(environment_id, settings)
        same = all(other == (environment_id, settings) for other in others)
        if task_of(environment_id) != TASKS[published[1]] or altered or not same:
            found = " and ".join(dict.fromkeys([environment_id, *(other for other, _ in others)]))
            found += f" with {altered}" if altered else ""
            raise InputError(f"{name} was collected in {found}: it is not what its name says")
        return environment_id, settings


def _parts(name: str) -> list[str]:
    """The ids of the datasets that make up `name`."""
    published = PUBLISHED.fullmatch(_id(name))
    if published is None or published[2] != "medium-expert":
        return [_id(name)]
    return [f"mujoco/{published[1]}/{level}-v{published[3]}" for level in ("medium", "expert")]


def _is_local(dataset_id: str) -> bool:
    """Whether the dataset is in the user's Minari folder."""
    return (minari.dataset_folder(dataset_id) / "data").is_dir()


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


def _download(dataset_id: str) -> None:
    """Download a published dataset with Minari's own client, atomically.

    Raises InputError, with the client's reason, if it cannot.
    """
    target = minari.dataset_folder(dataset_id)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=minari.dataset_folder("")) as folder:
        try:
            # The client writes into Minari's folder piece by piece; a partial dataset must not be found there.
            with _datasets_in(folder), contextlib.redirect_stdout(sys.stderr):
                minari_package.download_dataset(dataset_id)
            (Path(folder) / dataset_id / "data" / minari.DATA_FILE).stat()
        except Exception as error:  # from Minari, its host's client or the network
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(
                f"cannot download the Minari dataset {dataset_id} ({reason:.300}): see that there is a network and "
                f"`pip install huggingface_hub`, or put the dataset into {target} by other means"
            ) from None
        with contextlib.suppress(OSError):  # another process was faster
            (Path(folder) / dataset_id).rename(target)
    minari.register_namespace(dataset_id)


@contextlib.contextmanager
def _datasets_in(folder: str) -> Iterator[None]:
    """Make Minari keep its datasets in another folder; it reads the environment variable at every call."""
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before

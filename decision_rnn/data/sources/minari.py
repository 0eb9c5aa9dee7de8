"""Minari's datasets (minari.farama.org): those in the user's own Minari folder, and published ones to download."""

import contextlib
import itertools
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import minari as client

from decision_rnn.data.cache import identify, is_made_of, made_manifest, open_or_make
from decision_rnn.data.formats import minari
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import D4RL_REFERENCES, TASKS, DatasetSpec, described_spaces, spec_of_store, task_of
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.environments import describe_alteration, known_spaces, layouts_of, sizes_of
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import bar

LEVELS = ("simple", "medium", "expert", "medium-expert")
PUBLISHED = re.compile(rf"mujoco/({'|'.join(TASKS)})/({'|'.join(LEVELS)})-v(\d+)")
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
            local = client.list_local_datasets()
        published = [f"mujoco/{task}/{level}-v0" for task in TASKS for level in LEVELS]
        return [f"minari/{dataset_id}" for dataset_id in dict.fromkeys([*published, *local])]

    def spec(self, name: str) -> DatasetSpec:
        """Predefined for the published MuJoCo datasets; otherwise read from the dataset, which is then converted.

        Raises InputError if a dataset that is not predefined is not here: it is not downloaded.
        """
        published = PUBLISHED.fullmatch(_id(name))
        if published is None:
            if made_manifest(name) is None:
                minari.read_metadata(_id(name))
            return spec_of_store(name, self.open(name, True, None))
        task = TASKS[published[1]]
        observed = ANT_OBSERVATIONS if task.environment == "Ant" else None
        return task.spec(name, f"{task.environment}-v5", D4RL_REFERENCES, observed)

    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        """The episodes; the environment they were collected in need not be installed."""
        if path is not None:
            raise InputError(f"{name} is read from Minari's folder {minari.dataset_folder('')}: leave out --path")
        ids = _parts(name)

        def made_of_these(source: dict[str, Any]) -> bool:
            return not all(map(minari.data_files, ids)) or is_made_of(source["files"], _files(ids))

        return open_or_make(name, made_of_these, lambda folder: self._convert(name, ids, folder, progress))

    def download(self, name: str, progress: bool) -> list[Path]:
        """Download the datasets that make up `name` into the user's Minari folder; returns their folders."""
        for dataset_id in _parts(name):
            if not minari.data_files(dataset_id):
                _download(dataset_id)
        return [minari.dataset_folder(dataset_id) for dataset_id in _parts(name)]

    def _convert(self, name: str, ids: list[str], folder: Path, progress: bool) -> EpisodeStore:
        self.download(name, progress)
        identities = identify(_files(ids))
        named = [minari.environment_of(minari.read_metadata(i), f"the Minari dataset {i}") for i in ids]
        environment_id, settings = named[0]
        published = PUBLISHED.fullmatch(_id(name))
        if published is not None:
            altered = describe_alteration(environment_id, settings)
            if task_of(environment_id) != TASKS[published[1]] or altered or named[1:] not in ([], named[:1]):
                found = " and ".join(dict.fromkeys(str(other) for other, _ in named))
                found += f" with {altered}" if altered else ""
                raise InputError(f"{name} was collected in {found}: it is not what its name says")
        known = known_spaces(environment_id, settings)
        spaces = minari.spaces_of(ids[0]) or known or (None, None)
        episodes = itertools.chain.from_iterable(map(minari.read_episodes, ids))
        described = {**minari.describe(ids[0]), "environment_settings": settings, "notes": []}
        described["spaces"] = described_spaces(*spaces)
        return EpisodeStore.write(
            folder,
            bar(episodes, "converting", unit=" episodes", show=progress),
            environment_id=environment_id,
            source={"files": identities, "minari": ids, **described},
            sizes=sizes_of(layouts_of(known or spaces, name)),
        )


def _parts(name: str) -> list[str]:
    """The ids of the datasets that make up `name`."""
    published = PUBLISHED.fullmatch(_id(name))
    if published is None or published[2] != "medium-expert":
        return [_id(name)]
    return [f"mujoco/{published[1]}/{level}-v{published[3]}" for level in ("medium", "expert")]


def _files(ids: list[str]) -> list[Path]:
    return [file for dataset_id in ids for file in minari.data_files(dataset_id)]


def _id(name: str) -> str:
    dataset_id = name.removeprefix("minari/")
    minari.check_id(dataset_id)
    return dataset_id


def _download(dataset_id: str) -> None:
    """Download a published dataset with Minari's own client, which resumes what it has begun.

    Raises InputError, with the client's reason, if it cannot.
    """
    target = minari.dataset_folder(dataset_id)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            client.download_dataset(dataset_id, force_download=target.exists())
        minari.read_metadata(dataset_id)
    except Exception as error:  # from Minari, its host's client or the network
        raise InputError(
            f"cannot download the Minari dataset {dataset_id} ({one_line(error)}): see that there is a network and "
            f"`pip install huggingface_hub`, or put the dataset into {target} by other means"
        ) from None
    minari.register_namespace(dataset_id)

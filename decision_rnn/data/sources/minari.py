"""Minari's datasets (minari.farama.org): those in the user's own Minari folder, and published ones to download."""

import contextlib
import itertools
import re
import sys
import warnings
from pathlib import Path

import minari as client

from decision_rnn.data.cache import identify, is_made_of
from decision_rnn.data.formats import minari
from decision_rnn.data.sources.contract import Source, refuse_path, register_source
from decision_rnn.data.spec import D4RL_REFERENCES, TASKS, DatasetSpec, spec_of_store, task_of
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments.settings import describe_alteration, known_spaces
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.messages import bar

LEVELS = ("simple", "medium", "expert", "medium-expert")
PUBLISHED = re.compile(rf"mujoco/({'|'.join(TASKS)})/({'|'.join(LEVELS)})-v(\d+)")


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

    def check(self, name: str) -> None:
        minari.check_id(_id(name))

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        """As the dataset's metadata say; for the published MuJoCo datasets, D4RL's references."""
        published = PUBLISHED.fullmatch(_id(name))
        stated = {**TASKS[published[1]].scores(), "comparable": D4RL_REFERENCES} if published else {}
        return spec_of_store(name, store, **stated)

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        """The episodes; the environment they were collected in need not be installed."""
        refuse_path(name, path)
        ids = _parts(name)

        return open_or_make(
            name,
            lambda source: not all(map(minari.data_files, ids)) or is_made_of(source["files"], _files(ids)),
            lambda folder: self._convert(name, ids, folder),
        )

    def _convert(self, name: str, ids: list[str], folder: Path) -> EpisodeStore:
        for dataset_id in ids:
            if not minari.data_files(dataset_id):
                _download(dataset_id)
        metadata = [minari.read_metadata(dataset_id) for dataset_id in ids]
        environments = [minari.environment_of(each, f"the Minari dataset {name}") for each in metadata]
        environment_id, settings = environments[0]
        if published := PUBLISHED.fullmatch(_id(name)):
            altered = describe_alteration(environment_id, settings)
            if altered or task_of(environment_id) != TASKS[published[1]] or environments[-1] != environments[0]:
                raise InputError(f"{name} was collected in {environment_id} ({altered}): it is not what its name says.")
        return EpisodeStore.write(
            folder,
            bar(itertools.chain.from_iterable(map(minari.read_minari, ids)), "converting", unit=" episodes"),
            environment_id=environment_id,
            source={
                "files": identify(_files(ids)),
                "minari": ids,
                "environment_settings": settings,
                **minari.describe(metadata[0]),
            },
            spaces=minari.spaces_of(metadata[0]) or known_spaces(environment_id, settings) or (None, None),
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
    return name.removeprefix("minari/")


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
            f"cannot download the Minari dataset {dataset_id} ({one_line(error)}). Check the network and `pip install "
            f"huggingface_hub`, or put the dataset into {target} by other means."
        ) from None
    minari.register_namespace(dataset_id)

"""D4RL version 2 (Fu et al. 2020): published HDF5 files, found locally or downloaded, converted once.

Their layout holds steps end to end, cut into episodes by flags: `observations` (N, O), `actions` (N, A), `rewards`,
`terminals` and `timeouts` (N,) or (N, 1), of any numeric type; `next_observations` (N, O) if present. Everything else
in a file, such as `infos`, is ignored.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from decision_rnn.data.cache import identify, is_made_of
from decision_rnn.data.formats import read_arrays
from decision_rnn.data.logs import LogOptions
from decision_rnn.data.sources.contract import Source, file_places, find_file, register_source
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.tasks import TASKS, MujocoTask
from decision_rnn.utils.download import download, hub_folder
from decision_rnn.utils.errors import InputError, one_line, reading
from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import progress_bar, warn

FOLDER = "~/.d4rl/datasets"
LEVELS = ("random", "medium", "expert", "medium-replay", "full-replay", "medium-expert")
CONTACT_FORCES = 84  # columns after ant's 27 observations in D4RL's files; Ant-v4 does not give them
# A copy, whose files are accepted by their hashes: D4RL's own server has been down since August 2026.
ADDRESS = hub_folder("imone/D4RL", "9ed58d8a76c12f4c1cb5db51fa71389e703d2ec5")

SHA256: dict[str, str] = json.loads(Path(__file__).with_suffix(".json").read_text())
"""Hashes of the published files, by name without `-v2.hdf5`, from TensorFlow Datasets (d4rl_mujoco_*/checksums.tsv);
D4RL publishes none."""


@register_source
class D4RLSource(Source):
    """Version 2 of D4RL's datasets; earlier versions have wrong or missing flags."""

    prefix = "d4rl"
    pattern = "d4rl/TASK-LEVEL-v2"
    reads_files = True

    def names(self) -> list[str]:
        return [f"d4rl/{task}-{level}-v2" for task in TASKS for level in LEVELS]

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        comparable = f"the file is the published one, compare with papers on {name[5:]}"
        if not _is_published(name, store.source["files"]):
            comparable = f"the file is not D4RL's {name[5:]}: do not compare with published scores"
        return spec_of_store(name, store, comparable=f"the reference scores are D4RL's: {comparable}")

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        """The episodes of the file `path`, or else of `<task>_<level>-v2.hdf5` in `$DECISION_RNN_DATA` or in
        `~/.d4rl/datasets`. Without a file, an existing store is used; without a store, the file is downloaded."""
        file = find_file(name, path, file_places(f"{_stem(name)}-v2.hdf5", FOLDER), lambda: _download(name))
        return open_or_make(
            name,
            lambda source: file is None or is_made_of(source["files"], [file]),
            lambda folder: _convert(name, file or _download(name), folder),
        )


def _stem(name: str) -> str:
    """d4rl/hopper-medium-replay-v2 -> hopper_medium_replay"""
    return name.removeprefix("d4rl/").removesuffix("-v2").replace("-", "_")


def _is_published(name: str, files: list[dict[str, str]]) -> bool:
    """Whether these are D4RL's file, as recorded by `identify`."""
    return [file["sha256"] for file in files] == [SHA256[_stem(name)]]


def _download(name: str) -> Path:
    file = file_places(f"{_stem(name)}-v2.hdf5", FOLDER)[0]
    return download(file, ADDRESS, "Fetch it by other means and name it with --path.", SHA256[_stem(name)])


def _convert(name: str, file: Path, folder: Path) -> EpisodeStore:
    files, task = identify([file]), TASKS[_stem(name).partition("_")[0]]
    notes = [] if _is_published(name, files) else ["its SHA-256 is not that of the published file"]
    store = EpisodeStore.write(
        folder,
        progress_bar(read_d4rl(file, task), "converting", unit=" episodes"),
        # Version 4, because Walker2d in the data differs from version 5; Hopper and HalfCheetah are the same in both.
        environment_id=f"{task.environment}-v4",
        source={"files": files, "notes": notes},
        spaces=task.spaces(),
        label=str(file),
    )
    for note in notes:
        warn(f"{file}: {note}")
    return store


def read_d4rl(path: Path, task: MujocoTask) -> Iterator[Episode]:
    """The episodes of a file in D4RL's layout, which is read into memory; of Ant without contact forces.

    An episode ends where `terminals | timeouts` is true, and where the next row does not continue it (as at the seam of
    a medium-expert file, where an array was cut). The last episode of a file is usually cut off too: it is neither
    terminated nor truncated. Without `next_observations` the observation after an episode's last action is unknown, and
    the last observation is repeated.

    Raises:
        InputError: If the file is invalid; the message names the file and the key.
    """
    with reading(path, "HDF5"), h5py.File(path, "r") as file:
        keys = ("observations", "actions", "rewards", "terminals")
        optional = [key for key in ("timeouts", "next_observations") if key in file]
        arrays: dict[str, np.ndarray] = {key: file[key][()] for key in (*keys, *optional)}
        columns, size = arrays["observations"].shape[-1], task.observation_dim
    if columns not in (size, size + CONTACT_FORCES):
        raise InputError(f"{path}: observations has {columns} columns, expected {size}: another dataset's?")
    if columns > size:
        for key in {"observations", "next_observations"} & set(arrays):
            arrays[key] = arrays[key][:, :size]
    return read_arrays(str(path), arrays, LogOptions()).episodes


def write_d4rl(path: Path, store: EpisodeStore) -> None:
    """Write a store in D4RL's layout to the new file `path`, atomically.

    Choices are their numbers. Rewards are float64: with float32 the returns-to-go would differ in the last bit. Raises
    InputError if observations have several parts, or a partial episode could not be separated from the next one.
    """
    observations, actions = (store.layout(kind) for kind in ("observations", "actions"))
    if observations.parts[0].path:
        raise InputError(
            f"the observations of {store.path} are {one_line(store.observation_space)}, which D4RL's layout cannot "
            "hold. Export it as minari."
        )
    first, last = store.observations[store.offsets[:-1]], store.offsets[1:] - 1
    unflagged = ~(store.terminated | store.truncated)[:-1]
    if (unflagged & (store.final_observations[:-1] == first[1:]).all(1)).any():
        raise InputError(
            f"{store.path} has a partial episode that ends as the next one begins, which D4RL's layout cannot hold. "
            "Export it as minari."
        )
    following = np.roll(store.observations, -1, axis=0)
    following[last] = store.final_observations
    with new_file(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs["decision_rnn_fingerprint"] = store.fingerprint
        if store.environment_id is not None:
            file.attrs["environment_id"] = store.environment_id
        for key, flags in (("terminals", store.terminated), ("timeouts", store.truncated)):
            file[key] = np.zeros(store.steps, bool)
            file[key][last] = flags
        file["observations"], file["next_observations"] = map(observations.values, (store.observations, following))
        file["actions"] = actions.values(store.actions)
        file["rewards"] = np.concatenate([episode.rewards for episode in store])

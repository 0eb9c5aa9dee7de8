"""D4RL version 2 (Fu et al. 2020): published HDF5 files, found locally or downloaded, converted once."""

from pathlib import Path

from decision_rnn.data.cache import identify, is_made_of
from decision_rnn.data.formats.d4rl import read_d4rl
from decision_rnn.data.sources.contract import Source, file_places, find_file, register_source
from decision_rnn.data.spec import TASKS, DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore, open_or_make
from decision_rnn.utils.errors import InputError, cannot_write
from decision_rnn.utils.files import locked
from decision_rnn.utils.messages import bar, warn

LEVELS = ("random", "medium", "expert", "medium-replay", "full-replay", "medium-expert")
TIME_LIMIT = 1000  # steps, of all four environments
CONTACT_FORCES = 84  # columns after ant's 27 observations in D4RL's files; Ant-v4 does not give them
URL = "https://rail.eecs.berkeley.edu/datasets/offline_rl/gym_mujoco_v2/"
INSECURE_URL = URL.replace("https:", "http:")
"""Tried second, for files of known SHA-256."""

SHA256 = {
    "hopper_medium": "5bdf1bc4a713c82941de44633df669b36c89850b652a25985166796d25cf71a0",
    "hopper_medium_replay": "e121c5f7c9857a307baa9edc6a2c3b48e85fedb9ac316ecddd0f48ca7ef4e39b",
    "hopper_medium_expert": "9d51ad87f8c905be3880d84c6140bcdb7fbf39a19e046a237f238ba34fec9e26",
    "hopper_expert": "01aa219a5f8eea5e639eccdc636ec2bf40e317159a95cf4bf6e985f16909941b",
    "walker2d_medium": "cf00f43add04c17fdfc2958dd581dea0851b2e5bedbe6fda073758a8f841aeda",
    "walker2d_medium_replay": "e75de96a4f77acf7d4e0d6fdf0d7ccb177c26c44bb4388e4fd99f543ccfa18db",
    "walker2d_medium_expert": "6b8d7f868c45bbaedf460be797fb7271b46dee6ebe45fe7a64319f2005b59a04",
    "walker2d_expert": "2985dc3d436a8baa10e8f43f946fe1d7c6337a4e4fbc65def70618093b18c59a",
    "halfcheetah_medium": "41324e8487a9556d8cfa4538827f8937f4d63dae3030825ebc9f3a726ed08ca0",
    "halfcheetah_medium_replay": "48d494a4770c11f48260736dec090b78bdca8375647ed4d24bfa5b6610c7f683",
    "halfcheetah_medium_expert": "015db75dae5bbe8e94029b71fa0bafc2073365df0c94744e71031189f3f79c06",
    "halfcheetah_expert": "d9fe53bb994eb1e20a99b4fa3412cd76a1bb7966a7ff55e0fcbdd6081bd2965f",
}
"""Hashes of the published files, by name without `-v2.hdf5`, from TensorFlow Datasets; D4RL publishes none."""


@register_source
class D4RLSource(Source):
    """Version 2 of D4RL's datasets; earlier versions have wrong or missing flags."""

    prefix = "d4rl"
    pattern = "d4rl/TASK-LEVEL-v2"

    def names(self) -> list[str]:
        return [f"d4rl/{task}-{level}-v2" for task in TASKS for level in LEVELS]

    def spec(self, name: str, store: EpisodeStore) -> DatasetSpec:
        published = _is_published(name, store.source["files"])
        comparable = f"{'where ' * (published is None)}the file is the published one, compare with papers on {name[5:]}"
        if published is False:
            comparable = f"the file is not D4RL's {name[5:]}: do not compare with published scores"
        return spec_of_store(name, store, comparable=f"the reference scores are D4RL's: {comparable}")

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        """The episodes of `name`.

        They are read from the file `path`, or else from `<task>_<level>-v2.hdf5` in `$DECISION_RNN_DATA` or in
        `~/.d4rl/datasets`. Without a file, an existing store is used; without a store, the file is downloaded. A store
        made from other contents than the file's is made again.
        """
        file = find_file(name, path, _places(name))
        return open_or_make(
            name,
            lambda source: file is None or is_made_of(source["files"], [file]),
            lambda folder: _convert(name, file or _download(name), folder),
        )


def _places(name: str) -> list[Path]:
    """Where the file of the dataset may be; downloads go to the first."""
    return file_places(f"{_stem(name)}-v2.hdf5", "~/.d4rl/datasets")


def _stem(name: str) -> str:
    """d4rl/hopper-medium-replay-v2 -> hopper_medium_replay"""
    return name.removeprefix("d4rl/").removesuffix("-v2").replace("-", "_")


def _is_published(name: str, files: list[dict[str, str]]) -> bool | None:
    """Whether these are D4RL's file, as recorded by `identify`; None if its hash is unknown."""
    published = SHA256.get(_stem(name))
    return None if published is None else [file["sha256"] for file in files] == [published]


def _download(name: str) -> Path:
    """Download one of D4RL's files, completely or not at all; a second process waits for the first.

    Raises InputError if it cannot be downloaded, EnvironmentFailure if the disk is full.
    """
    import pooch  # slow to import, as requests is
    import requests

    file, sha256 = _places(name)[0], SHA256.get(_stem(name))
    warn(f"{file} is not there: downloading it")
    pooch.get_logger().setLevel("WARNING")  # the bar says what it does, and only where messages are wanted
    downloader = pooch.HTTPDownloader(bar(total=1, desc=file.name, unit="B", unit_scale=True), timeout=60)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file):
            for url in (URL, INSECURE_URL) if sha256 else (URL,):
                try:
                    pooch.retrieve(url + file.name, sha256, file.name, file.parent, downloader=downloader)
                    return file
                except (requests.RequestException, ValueError) as error:  # the latter for another hash
                    reason = str(error)
    except OSError as error:
        raise cannot_write(file, error) from None
    raise InputError(f"cannot download {URL}{file.name} ({reason}). Fetch it by other means and name it with --path.")


def _convert(name: str, file: Path, folder: Path) -> EpisodeStore:
    files, notes, task = identify([file]), list[str](), TASKS[_stem(name).partition("_")[0]]
    if _is_published(name, files) is False:
        notes.append("its SHA-256 is not that of the published file")
    dims = [task.observation_dim] + [task.observation_dim + CONTACT_FORCES] * (task.environment == "Ant")
    episodes = read_d4rl(file, notes, max_episode_steps=TIME_LIMIT, observation_dims=dims)
    store = EpisodeStore.write(
        folder,
        bar(episodes, "converting", unit=" episodes"),
        # Version 4, because Walker2d in the data differs from version 5; Hopper and HalfCheetah are the same in both.
        environment_id=f"{task.environment}-v4",
        source={"files": files, "notes": notes},
        spaces=task.spaces(),
        label=str(file),
    )
    for note in notes:
        warn(f"{file}: {note}")
    return store

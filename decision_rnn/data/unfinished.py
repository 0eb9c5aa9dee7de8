"""Episodes of a dataset that is being made, on disk, so that making it goes on from them after a kill."""

import contextlib
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.data.cache import cache_root, sha256_of_json
from decision_rnn.data.episode import Episode
from decision_rnn.utils.files import remove_directory, write_atomically
from decision_rnn.utils.messages import warn


@contextlib.contextmanager
def unfinished(name: str, made_of: dict[str, Any]) -> Iterator[Path]:
    """The folder of `kept` while the dataset `name` is made; removed when the block ends without an error.

    Args:
        name: The name of the dataset.
        made_of: All that its episodes depend on, as plain JSON: what was made from anything else is not used.
    """
    everything = cache_root() / "unfinished" / name
    folder = everything / sha256_of_json(made_of)[:16]
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.npz")):
        warn(f"{name}: going on from the episodes of an interrupted process, in {folder}")
    yield folder
    remove_directory(everything)


def kept(folder: Path, play: Callable[[int], list[Episode]], first: int, report: object = None) -> list[Episode]:
    """The episodes that `play(first)` returns, from `folder` if they are there, else played and written there; work for
    `parallel_map`, to which `report` belongs."""
    file = folder / f"{first}.npz"
    with contextlib.suppress(OSError, ValueError, KeyError, zipfile.BadZipFile):  # missing or damaged: play them
        return _read(file)
    episodes = play(first)
    with contextlib.suppress(FileNotFoundError):  # another process has just finished the same dataset
        write_atomically(file, _packed(episodes))
    return episodes


def _packed(episodes: list[Episode]) -> bytes:
    named = {f"{index}.{key}": value for index, episode in enumerate(episodes) for key, value in vars(episode).items()}
    buffer = io.BytesIO()
    # Compressed, since a goal is the same in all observations.
    np.savez_compressed(buffer, **{key: value for key, value in named.items() if value is not None})
    return buffer.getvalue()


def _read(file: Path) -> list[Episode]:
    fields: dict[int, dict[str, Any]] = {}
    with np.load(file, allow_pickle=False) as content:
        for key, value in content.items():
            index, _, field = key.partition(".")
            fields.setdefault(int(index), {})[field] = value if value.ndim else value.item()
    return [Episode(**each) for each in fields.values()]

"""Shared by the tests of malformed data: a pickle that leaves a mark if it is loaded, and a check for leftovers."""

import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from decision_rnn.data.store import store_folder


class Payload:
    """Creates the folder `mark` when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


def pickled_objects(mark: Path) -> np.ndarray:
    """Three pickles as byte strings of variable length, as HDF5 stores Python objects."""
    objects = np.empty(3, h5py.vlen_dtype(np.uint8))
    for index in range(len(objects)):
        objects[index] = np.frombuffer(pickle.dumps(Payload(mark)), np.uint8)
    return objects


def assert_nothing_made(folder: Path) -> None:
    """No store in the cache, not even a part of one, and no mark of executed code in `folder`."""
    assert [path for path in (store_folder("")).rglob("*") if path.is_file()] == []
    assert not (folder / "mark").exists()

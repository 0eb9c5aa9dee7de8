"""Shared by the tests of malformed data: a pickle that leaves a mark if it is loaded, and a check for leftovers."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decision_rnn.data.store.episode_store import cache_root

Draw = Callable[[st.SearchStrategy[Any]], Any]

QUIET = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


FEW_AND_MANY = pytest.mark.parametrize("examples", [5, pytest.param(60, marks=pytest.mark.slow)])


def explore(check: Callable[[st.DataObject], None], examples: int) -> None:
    """Run a check on that many random examples; on few, always on the same ones."""

    @settings(max_examples=examples, derandomize=examples <= 50, **QUIET)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(data)

    run()


class Payload:
    """Creates the folder `mark` when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


def pickled_objects(mark: Path, protocol: int) -> np.ndarray:
    """Three pickles as byte strings of variable length, as HDF5 stores Python objects."""
    objects = np.empty(3, h5py.vlen_dtype(np.uint8))
    for index in range(len(objects)):
        objects[index] = np.frombuffer(pickle.dumps(Payload(mark), protocol), np.uint8)
    return objects


def assert_nothing_made(folder: Path) -> None:
    """No store in the cache, not even a part of one, and no mark of executed code in `folder`."""
    assert [path for path in (cache_root() / "stores").rglob("*") if path.is_file()] == []
    assert not (folder / "mark").exists()

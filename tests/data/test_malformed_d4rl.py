"""Malformed D4RL files: each raises an InputError and leaves nothing behind. No pickle is ever loaded."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from d4rl_files import arrays_of, hopper_episodes, write
from faults import Payload, assert_nothing_made, pickled_objects

from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError

NAME = "d4rl/hopper-medium-v2"
STEPS = 20
KEYS = ("observations", "actions", "rewards", "terminals", "next_observations")


def valid() -> dict[str, Any]:
    return arrays_of(hopper_episodes([(7, True, False), (9, False, True), (4, False, False)]))


def with_value(key: str, value: float) -> np.ndarray:
    values = np.array(valid()[key], np.float64)
    values.reshape(-1)[5] = value
    return values


REPLACED = [
    *((key, None) for key in KEYS[:4]),
    *((key, np.zeros(shape, np.float32)) for key in KEYS for shape in ((), (STEPS + 1,), (1, STEPS, 3))),
    *((key, with_value(key, value)) for key in KEYS[:3] for value in (np.nan, 1e39)),
    *(("rewards", values) for values in (np.array([b"0.5"] * STEPS), np.zeros(STEPS, np.complex64))),
]


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize(("key", "values"), REPLACED)
def test_missing_or_malformed_array_raises(key: str, values: Any, tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "bad.hdf5", valid()), "a") as handle:
        del handle[key]
        if values is not None:
            handle[key] = values
    with pytest.raises(InputError, match=rf"bad\.hdf5.*{key}"):
        open_dataset(NAME, path=tmp_path / "bad.hdf5")
    assert_nothing_made(tmp_path)


def too_long(file: Path) -> None:
    """An episode longer than the environment's 1000 steps."""
    write(file, arrays_of(hopper_episodes([(3, True, False), (1001, False, True)])))


def pickled_array(file: Path) -> None:
    with h5py.File(write(file, valid()), "a") as handle:
        del handle["rewards"]
        handle["rewards"] = pickled_objects(file.with_name("mark"))


FAULTS = [
    too_long,
    pickled_array,
    lambda file: file.write_bytes(write(file, valid()).read_bytes()[:-500]),
    lambda file: file.write_bytes(pickle.dumps(Payload(file.with_name("mark")))),
    lambda file: file.write_bytes(b""),
    Path.mkdir,
    lambda file: None,
]


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_d4rl_file_raises(fault: Callable[[Path], Any], tmp_path: Path) -> None:
    fault(tmp_path / "bad.hdf5")
    with pytest.raises(InputError, match=r"bad\.hdf5"):
        open_dataset(NAME, path=tmp_path / "bad.hdf5")
    assert_nothing_made(tmp_path)


@pytest.mark.usefixtures("folders")
def test_flipped_bytes_raise_or_give_finite_data(tmp_path: Path) -> None:
    random, content, opened = np.random.default_rng(0), write(tmp_path / "good.hdf5", valid()).read_bytes(), 0
    for number in range(20):
        flipped = bytearray(content)
        for place in random.integers(len(content), size=1 + number % 4):
            flipped[place] ^= int(random.integers(1, 256))
        (tmp_path / "bad.hdf5").write_bytes(flipped)
        try:
            store = open_dataset(NAME, path=tmp_path / "bad.hdf5").store
        except InputError:
            continue
        opened += 1
        assert np.isfinite(EpisodeStore.open(store.path).table).all()
    assert 0 < opened < 20

"""Malformed D4RL files: each raises an InputError and leaves nothing behind. No pickle is ever loaded."""

import os
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
REQUIRED = ("observations", "actions", "rewards", "terminals", "timeouts")
KEYS = (*REQUIRED, "next_observations")


def valid() -> dict[str, Any]:
    return arrays_of(hopper_episodes([(7, True, False), (9, False, True), (4, False, False)]))


def with_value(key: str, value: float) -> np.ndarray:
    values = np.array(valid()[key], np.float64)
    values.reshape(-1)[5] = value
    return values


def refuses(file: Path) -> None:
    with pytest.raises(InputError, match=r"bad\.hdf5"):
        open_dataset(NAME, path=file)
    assert_nothing_made(file.parent)


SHAPES = ((), (0,), (STEPS + 1,), (STEPS, 0), (1, STEPS, 3))
TYPES = [
    np.array([b"0.5"] * STEPS),
    np.array(["0.5"] * STEPS, h5py.string_dtype()),
    np.zeros(STEPS, np.complex64),
    np.zeros(STEPS, [("x", np.float32)]),
    np.array([h5py.Reference()] * STEPS, h5py.ref_dtype),
    h5py.Empty(np.float32),
]
REPLACED = [
    *((key, None) for key in REQUIRED),
    *((key, np.zeros(shape, np.float32)) for key in KEYS for shape in SHAPES),
    *((key, with_value(key, value)) for key in KEYS for value in (np.nan, 1e39)),
    *((key, with_value(key, value)) for key in ("terminals", "timeouts") for value in (0.5, -1, 255)),
    *(("rewards", values) for values in TYPES),
]


@pytest.mark.usefixtures("folders")
def test_missing_or_malformed_array_raises(tmp_path: Path) -> None:
    for key, values in REPLACED:
        file = write(tmp_path / "bad.hdf5", valid())
        with h5py.File(file, "a") as handle:
            del handle[key]
            if values is not None:
                handle[key] = values
        refuses(file)


def link(target: Any) -> Callable[[Path], None]:
    def fault(file: Path) -> None:
        write(file.with_name("other.hdf5"), valid())
        with h5py.File(write(file, valid()), "a") as handle:
            del handle["rewards"]
            handle["rewards"] = target

    return fault


def virtual(file: Path) -> None:
    other = write(file.with_name("other.hdf5"), valid())
    with h5py.File(write(file, valid()), "a") as handle:
        layout = h5py.VirtualLayout(handle["rewards"].shape, handle["rewards"].dtype)
        layout[:] = h5py.VirtualSource(str(other), "rewards", handle["rewards"].shape)
        del handle["rewards"]
        handle.create_virtual_dataset("rewards", layout)


def raw(file: Path) -> None:
    other = write(file.with_name("other.hdf5"), valid())
    with h5py.File(write(file, valid()), "a") as handle:
        del handle["rewards"]
        handle.create_dataset("rewards", (STEPS,), np.float32, external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def claims_too_much(file: Path) -> None:
    write(file, valid())
    with h5py.File(file, "a") as handle:
        for key in KEYS:
            shape, dtype = (10**15, *handle[key].shape[1:]), handle[key].dtype
            del handle[key]
            handle.create_dataset(key, shape, dtype, chunks=True)


def too_long(file: Path) -> None:
    """An episode longer than the environment's 1000 steps."""
    write(file, arrays_of(hopper_episodes([(3, True, False), (1001, False, True)])))


def shuffled(file: Path) -> None:
    order = np.random.default_rng(0).permutation(STEPS)
    write(file, {key: values[order] for key, values in valid().items()})


def pickled_array(file: Path) -> None:
    link(pickled_objects(file.with_name("mark")))(file)


FAULTS = [
    *map(link, (h5py.SoftLink("/actions"), h5py.SoftLink("/nowhere"), h5py.ExternalLink("other.hdf5", "rewards"))),
    *(virtual, raw, claims_too_much, too_long, shuffled, pickled_array),
    lambda file: file.write_bytes(write(file, valid()).read_bytes()[:-500]),
    lambda file: file.write_bytes(pickle.dumps(Payload(file.with_name("mark")))),
    lambda file: np.savez(file.open("wb"), observations=np.array([Payload(file.with_name("mark"))], object)),
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100)),
    Path.mkdir,
    os.mkfifo,
    lambda file: file.symlink_to(file),
    lambda file: None,
]


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_d4rl_file_raises(fault: Callable[[Path], Any], tmp_path: Path) -> None:
    fault(tmp_path / "bad.hdf5")
    refuses(tmp_path / "bad.hdf5")


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

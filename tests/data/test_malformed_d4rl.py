"""Malformed D4RL files: each raises an InputError and leaves nothing behind. No pickle is ever loaded."""

import os
import pickle
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from d4rl_files import arrays_of, hopper_episodes, write
from faults import FEW_AND_MANY, Draw, Payload, assert_nothing_made, explore, pickled_objects
from hypothesis import strategies as st

from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError

NAME = "d4rl/hopper-medium-v2"
STEPS = 20
REQUIRED = ("observations", "actions", "rewards", "terminals", "timeouts")
KEYS = (*REQUIRED, "next_observations")
FLOATS = ("observations", "actions", "rewards", "next_observations")


def valid() -> dict[str, Any]:
    return arrays_of(hopper_episodes([(7, True, False), (9, False, True), (4, False, False)]))


def rewrite(file: Path, key: str, values: Any) -> None:
    with h5py.File(file, "a") as handle:
        del handle[key]
        if values is not None:
            handle[key] = values


def missing_key(draw: Draw, file: Path) -> None:
    rewrite(write(file, valid()), draw(st.sampled_from(REQUIRED)), None)


def wrong_shape(draw: Draw, file: Path) -> None:
    key = draw(st.sampled_from(KEYS))
    arrays = valid()
    width = arrays[key].shape[1] if arrays[key].ndim == 2 else 1
    rows = draw(st.sampled_from((0, 1, STEPS - 1, STEPS + 1)))
    shapes = [(), (rows,), (rows, width), (STEPS, width, 1), (1, STEPS, width), (STEPS, 0), (STEPS, width + 1)]
    rewrite(write(file, arrays), key, np.zeros(draw(st.sampled_from(shapes)), np.float32))


def not_finite(draw: Draw, file: Path) -> None:
    arrays = valid()
    key = draw(st.sampled_from(FLOATS))
    arrays[key] = arrays[key].astype(np.float64)
    index = draw(st.integers(0, arrays[key].size - 1))
    arrays[key].reshape(-1)[index] = draw(st.sampled_from((np.nan, np.inf, -np.inf, 1e39, -1e300)))
    write(file, arrays)


def not_flags(draw: Draw, file: Path) -> None:
    arrays = valid()
    key = draw(st.sampled_from(("terminals", "timeouts")))
    arrays[key] = arrays[key].astype(np.float32)
    arrays[key][draw(st.integers(0, STEPS - 1))] = draw(st.sampled_from((np.nan, np.inf, 0.5, -1, 2, 255)))
    write(file, arrays)


def wrong_type(draw: Draw, file: Path) -> None:
    types = [
        np.array([b"0.5"] * STEPS),
        np.array(["0.5"] * STEPS, h5py.string_dtype()),
        np.zeros(STEPS, np.complex64),
        np.zeros(STEPS, [("x", np.float32)]),
        np.zeros(STEPS, "V4"),
        np.array([h5py.Reference()] * STEPS, h5py.ref_dtype),
        h5py.Empty(np.float32),
        np.zeros(STEPS, h5py.opaque_dtype(np.dtype("M8[s]"))),
    ]
    rewrite(write(file, valid()), draw(st.sampled_from(KEYS)), draw(st.sampled_from(types)))


def group_or_link(draw: Draw, file: Path) -> None:
    key = draw(st.sampled_from(KEYS))
    other = write(file.with_name("other.hdf5"), valid())
    write(file, valid())
    kind = draw(st.sampled_from(("group", "soft", "dangling", "external", "virtual", "raw")))
    with h5py.File(file, "a") as handle:
        values = handle[key][()]
        del handle[key]
        if kind == "group":
            handle.create_group(key)
        elif kind == "soft":
            handle["elsewhere"] = values
            handle[key] = h5py.SoftLink("/elsewhere")
        elif kind == "dangling":
            handle[key] = h5py.SoftLink("/nowhere")
        elif kind == "external":
            handle[key] = h5py.ExternalLink(str(other), key)
        elif kind == "virtual":
            layout = h5py.VirtualLayout(values.shape, values.dtype)
            layout[:] = h5py.VirtualSource(str(other), key, values.shape)
            handle.create_virtual_dataset(key, layout)
        else:
            handle.create_dataset(key, values.shape, values.dtype, external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def claims_too_much(draw: Draw, file: Path) -> None:
    rows = draw(st.integers(10**6, 10**15))
    write(file, valid())
    with h5py.File(file, "a") as handle:
        for key in KEYS:
            shape, dtype = (rows, *handle[key].shape[1:]), handle[key].dtype
            del handle[key]
            handle.create_dataset(key, shape, dtype, chunks=True)


def disagreeing_flags(draw: Draw, file: Path) -> None:
    """Impossible ends: an episode longer than the environment's 1000 steps."""
    length = draw(st.integers(1001, 3000))
    arrays = arrays_of(hopper_episodes([(draw(st.integers(1, 5)), True, False), (length, False, True)]))
    if draw(st.booleans()):
        del arrays["next_observations"]
    write(file, arrays)


def shuffled(draw: Draw, file: Path) -> None:
    unordered = st.permutations(range(STEPS)).filter(lambda p: sum(b - a == 1 for a, b in pairwise(p)) < 5)
    order = draw(unordered)
    write(file, {key: values[order] for key, values in valid().items()})


def another_body(draw: Draw, file: Path) -> None:
    observed, acting = draw(st.tuples(st.integers(1, 120), st.integers(1, 9)).filter(lambda sizes: sizes != (11, 3)))
    arrays = valid()
    arrays["observations"] = arrays["next_observations"] = np.zeros((STEPS, observed), np.float32)
    arrays["actions"] = np.zeros((STEPS, acting), np.float32)
    write(file, arrays)


def empty(draw: Draw, file: Path) -> None:
    write(file, valid())
    with h5py.File(file, "a") as handle:
        for key in KEYS:
            shape, dtype = handle[key].shape, handle[key].dtype
            del handle[key]
            if draw(st.booleans()) or key == "observations":
                handle.create_dataset(key, (0, *shape[1:]), dtype)


def cut_short(draw: Draw, file: Path) -> None:
    content = write(file, valid()).read_bytes()
    file.write_bytes(content[: draw(st.integers(0, len(content) - 1))])


def a_pickle(draw: Draw, file: Path) -> None:
    payload = Payload(file.with_name("mark"))
    kind = draw(st.sampled_from(("pickle", "npy", "npz", "bytes in HDF5", "objects in HDF5")))
    if kind == "pickle":
        file.write_bytes(pickle.dumps(payload, protocol=draw(st.integers(0, 5))))
    elif kind == "npy":
        with file.open("wb") as handle:
            np.save(handle, np.array([payload], object), allow_pickle=True)
    elif kind == "npz":
        with file.open("wb") as handle:
            np.savez(handle, observations=np.array([payload], object))
    else:
        objects = pickled_objects(payload.mark, draw(st.integers(0, 5)))
        values = np.void(pickle.dumps(payload)) if kind == "bytes in HDF5" else objects
        rewrite(write(file, valid()), draw(st.sampled_from(KEYS)), values)


def not_hdf5(draw: Draw, file: Path) -> None:
    file.write_bytes(draw(st.sampled_from((b"", b"\x89HDF\r\n\x1a\n"))) + draw(st.binary(max_size=300)))


def not_a_file(draw: Draw, file: Path) -> None:
    kind = draw(st.sampled_from(("absent", "folder", "pipe", "dangling", "loop")))
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind in ("dangling", "loop"):
        file.symlink_to(file if kind == "loop" else file.with_name("nowhere"))


FAULTS = [
    *(missing_key, wrong_shape, not_finite, not_flags, wrong_type, group_or_link, claims_too_much, disagreeing_flags),
    *(shuffled, another_body, empty, cut_short, a_pickle, not_hdf5, not_a_file),
]


@FEW_AND_MANY
@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_d4rl_file_raises(fault: Callable[[Draw, Path], None], examples: int, tmp_path: Path) -> None:
    """Opening a faulty file in its own folder: the error names it, and nothing is left behind."""

    def refuse(data: st.DataObject) -> None:
        with pytest.MonkeyPatch.context() as patch:
            folder = tmp_path / os.urandom(8).hex()
            folder.mkdir()
            patch.setenv("DECISION_RNN_CACHE", str(folder / "cache"))
            file = folder / "bad.hdf5"
            fault(data.draw, file)
            with pytest.raises(InputError, match=r"bad\.hdf5") as raised:
                open_dataset(NAME, path=file).open()
            assert len(str(raised.value).splitlines()) == 1
            assert_nothing_made(folder)

    explore(refuse, examples)


@pytest.mark.parametrize("examples", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_d4rl_file_with_flipped_bytes_raises_or_gives_finite_data(examples: int, tmp_path: Path) -> None:
    def survive(data: st.DataObject) -> None:
        with pytest.MonkeyPatch.context() as patch:
            folder = tmp_path / os.urandom(8).hex()
            folder.mkdir()
            patch.setenv("DECISION_RNN_CACHE", str(folder / "cache"))
            content = bytearray(write(folder / "bad.hdf5", valid()).read_bytes())
            for _ in range(data.draw(st.integers(1, 4))):
                content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
            (folder / "bad.hdf5").write_bytes(content)
            try:
                store = open_dataset(NAME, path=folder / "bad.hdf5").open()
            except InputError:
                assert_nothing_made(folder)
            else:
                assert np.isfinite(EpisodeStore.open(store.path).table).all()

    explore(survive, examples)


@pytest.mark.parametrize(
    "path", ["\0", "~\0", "a" * 5000, "~nobody-at-all/f.hdf5", "", ".", "/dev/null", "/dev/zero", "x\ny"]
)
@pytest.mark.usefixtures("folders")
def test_hostile_d4rl_paths_raise(path: str) -> None:
    with pytest.raises(InputError):
        open_dataset(NAME, path=Path(path)).open()

"""Reads third-party HDF5 files: every fault is an InputError that names the file and the key."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from decision_rnn.errors import InputError

DEFLATE = 1032  # the maximum compression factor of HDF5's gzip filter (zlib's technical details)


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file for reading; exceptions of h5py inside the block become InputErrors."""
    if not path.is_file():
        raise InputError(f"{path} is not a file: name an HDF5 file")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except InputError:
        raise
    except Exception as error:  # h5py raises many types for a damaged file
        reason = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read as HDF5 ({reason}): fetch or write it again") from None


def read_numbers(file: h5py.File, key: str) -> np.ndarray:
    """The numbers at `key`; raises InputError if they are not an array in the file itself, or not finite in float32."""
    path, link = file.filename, file.get(key, getlink=True)
    item = file[key] if isinstance(link, h5py.HardLink) else None
    if not isinstance(item, h5py.Dataset) or item.external or item.is_virtual or item.dtype.kind not in "fiub":
        raise InputError(f"{path} has no {key} that are an array of numbers in this file: fetch or write it again")
    if item.size is None or item.size * item.dtype.itemsize > DEFLATE * Path(path).stat().st_size:
        raise InputError(f"{path} has {key} of shape {item.shape}, too much for a file of its size: fetch it again")
    values: np.ndarray = item[()]
    with np.errstate(over="ignore"):
        finite = np.isfinite(values.astype(np.float32, copy=False))
    if not finite.all():
        row = int(np.flatnonzero(~finite.reshape(len(values), -1).all(1))[0])
        raise InputError(f"{path} has {key} that are not finite in float32, first in row {row}: fix it or leave it out")
    return values

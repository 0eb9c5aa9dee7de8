"""Reads third-party HDF5 files: every fault is an InputError that names the file and the key.

Nothing in such a file is executed: only numbers are read, and only those in the file itself.
"""

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


def find_dataset(group: h5py.Group, key: str, where: str) -> h5py.Dataset:
    """The numeric dataset at `key`; `where` names file and group in errors.

    Raises InputError if the key is missing, is a link to another place, holds no numbers, or claims to hold more of
    them than a file of that size can.
    """
    link = group.get(key, getlink=True)
    if link is None:
        raise InputError(f"{where} has no {key}: it is not a whole dataset of this layout")
    item = group[key] if isinstance(link, h5py.HardLink) else None
    if item is None or (isinstance(item, h5py.Dataset) and (item.external or item.is_virtual)):
        raise InputError(f"{where} keeps {key} in another place by a link: copy the numbers into the file")
    if not isinstance(item, h5py.Dataset) or item.shape is None or item.dtype.kind not in "fiub":
        raise InputError(f"{where} has {key} that are not an array of numbers: {getattr(item, 'dtype', 'a group')}")
    if item.size * item.dtype.itemsize > DEFLATE * Path(group.file.filename).stat().st_size:
        raise InputError(
            f"{where} has {key} of shape {item.shape}, more than a file of its size can hold: it is damaged"
        )
    return item


def as_flags(values: np.ndarray, key: str, where: str) -> np.ndarray:
    """Flags of any numeric type, as bool; raises InputError if one is neither 0 nor 1."""
    if not np.isin(values, (0, 1)).all():
        raise InputError(f"{where} has {key} that are neither 0 nor 1: they must be flags")
    return values.astype(bool)


def check_finite(values: np.ndarray, key: str, where: str, first: int = 0) -> None:
    """Raise InputError, naming the row, if a value is not finite in float32; `first` is the number of row 0."""
    with np.errstate(over="ignore"):
        finite = np.isfinite(values.astype(np.float32))
    if not finite.all():
        row = first + int(np.flatnonzero(~finite.reshape(len(values), -1).all(1))[0])
        raise InputError(
            f"{where} has {key} that are not finite in float32, first in row {row}: fix it or leave it out"
        )

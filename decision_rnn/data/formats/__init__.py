"""Reads and writes episodes in the file formats of other tools."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from decision_rnn.utils.errors import InputError


def check_arrays(file: Path, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int | None]]) -> None:
    """Raise InputError, naming file and array, unless the arrays are numbers of these shapes; None is any size."""
    for key, array in arrays.items():
        expected = tuple(size or actual for size, actual in zip(shapes[key], array.shape, strict=False))
        if array.shape != expected or len(array.shape) != len(shapes[key]) or array.dtype.kind not in "fiub":
            raise InputError(
                f"{file}: {key} has shape {array.shape} and type {array.dtype}, expected numbers of shape "
                f"{tuple(shapes[key])}. It may be another dataset's file."
            )

"""How values of Gymnasium spaces are laid out in flat rows of numbers, as `gymnasium.spaces.flatten` does.

Discrete values become one-hot vectors, entries of Dict and Tuple follow each other, arrays are raveled; text is left
out. Apart from `errors.py` this imports only numpy, so that exported policies act without Gymnasium.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, reduce
from itertools import pairwise
from operator import getitem
from typing import Any

import numpy as np

from decision_rnn.utils.errors import InputError, one_line

IMAGE_SIDE = 32
"""A uint8 array with this many rows and columns is an image, which these layouts do not support."""
TEXT = ("Text", "MissionSpace")
"""Names of the classes of spaces of text, the latter Minigrid's."""
UNREADABLE = (KeyError, IndexError, TypeError, ValueError)
"""Errors of values that are not of a space."""


@dataclass(frozen=True)
class Part:
    """A part of a space that is not itself a Dict or a Tuple.

    Attributes:
        path: The keys of Dicts and the indices of Tuples that lead to it.
        shape: The shape of one value.
        choices: For each entry of a value the number of its choices, of which the row has a one-hot vector; empty for
            numbers.
        start: The smallest choice of each entry.
    """

    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    choices: tuple[int, ...] = ()
    start: tuple[int, ...] = ()

    @cached_property
    def size(self) -> int:
        """Its number of entries in a row."""
        return sum(self.choices) if self.choices else math.prod(self.shape)

    @property
    def name(self) -> str:
        """Such as `position`, or `goal.position`; empty for a space without parts."""
        return ".".join(map(str, self.path))

    def rows(self, values: Any) -> np.ndarray:
        """Values (rows, *shape) as (rows, size), NaN as NaN; ValueError for another shape or an unknown choice."""
        values = np.asarray(values)
        if values.dtype.kind not in "fiub" or not values.ndim:
            values = np.atleast_1d(values.astype(np.float64))
        if values.shape[1:] == (1,) and not self.shape:  # in a column of a table
            values = values[:, 0]
        if values.shape[1:] != self.shape:
            raise ValueError(f"expected shape {self.shape}, got {values.shape[1:]}")
        values = values.reshape(len(values), -1)
        if not self.choices:
            return values
        shifted = values - np.array(self.start)
        missing = np.isnan(shifted)  # left to those who mend logs or refuse what is not finite
        valid = (shifted >= 0) & (shifted < self.choices) & (shifted == np.floor(shifted)) | missing
        if not valid.all():
            ends = np.array(self.start) + self.choices - 1
            ranges = ", ".join(f"{first} to {last}" for first, last in zip(self.start, ends, strict=True))
            raise ValueError(f"{values[~valid][0]:g}, expected whole numbers from {ranges}")
        rows = np.zeros((len(values), self.size), np.float32)
        firsts = np.cumsum([0, *self.choices[:-1]])
        chosen = np.where(missing, 0, shifted).astype(np.int64) + firsts
        np.put_along_axis(rows, chosen, np.where(missing, np.nan, 1.0), axis=1)
        return rows

    def values(self, rows: np.ndarray) -> np.ndarray:
        """The values (rows, *shape) that rows (rows, size) stand for."""
        if not self.choices:
            return rows.reshape(len(rows), *self.shape)
        edges = pairwise([0, *np.cumsum(self.choices).tolist()])
        chosen = [rows[:, first:last].argmax(1) for first, last in edges]
        return (np.stack(chosen, axis=1) + np.array(self.start)).reshape(len(rows), *self.shape)


@dataclass(frozen=True)
class Layout:
    """The parts of a space in the order of their entries in a row.

    Attributes:
        parts: The parts.
    """

    parts: tuple[Part, ...]

    @classmethod
    def of_space(cls, space: Any, kind: str, acted: bool = False) -> "Layout":
        """The layout of a Gymnasium space; InputError, naming `kind` such as "observations", for spaces of images,
        sequences and graphs, for one without numbers, and if `acted`, for one in which agents do not act."""
        entries = list(_parts(space, ()))
        parts = tuple(part for part in entries if part is not None)
        readable = len(parts) == len(entries) and any(part.size for part in parts)
        floats = hasattr(space, "low") and space.dtype.kind == "f"
        if not readable or (acted and (hasattr(space, "spaces") or not (floats or parts[0].choices))):
            raise InputError(
                f"the {kind} are {one_line(space)}: agents read Box, Discrete, MultiDiscrete, MultiBinary, Dict and "
                "Tuple, and agents act in a Box, Discrete or MultiDiscrete space, the Box of floats. Encode images "
                "into vectors, or wrap the environment."
            )
        return cls(parts)

    @classmethod
    def from_json(cls, parts: Sequence[Any]) -> "Layout":
        """The layout that `to_json` describes; TypeError or KeyError if it does not."""
        return cls(tuple(Part(**{key: tuple(value) for key, value in part.items()}) for part in parts))

    def to_json(self) -> list[dict[str, Any]]:
        """The layout as plain values."""
        return [{key: list(value) for key, value in asdict(part).items()} for part in self.parts]

    @cached_property
    def size(self) -> int:
        """The number of entries of a row."""
        return sum(part.size for part in self.parts)

    @cached_property
    def columns(self) -> list[slice]:
        """The entries of a row of each part."""
        edges = pairwise([0, *np.cumsum([part.size for part in self.parts]).tolist()])
        return [slice(*edge) for edge in edges]

    @cached_property
    def flat(self) -> bool:
        """Whether values are rows already: vectors of numbers."""
        (part, *others) = self.parts
        return not (others or part.path or part.choices) and len(part.shape) == 1

    @cached_property
    def categorical(self) -> np.ndarray:
        """(size,) bool, true for the entries of one-hot vectors."""
        return np.repeat([bool(part.choices) for part in self.parts], [part.size for part in self.parts])

    @cached_property
    def names(self) -> list[str]:
        """A name for every entry of a row; empty for a space without parts."""
        named = [part for part in self.parts if part.path]
        return [part.name if part.size == 1 else f"{part.name}, {i}" for part in named for i in range(part.size)]

    def ordered_as(self, other: "Layout") -> "Layout":
        """This layout with its parts in the order of another one of the same parts: a Dict's keys may have any."""
        places = {part.path: place for place, part in enumerate(other.parts)}
        return Layout(tuple(sorted(self.parts, key=lambda part: places.get(part.path, 0))))

    def rows(self, values: Any, kind: str) -> np.ndarray:
        """Values with the rows first in every part, as rows (rows, size).

        Raises:
            InputError: Naming `kind` and the part, if the values are not of this space.
        """
        return self._rows(lambda part: reduce(getitem, part.path, values), kind)

    def rows_of(self, values: Sequence[Any], kind: str) -> np.ndarray:
        """A sequence of values as rows (rows, size); errors as for `rows`."""
        return self._rows(lambda part: [reduce(getitem, part.path, value) for value in values], kind)

    def _rows(self, values: Callable[[Part], Any], kind: str) -> np.ndarray:
        rows = []
        for part in self.parts:
            try:
                rows.append(part.rows(values(part)))
            except UNREADABLE as error:
                raise InputError(f"{kind} {part.name}".strip() + f": {one_line(error)}") from None
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)

    def holds_one(self, value: Any) -> bool:
        """Whether a value is one of the space, and not several of them with the rows first."""
        with contextlib.suppress(*UNREADABLE):
            return np.ndim(reduce(getitem, self.parts[0].path, value)) == len(self.parts[0].shape)
        return False

    def values(self, rows: np.ndarray) -> Any:
        """The values that rows (rows, size) stand for, with the rows first in every part."""
        if self.flat:  # the same as below; building it takes as long as ten operations of an exported policy
            return rows
        return nested(
            {part.path: part.values(rows[:, columns]) for part, columns in zip(self.parts, self.columns, strict=True)}
        )


def numbered(entry: int, names: Sequence[str]) -> str:
    """An entry of a row by its number and, if the names of the entries say one, its name: `3 (position)`."""
    return f"{entry} ({names[entry]})" if entry < len(names) else str(entry)


def _parts(space: Any, path: tuple[str | int, ...]) -> Iterator[Part | None]:
    """The parts of a space; None for one that agents cannot read."""
    inner, shape = getattr(space, "spaces", None), tuple(map(int, getattr(space, "shape", None) or ()))
    kind = type(space).__name__
    if inner is not None and kind != "OneOf":  # whose size varies
        for key, entry in inner.items() if isinstance(inner, dict) else enumerate(inner):
            yield from _parts(entry, (*path, key))
    elif hasattr(space, "nvec"):
        yield Part(path, shape, *(tuple(map(int, np.ravel(x))) for x in (space.nvec, space.start)))
    elif hasattr(space, "start"):
        yield Part(path, (), (int(space.n),), (int(space.start),))
    elif hasattr(space, "low") or kind == "MultiBinary":
        image = hasattr(space, "low") and space.dtype == np.uint8 and sorted(shape)[-2:-1] >= [IMAGE_SIDE]
        yield None if image else Part(path, shape)
    elif kind not in TEXT:
        yield None


def nested(values: dict[tuple[str | int, ...], Any], to_dict: Any = dict, to_tuple: Any = tuple) -> Any:
    """Values by their paths as nested dictionaries, and as tuples where the keys are numbers."""
    if () in values:
        return values[()]
    inner: dict[str | int, dict[tuple[str | int, ...], Any]] = {}
    for (first, *rest), value in values.items():
        inner.setdefault(first, {})[tuple(rest)] = value
    built = {key: nested(entries, to_dict, to_tuple) for key, entries in inner.items()}
    return to_tuple(built.values()) if all(isinstance(key, int) for key in built) else to_dict(built)

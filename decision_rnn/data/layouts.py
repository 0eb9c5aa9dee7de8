"""How values of Gymnasium spaces are laid out in flat rows of numbers, as `gymnasium.spaces.flatten` does.

Discrete values become one-hot vectors, entries of Dict and Tuple follow each other, arrays are raveled; text is left
out. Apart from `errors.py` this imports only numpy, so that exported policies act without Gymnasium.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from decision_rnn.utils.errors import InputError, one_line

IMAGE_SIDE = 32
"""A uint8 array with this many rows and columns is an image: no flat row of numbers does it justice."""
TEXT = ("Text", "MissionSpace")
"""Names of the classes of spaces of text, the latter Minigrid's."""


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

    def rows(self, values: np.ndarray, kind: str) -> np.ndarray:
        """Values (rows, *shape) as (rows, size), NaN as NaN; InputError, naming `kind`, for another shape or an unknown
        choice."""
        where = f"{kind} {self.name}".strip()
        if values.shape[1:] != self.shape:
            raise InputError(f"a value of {where} has shape {values.shape[1:]} where {self.shape} is needed")
        values = values.reshape(len(values), -1)
        if not self.choices:
            return values
        shifted = values - np.array(self.start)
        missing = np.isnan(shifted)  # left to those who mend logs or refuse what is not finite
        valid = (shifted >= 0) & (shifted < self.choices) & (shifted == np.floor(shifted)) | missing
        if not valid.all():
            row, entry = np.argwhere(~valid)[0]
            first = self.start[entry]
            raise InputError(
                f"{where} is {values[row, entry]}: it must be a whole number from {first} to "
                f"{first + self.choices[entry] - 1}"
            )
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
    def of_space(cls, space: Any, kind: str) -> "Layout":
        """The layout of a Gymnasium space; InputError, naming `kind` such as "observations", for spaces of images,
        sequences and graphs, and for one without numbers."""
        parts = tuple(_parts(space, (), kind))
        if not sum(part.size for part in parts):
            raise InputError(f"the {kind} are {one_line(space)}, which holds no numbers")
        return cls(parts)

    @classmethod
    def of_actions(cls, space: Any) -> "Layout":
        """The layout of the Gymnasium space of actions; InputError for spaces in which agents do not act."""
        layout, box = cls.of_space(space, "actions"), hasattr(space, "low")
        (part, *others) = layout.parts
        if others or part.path or not (part.choices or box):
            raise InputError(
                f"the actions are {one_line(space)}: agents act in a Box, Discrete or MultiDiscrete space, so wrap the "
                "environment in one"
            )
        if box and space.dtype.kind != "f":
            raise InputError(
                f"the actions are {one_line(space)}, whole numbers: wrap the environment so that they are "
                "MultiDiscrete, or a Box of floats that it rounds"
            )
        return layout

    @classmethod
    def of_size(cls, size: int) -> "Layout":
        """The layout of vectors."""
        return cls((Part((), (size,)),))

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
    def _columns(self) -> list[tuple[Part, slice]]:
        """Every part with its entries of a row."""
        edges = pairwise([0, *np.cumsum([part.size for part in self.parts]).tolist()])
        return [(part, slice(*edge)) for part, edge in zip(self.parts, edges, strict=True)]

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
    def names(self) -> list[str | None]:
        """A name for every entry of a row; None for those of a part without one."""
        found: list[str | None] = []
        for part in self.parts:
            numbered = [part.name] if part.size == 1 else [f"{part.name}, {i}" for i in range(part.size)]
            found += numbered if part.path else [None] * part.size
        return found

    def rows(self, values: Any, kind: str) -> np.ndarray:
        """Values with the rows first in every part, as rows (rows, size).

        Raises:
            InputError: Naming `kind`, if the values are not of this space.
        """
        return self._joined([_numbers(_at(values, part.path, kind), part, kind) for part in self.parts], kind)

    def row(self, value: Any, kind: str) -> np.ndarray:
        """One value as a row (size,); errors as for `rows`."""
        return self.rows_of([value], kind)[0]

    def rows_of(self, values: Sequence[Any], kind: str) -> np.ndarray:
        """A sequence of values as rows (rows, size); errors as for `rows`."""
        return self._joined(
            [_numbers([_at(value, part.path, kind) for value in values], part, kind) for part in self.parts], kind
        )

    def check_rows(self, rows: np.ndarray, kind: str) -> None:
        """Raise InputError, naming `kind` and the first such row, unless the choices in rows (rows, size) are one-hot
        vectors; rows with missing numbers are left to others."""
        for part, columns in self._columns:
            if part.choices:
                given = rows[:, columns].astype(np.float64)
                ones = np.add.reduceat(given, np.cumsum([0, *part.choices[:-1]]), axis=1)
                faulty = ~(np.isin(given, (0, 1)).all(1) & (ones == 1).all(1) | np.isnan(given).any(1))
                if faulty.any():
                    row = faulty.argmax()
                    raise InputError(
                        f"{f'{kind} {part.name}'.strip()}: row {row} is {one_line(given[row])}, which is not one-hot: "
                        "give 1 for what was chosen and 0 for the rest, or the choices themselves in place of rows"
                    )

    def _joined(self, arrays: list[np.ndarray], kind: str) -> np.ndarray:
        if len(lengths := {len(array) for array in arrays}) > 1:
            raise InputError(f"the parts of the {kind} have {' and '.join(map(str, sorted(lengths)))} rows")
        rows = [part.rows(array, kind) for part, array in zip(self.parts, arrays, strict=True)]
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)

    def holds_one(self, value: Any, kind: str) -> bool:
        """Whether a value is one of the space, and not several of them with the rows first."""
        part = self.parts[0]
        return np.ndim(_at(value, part.path, kind)) == len(part.shape)

    def values(self, rows: np.ndarray) -> Any:
        """The values that rows (rows, size) stand for, with the rows first in every part."""
        if self.flat:
            return rows
        return _nested({part.path: part.values(rows[:, columns]) for part, columns in self._columns})


def numbered(entry: int, names: Sequence[str | None]) -> str:
    """An entry of a row by its number and, if the names of the entries say one, its name: `3 (position)`."""
    name = names[entry] if entry < len(names) else None
    return f"{entry} ({name})" if name else str(entry)


def _numbers(values: Any, part: Part, kind: str) -> np.ndarray:
    try:
        array = np.asarray(values)
        return array if array.dtype.kind in "fiub" and array.ndim else np.atleast_1d(array.astype(np.float64))
    except (TypeError, ValueError):
        raise InputError(f"{f'{kind} {part.name}'.strip()} is {one_line(values)}: it must hold numbers") from None


def _parts(space: Any, path: tuple[str | int, ...], kind: str) -> Iterator[Part]:
    inner = None if type(space).__name__ == "OneOf" else getattr(space, "spaces", None)  # whose size varies
    if isinstance(inner, dict):
        for key, entry in inner.items():
            yield from _parts(entry, (*path, key), kind)
    elif isinstance(inner, tuple | list):
        for index, entry in enumerate(inner):
            yield from _parts(entry, (*path, index), kind)
    elif hasattr(space, "nvec"):
        yield Part(path, tuple(space.nvec.shape), *(tuple(map(int, np.ravel(x))) for x in (space.nvec, space.start)))
    elif hasattr(space, "start"):
        yield Part(path, (), (int(space.n),), (int(space.start),))
    elif hasattr(space, "low"):
        shape = tuple(map(int, space.shape))
        if space.dtype == np.uint8 and len(shape) >= 2 and min(sorted(shape)[-2:]) >= IMAGE_SIDE:
            raise InputError(
                f"the {kind} are images, {one_line(space)}: agents read numbers, so encode them into vectors first"
            )
        yield Part(path, shape)
    elif type(space).__name__ == "MultiBinary":
        yield Part(path, tuple(map(int, space.shape)))
    elif type(space).__name__ not in TEXT:
        raise InputError(
            f"the {kind} are {one_line(space)}: agents read Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple"
        )


def _at(value: Any, path: tuple[str | int, ...], kind: str) -> Any:
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            named = isinstance(value, dict)
            found = f"only {', '.join(map(repr, value))}" if named else f"and is of type {type(value).__name__}"
            raise InputError(f"{kind} has no entry {key!r}, {found:.200}: give all entries of the space") from None
    return value


def _nested(found: dict[tuple[str | int, ...], Any]) -> Any:
    """Values by their paths as nested dictionaries and tuples."""
    if () in found:
        return found[()]
    inner: dict[str | int, dict[tuple[str | int, ...], Any]] = {}
    for path, value in found.items():
        inner.setdefault(path[0], {})[path[1:]] = value
    built = {key: _nested(entries) for key, entries in inner.items()}
    return tuple(built.values()) if all(isinstance(key, int) for key in built) else built

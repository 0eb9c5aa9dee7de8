"""What an executor is: it runs cells somewhere and tells of them; a comparison knows no other thing of it."""

import traceback
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from decision_rnn.comparison.cells import Cell, CellOutcome
from decision_rnn.errors import InputError


@dataclass(frozen=True)
class Progress:
    """A cell runs, and has done so many steps of its training."""

    cell: int
    steps: int


@dataclass(frozen=True)
class Finished:
    """A cell has ended well."""

    cell: int
    outcome: CellOutcome


@dataclass(frozen=True)
class Failed:
    """A cell has ended badly: with what, in one line, and the traceback where it is no fault of the input."""

    cell: int
    error: str
    details: str | None = None


Event = Progress | Finished | Failed


class Executor(Protocol):
    """Runs cells, several at a time."""

    jobs: int
    """How many at a time, as far as that is known."""

    def run(self, cells: Sequence[Cell]) -> Generator[Event, None, None]:
        """Run all cells, each in a process that is not this one; of each there is one `Finished` or `Failed`.

        Where the iterator is closed early, nothing that it has started keeps running. Cells are numbered as given.

        Raises:
            InputError: Where no cell can be run at all.
        """


def failure(cell: int, error: Exception) -> Failed:
    """The event of a cell that ended with that error."""
    text = " ".join(str(error).split())
    if isinstance(error, InputError):
        return Failed(cell, text)
    line = f"{type(error).__name__}: {text}".rstrip(": ")
    return Failed(cell, line, "".join(traceback.format_exception(error)))

"""The interface of executors, which run cells somewhere and report events."""

import traceback
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from decision_rnn.comparison.cells import Cell, CellOutcome
from decision_rnn.errors import InputError


@dataclass(frozen=True)
class Progress:
    """A cell is running and has done `steps` training steps."""

    cell: int
    steps: int


@dataclass(frozen=True)
class Finished:
    """A cell has finished."""

    cell: int
    outcome: CellOutcome


@dataclass(frozen=True)
class Failed:
    """A cell has failed: its error in one line, and the traceback unless it is an InputError."""

    cell: int
    error: str
    details: str | None = None


Event = Progress | Finished | Failed


class Executor(Protocol):
    """Runs cells, several at a time."""

    jobs: int
    """Number of cells that run at a time, as far as it is known."""

    def run(self, cells: Sequence[Cell]) -> Generator[Event, None, None]:
        """Run all cells, each in another process; yields events, one `Finished` or `Failed` for each cell.

        Closing the generator early stops everything that it has started. Cells are numbered in the order given.

        Raises:
            InputError: If no cell can be run at all.
        """


def failure(cell: int, error: Exception) -> Failed:
    """The event for a cell that failed with this error."""
    text = " ".join(str(error).split())
    if isinstance(error, InputError):
        return Failed(cell, text)
    line = f"{type(error).__name__}: {text}".rstrip(": ")
    return Failed(cell, line, "".join(traceback.format_exception(error)))

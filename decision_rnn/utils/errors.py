"""The errors whose message is meant for the user."""

import contextlib
import difflib
import errno
from collections.abc import Iterable, Iterator


class InputError(ValueError):
    """Invalid input from the user; the message names the file or key. The command line exits with code 2."""


class MachineError(RuntimeError):
    """A failure of the machine, such as a full disk or a process that died. The command line exits with code 1."""


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of file access that are a fault of the machine: a full disk, a quota, a file too large."""


@contextlib.contextmanager
def writing(path: object) -> Iterator[None]:
    """InputError or MachineError, naming the file or folder that is written, in place of OSError."""
    try:
        yield
    except OSError as error:
        kind = MachineError if error.errno in FULL else InputError
        raise kind(f"cannot write {path}: {one_line(error)}") from None


def install(extra: str) -> str:
    """The command that installs an extra of this package, which no index has."""
    return f"pip install -e '.[{extra}]' in the clone of decision_rnn"


@contextlib.contextmanager
def importing(subject: object, extra: str) -> Iterator[None]:
    """InputError, naming the extra that brings it, for a package that `subject` needs and that is not installed, or
    cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"{subject} needs the package {error.name}: {install(extra)}") from None
    except ImportError as error:  # of a package that does not fit another one, or lacks a library
        fault = f"importing what {subject} needs fails ({one_line(error)})"
        raise InputError(f"{fault}. Try pip install --upgrade.") from error


@contextlib.contextmanager
def reading(subject: object, kind: str, remedy: str = "Name another, or fetch it again.") -> Iterator[None]:
    """InputError, naming the file that is read, in place of errors of other types inside the block: readers raise many.

    A MemoryError passes: it says nothing about the file.
    """
    try:
        yield
    except (InputError, MachineError, MemoryError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"{subject} cannot be read as {kind} ({reason}). {remedy}") from None


def one_line(value: object, most: int = 300) -> str:
    """The text of an error or another value in one line of at most `most` characters; its class if it has none."""
    return " ".join(str(value).split())[:most] or type(value).__name__


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """`Did you mean NAME? ` for the nearest name with that difflib ratio or more; empty if there is none."""
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)
    return f"Did you mean {nearest[0]}? " if nearest else ""

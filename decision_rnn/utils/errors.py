"""The errors whose message is meant for the user."""

import difflib
import errno
from collections.abc import Iterable


class InputError(ValueError):
    """Invalid input from the user.

    The message is one sentence that names the file or key, says what is wrong with it and what to do. The command line
    prints it without a traceback and exits with code 2.
    """


class SystemFault(RuntimeError):  # noqa: N818 - not an error of the program
    """A fault of the machine rather than of the input: a process that died, a full disk, too little memory.

    The message is one sentence that says what failed, what remains intact and what to do. The command line prints it
    without a traceback and exits with code 1.
    """


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of file access that are a fault of the machine: a full disk, a quota, a file too large."""


def cannot_write(path: object, error: OSError) -> InputError | SystemFault:
    """The error for a file or folder that cannot be written."""
    kind = SystemFault if error.errno in FULL else InputError
    return kind(f"cannot write {path}: {error.strerror}")


def one_line(said: object, most: int = 300) -> str:
    """What an error of other code says, or another value, in one line that is cut; its class if it says nothing."""
    return " ".join(str(said).split())[:most] or type(said).__name__


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """`did you mean NAME? `, to precede the rest of an error message; empty if no known name is similar.

    `likeness` is the smallest difflib ratio of a similar name, between 0 and 1.
    """
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)
    return f"did you mean {nearest[0]}? " if nearest else ""

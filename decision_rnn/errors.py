"""The one error a user is meant to read."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Invalid input from the user.

    The message is one sentence that names the file or key, says what is wrong with it and what to do. The
    command line prints it without a traceback and exits with code 2.
    """


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """`did you mean NAME? `, to stand before what else an error says; empty where no known name is near.

    `likeness` is what difflib's ratio must reach, between 0 and 1.
    """
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)
    return f"did you mean {nearest[0]}? " if nearest else ""

"""Messages and progress bars shown to the user while something runs. `quiet` silences all of them."""

import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm

_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextlib.contextmanager
def quiet(silent: bool = True) -> Iterator[None]:
    """Show no messages or bars inside the block, in this thread and in processes forked from it."""
    token = _silent.set(silent or _silent.get())
    try:
        yield
    finally:
        _silent.reset(token)


def tell(text: str) -> None:
    """Print a line on stdout, flushed: what is about to be done, which may take hours."""
    if not _silent.get():
        print(text, flush=True)


def warn(text: str) -> None:
    """Print a line on stderr: something the user may want to look into, while the work continues."""
    if not _silent.get():
        tqdm.write(text, file=sys.stderr)
        sys.stderr.flush()


def progress_bar(*arguments: Any, show: bool = True, **settings: Any) -> Any:
    """A tqdm bar, on stderr if that is a terminal, or in a notebook's cell; hidden elsewhere or if `show` is False."""
    without_terminal = False if type(sys.stderr).__module__.startswith("ipykernel") else None
    make: Any = tqdm  # whose overloads take no unpacked arguments
    return make(*arguments, disable=True if _silent.get() or not show else without_terminal, **settings)


def pluralize(number: int, noun: str) -> str:
    """A number with its noun: `1 step`, `2,000 steps`."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]


def shell_join(*words: object) -> str:
    """Words as they are typed in a shell, those with spaces in quotes: `evaluate 'my run'`."""
    return shlex.join(map(str, words))

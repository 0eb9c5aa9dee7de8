"""Messages and progress bars shown to the user while something runs. `quiet` silences all of them.

The output that a command was run for is not a message; errors are raised.
"""

import contextlib
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextlib.contextmanager
def quiet(silent: bool = True) -> Iterator[None]:
    """Show no messages or bars inside the block, in this thread and in processes forked from it; a no-op if `silent`
    is False."""
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
        bar_class().write(text, file=sys.stderr)
        sys.stderr.flush()


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 step`, `2,000 steps`."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def typed(*words: object) -> str:
    """Words as they are typed in a shell, those with spaces in quotes: `evaluate 'my run'`."""
    return shlex.join(map(str, words))


LINE_SECONDS = 60.0
"""Seconds between the lines of progress where there is no terminal."""


def bar(*arguments: Any, show: bool = True, **settings: Any) -> Any:
    """A tqdm bar, on stderr if that is a terminal, or in a notebook's cell; elsewhere, a line on stderr now and then.

    Args:
        arguments: Passed to tqdm.
        show: False for a hidden bar.
        settings: Passed to tqdm.
    """
    hidden = _silent.get() or not show
    if not hidden and not _in_notebook() and not sys.stderr.isatty():
        every = {"delay": LINE_SECONDS, "mininterval": LINE_SECONDS, "maxinterval": LINE_SECONDS}
        return _lines_class()(*arguments, file=_Lines(), ncols=0, **(settings | every | {"leave": False}))
    return bar_class()(*arguments, disable=hidden, **settings)


class _Lines:
    """A file for a bar that writes every state of it as a line on stderr."""

    encoding = "ascii"

    def write(self, text: str) -> None:
        if state := text.strip():
            sys.stderr.write(f"{state}\n")

    def flush(self) -> None:
        sys.stderr.flush()


def _lines_class() -> Any:
    """The text class of tqdm, without the thread that it starts to watch slow bars."""
    from tqdm import tqdm

    return type("Lines", (tqdm,), {"monitor_interval": 0})


def bar_class() -> Any:
    """The tqdm class for the current environment: a widget in a notebook that can show one, else text."""
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)  # that widgets are missing: tqdm then shows text
        from tqdm.auto import tqdm
    return tqdm


def _in_notebook() -> bool:
    """Whether this is a notebook's kernel, which shows bars although its stderr is not a terminal."""
    shell = sys.modules.get("IPython")
    current = None if shell is None else shell.get_ipython()
    return current is not None and "IPKernelApp" in current.config

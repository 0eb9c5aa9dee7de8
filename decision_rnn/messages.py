"""Messages and progress bars shown to the user while something runs. `quiet` silences all of them.

The output that a command was run for is not a message; errors are raised.
"""

import contextlib
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


def bar(*arguments: Any, show: bool = True, **settings: Any) -> Any:
    """A tqdm bar, on stderr if that is a terminal, or in a notebook's cell.

    Args:
        arguments: Passed to tqdm.
        show: False for a hidden bar.
        settings: Passed to tqdm.
    """
    hidden = _silent.get() or not show or not (_in_notebook() or sys.stderr.isatty())
    return bar_class()(*arguments, disable=hidden, **settings)


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

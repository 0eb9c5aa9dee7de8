"""What is told to a person while something runs: lines and bars. All of it comes through here, and `quiet` stills it.

Results that a command was asked for are no messages; errors are raised.
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
    """Inside the block no line is told and no bar shown, in this thread and in processes forked from it; with False
    the block changes nothing."""
    token = _silent.set(silent or _silent.get())
    try:
        yield
    finally:
        _silent.reset(token)


def tell(text: str) -> None:
    """A line on stdout, at once: what is going to be done, before hours of it."""
    if not _silent.get():
        print(text, flush=True)


def warn(text: str) -> None:
    """A line on stderr: what a person may want to look into, while the work goes on."""
    if not _silent.get():
        bar_class().write(text, file=sys.stderr)
        sys.stderr.flush()


def bar(*arguments: Any, show: bool = True, **settings: Any) -> Any:
    """A tqdm bar, on stderr where that is a terminal, or in a notebook's cell.

    Args:
        arguments: tqdm's.
        show: False for a bar that is not seen.
        settings: tqdm's.
    """
    hidden = _silent.get() or not show or not (_in_notebook() or sys.stderr.isatty())
    return bar_class()(*arguments, disable=hidden, **settings)


def bar_class() -> Any:
    """tqdm's class for where we are: a widget in a notebook that can show one, else text."""
    if not _in_notebook():
        from tqdm import tqdm
    else:
        from tqdm import TqdmWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TqdmWarning)  # that there are no widgets: its text serves
            from tqdm.auto import tqdm
    return tqdm


def _in_notebook() -> bool:
    """Whether this is a notebook's kernel, whose stderr is no terminal and shows bars all the same."""
    shell = sys.modules.get("IPython")
    current = None if shell is None else shell.get_ipython()
    return current is not None and "IPKernelApp" in current.config

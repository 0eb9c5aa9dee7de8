"""Ctrl-C and the signals of schedulers, held back until a step of training is done, or an episode is written."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self, TypeVar

Returned = TypeVar("Returned")
Handler = Callable[[int, FrameType | None], object]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
"""The signals that end work: those of Ctrl-C, of schedulers before they kill a process, and of a closed terminal."""


@contextlib.contextmanager
def handle_signals(handler: Handler = signal.default_int_handler) -> Iterator[None]:
    """Within the block, signals that would end the process call a handler, which by default raises KeyboardInterrupt.

    Signals that the process handles or ignores in its own way, such as SIGHUP under nohup, are left alone, and so are
    all of them outside the main thread, where Python allows no handlers.
    """
    before: dict[signal.Signals, Any] = {}
    try:
        for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
            if (current := signal.getsignal(number)) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = current
                signal.signal(number, handler)
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


class Interruption(contextlib.ExitStack):
    """A context in which the signals that `handle_signals` names only set `requested`.

    A second Ctrl-C raises KeyboardInterrupt, unless it is `patient`: for work that takes a moment and would be lost.
    Schedulers send the other signals more than once.
    """

    def __init__(self, patient: bool = False) -> None:
        super().__init__()
        self.requested = False
        self._patient = patient
        self._at_once = self._interrupted = False

    def __enter__(self) -> Self:
        self.enter_context(handle_signals(self._handle))
        return self

    def call(self, function: Callable[[], Returned]) -> Returned | None:
        """The result of a call that may take long and leaves nothing half-done: it is interrupted at once, and the
        result is then None."""
        self._at_once = True
        try:
            return function()
        except KeyboardInterrupt:
            self.requested = True
            return None
        finally:
            self._at_once = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again = number == signal.SIGINT and self._interrupted
        self._interrupted |= number == signal.SIGINT
        if self._at_once or (again and not self._patient):
            raise KeyboardInterrupt
        self.requested = True

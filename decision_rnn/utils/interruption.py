"""Ctrl-C and SIGTERM, held back until a step of training is done, or an episode is written."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeVar

Returned = TypeVar("Returned")


class Interruption:
    """A context in which the first Ctrl-C or SIGTERM only sets `requested`.

    A second one raises KeyboardInterrupt, unless it is `patient`: for work that takes a moment and would be lost.

    Signals that the process handles or ignores in its own way, as a background job of a shell ignores Ctrl-C, are left
    alone, and so are all of them outside the main thread, where Python allows no handlers.
    """

    def __init__(self, patient: bool = False) -> None:
        self.requested = False
        self._patient = patient
        self._at_once = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

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
        if self._at_once or (self.requested and not self._patient):
            raise KeyboardInterrupt
        self.requested = True

"""Progress of a comparison: one bar for all runs, and a line for each run that ends."""

import time
from collections.abc import Sequence
from types import TracebackType

from decision_rnn.comparison.cells import Cell
from decision_rnn.comparison.executors.contract import Event, Failed, Finished, Progress
from decision_rnn.messages import bar, warn


class Display:
    """A progress bar over the steps of all runs, if stderr is a terminal, and a line for each run that ends.

    Args:
        cells: The cells that are still to be run.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = cells
        self.steps = [0] * len(cells)
        self.running: set[int] = set()
        self.done, self.failed, self.busy = 0, 0, 0.0
        self.begun = time.perf_counter()
        self.total = sum(cell.config.training.steps for cell in cells)
        self.bar = bar(
            total=self.total,
            bar_format="{desc} |{bar}| {percentage:3.0f}% of the steps, {elapsed} so far, {remaining} left",
            smoothing=0,  # steps take longer with some backbones: the overall mean predicts better
        )
        self._describe()

    def show(self, event: Event) -> None:
        """Show an executor's event."""
        if isinstance(event, Progress):
            if event.cell not in self.running:
                self.running.add(event.cell)
                self.total -= event.steps - self.steps[event.cell]  # done by an earlier process
                self.bar.total = self.total
            else:
                self.bar.update(max(0, event.steps - self.steps[event.cell]))
            self.steps[event.cell] = max(event.steps, self.steps[event.cell])  # a restarted cell starts lower
        else:
            cell = self.cells[event.cell]
            self.running.discard(event.cell)
            if isinstance(event, Finished):
                self.done += 1
                self.busy += event.outcome.busy_seconds
                self._line(f"{cell.run} done")
            elif isinstance(event, Failed):
                self.failed += 1
                if event.details is not None:
                    warn(event.details.rstrip())
                self._line(f"{cell.run} failed: {event.error}")
            self.bar.update(cell.config.training.steps - self.steps[event.cell])
        self._describe()

    def utilisation(self, jobs: int) -> float:
        """The share of the time of `jobs` jobs that was spent on training or evaluation."""
        return self.busy / (min(jobs, len(self.cells)) * (time.perf_counter() - self.begun))

    def _line(self, text: str) -> None:
        counts = f"{self.done + self.failed} of {len(self.cells)}"
        warn(f"[{counts}] {text}")

    def _describe(self) -> None:
        self.bar.set_description_str(f"{self.done} done, {len(self.running)} running, {self.failed} failed")

    def __enter__(self) -> "Display":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.close()

"""The cells of a comparison, one run each: trained and evaluated as far as that is not done, several at a time."""

import os
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from decision_rnn.config import RunConfig
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.results import Key, Protocol, Result, find_result, write_result
from decision_rnn.plugins import import_plugins
from decision_rnn.training.loop import train
from decision_rnn.workers import available_cores, limited_threads, start_worker


@dataclass(frozen=True)
class Cell:
    """One run of a comparison.

    Attributes:
        label: Of its variant.
        config: Of the run, with its seed.
        folder: Of the run.
        fingerprint: Of the data.
        protocol: How it is evaluated.
    """

    label: str
    config: RunConfig
    folder: Path
    fingerprint: str
    protocol: Protocol

    @property
    def key(self) -> Key:
        """Of the result that the cell is there for: that of its last step."""
        return Key.of(self.config, self.fingerprint, self.config.training.steps, self.protocol)


def run_cell(cell: Cell) -> Result:
    """The cell's result: as found, or of the run, which is begun or gone on with first where it is not finished."""
    result = find_result(cell.folder, cell.key)
    if result is None:
        trained = train(cell.config, cell.folder, resume=(cell.folder / "config.yaml").is_file())
        result = evaluate(trained, cell.config.evaluation)
        write_result(cell.folder, result)
    return result


def run_cells(cells: Sequence[Cell], jobs: int) -> list[Result | Exception]:
    """Every cell's result, or what it failed with: one that fails does not take the others with it.

    Args:
        cells: What to run.
        jobs: How many at a time, each on its share of the cores.
    """
    outcomes: list[Result | Exception | None] = [None] * len(cells)
    if jobs == 1:
        for i, cell in enumerate(cells):
            try:
                outcomes[i] = run_cell(cell)
            except Exception as error:
                outcomes[i] = _failed(cell, error)
    else:
        plugins = tuple(dict.fromkeys(name for cell in cells for name in cell.config.plugins))
        with (
            ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_start, initargs=(plugins,)) as pool,
            tqdm(total=len(cells), desc="runs", unit="run", disable=None) as bar,
        ):
            with limited_threads(max(1, available_cores() // jobs)):
                futures = {pool.submit(run_cell, cell): i for i, cell in enumerate(cells)}
            try:
                for future in as_completed(futures):
                    i = futures[future]
                    try:
                        outcomes[i] = future.result()
                    except Exception as error:
                        outcomes[i] = _failed(cells[i], error)
                    bar.update()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return [outcome for outcome in outcomes if outcome is not None]


def _failed(cell: Cell, error: Exception) -> Exception:
    """Tell of a failure at once: the other cells may take hours yet."""
    if not isinstance(error, InputError):
        traceback.print_exception(error)
    tqdm.write(f"{cell.folder.name} failed: {describe_failure(error)}", file=sys.stderr)
    return error


def describe_failure(error: Exception) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}".rstrip(": ")


def _start(plugins: Sequence[str]) -> None:
    """In a worker: no bars, which would write over each other, and what the parent has been told to import."""
    start_worker()
    os.environ["TQDM_DISABLE"] = "1"
    import_plugins(plugins)

"""Executors, which start the runs of a comparison, by name."""

from collections.abc import Callable

from decision_rnn.comparison.executors.contract import Executor, Task
from decision_rnn.comparison.executors.local import LocalExecutor

__all__ = ["EXECUTORS", "Executor", "LocalExecutor", "Task"]


def _ray(jobs: int | None, address: str | None) -> Executor:
    from decision_rnn.comparison.executors.ray import RayExecutor  # here, because Ray may be missing

    return RayExecutor(address, jobs)


EXECUTORS: dict[str, Callable[[int | None, str | None], Executor]] = {
    "local": lambda jobs, address: LocalExecutor(jobs),
    "ray": _ray,
}
"""From the number of runs at a time, None for the executor's default, and the address of a cluster to an executor; a
module named by --plugins adds its own."""

"""Running a comparison: an executor runs the unfinished cells, then all records are collected."""

import contextlib
from dataclasses import replace

from decision_rnn.comparison.cells import read_record, write_record
from decision_rnn.comparison.display import Display
from decision_rnn.comparison.executors.contract import Executor, Failed, Finished
from decision_rnn.comparison.output import write_comparison
from decision_rnn.comparison.plan import Plan
from decision_rnn.comparison.record import ComparedVariant, Comparison, Failure
from decision_rnn.comparison.report.words import plural
from decision_rnn.config import to_dict
from decision_rnn.evaluation.results import PACKAGES
from decision_rnn.files import working_alone
from decision_rnn.machine import hardware, versions
from decision_rnn.messages import tell


def compare(plan: Plan, executor: Executor, command: str) -> Comparison:
    """Run the unfinished runs of a comparison, collect all results and write them.

    If it is killed and started again, finished runs are not repeated and an interrupted run resumes from its last
    checkpoint. A failed run is reported at once and does not stop the others.

    Args:
        plan: What is compared.
        executor: Runs the cells.
        command: The command that started the comparison, for the record.

    Returns:
        The content of comparison.json: the runs that have a result, and those that failed.

    Raises:
        InputError: If another process is running the comparison, a run's folder holds a run of another configuration,
            or no run is possible for another reason.
    """
    with working_alone(plan.output, "comparison", "running the comparison", "the comparison's folder"):
        datasets, cells = plan.cells()
        records = {cell.run: record for cell in cells if (record := read_record(cell)) is not None}
        pending = [cell for cell in cells if cell.run not in records]
        pending = [replace(cell, jobs=min(executor.jobs, len(pending))) for cell in pending]
        failures: dict[str, Failed] = {}
        tell(_describe(plan, len(pending), executor.jobs))  # shown before hours of work
        if pending:
            with Display(pending) as display, contextlib.closing(executor.run(pending)) as events:
                for event in events:
                    if isinstance(event, Finished):
                        cell = pending[event.cell]
                        records[cell.run] = event.outcome.record
                        if read_record(cell) is None:  # the cell ran on a machine that does not share this folder
                            write_record(cell, event.outcome.record)
                    elif isinstance(event, Failed):
                        failures[pending[event.cell].run] = event
                    display.show(event)
                share = display.utilisation(executor.jobs)
            tell(f"{100 * share:.1f}% of the runs' time was training or playing")
        protocol = cells[0].protocol
        comparison = Comparison(
            command=command,
            seeds=plan.seeds,
            episodes=protocol.episodes,
            checkpoint_episodes=plan.checkpoint_episodes,
            datasets=datasets,
            variants=tuple(
                ComparedVariant(
                    label=variant.label,
                    control=variant.control,
                    config=to_dict(replace(variant.config, dataset=plan.datasets[0], seed=plan.seeds[0])),
                )
                for variant in plan.variants
            ),
            trials=tuple(records[cell.run] for cell in cells if cell.run in records),
            failed=tuple(
                Failure(
                    variant=cell.variant,
                    dataset=cell.dataset,
                    seed=cell.config.seed,
                    run=cell.run,
                    error=failures[cell.run].error,
                )
                for cell in cells
                if cell.run in failures
            ),
            versions=versions(PACKAGES),
            hardware=hardware(),
        )
        write_comparison(plan.output, comparison)
    return comparison


def _describe(plan: Plan, pending: int, jobs: int) -> str:
    """What is about to be run, in one line."""
    controls = sum(variant.control for variant in plan.variants)
    runs = len(plan.variants) * len(plan.datasets) * len(plan.seeds)
    compared = plural(len(plan.variants) - controls, "variant")
    if controls:
        compared += f" and {plural(controls, 'control')}"
    return (
        f"{compared} on {plural(len(plan.datasets), 'dataset')} with {plural(len(plan.seeds), 'seed')}: "
        f"{plural(runs, 'run')}, of which {runs - pending} are done; {jobs} at a time, in {plan.output}"
    )

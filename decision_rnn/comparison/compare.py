"""Running a comparison: an executor trains the runs that are missing, then all results are collected and written."""

import contextlib
import csv
import io
import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from decision_rnn.comparison.executors import EXECUTORS, Executor
from decision_rnn.comparison.plan import Plan, PlannedTrial
from decision_rnn.comparison.record import EPISODE_COLUMNS, ComparedVariant, Comparison, Failure, read_comparison
from decision_rnn.config import to_dict
from decision_rnn.training.run_files import checkpoints_of
from decision_rnn.training.run_folder import read_metrics
from decision_rnn.utils.errors import InputError, cannot_write
from decision_rnn.utils.files import working_alone, write_atomically
from decision_rnn.utils.messages import bar, counted, tell, warn
from decision_rnn.utils.records import spelt
from decision_rnn.utils.workers import available_cores


def make_executor(plan: Plan, runs: int) -> Executor:
    """The executor that a plan names, for that number of runs."""
    jobs = min(available_cores(), runs) if plan.executor == "local" else None
    return EXECUTORS[plan.executor](plan.jobs or jobs, plan.ray_address)


def compare(plan: Plan, command: str, executor: Executor | None = None) -> Comparison:
    """Train the missing runs of a comparison, collect all results and write them.

    If it is killed and started again, finished runs are not repeated and an interrupted run resumes from its last
    checkpoint. A failed run is reported at once and does not stop the others.

    Args:
        plan: What is compared.
        command: The command that started the comparison, for the record.
        executor: Trains the runs; if left out, the plan's.

    Raises:
        InputError: If another process is running the comparison, a run's folder holds a run of another configuration,
            the folder holds a comparison with runs that this one lacks, or no run is possible for another reason.
    """
    with working_alone(plan.folder, "comparison", "running the comparison"):
        datasets, planned = plan.trials()
        _check_folder(plan.folder, planned)
        for trial in planned:
            trial.check_unchanged()
        trials = {each.run: each.collect() for each in planned}
        pending = [each for each in planned if trials[each.run] is None]
        executor = executor or make_executor(plan, len(planned))
        counts = (len(plan.variants), "variant"), (len(datasets), "dataset"), (len(plan.seed_numbers), "seed")
        sizes = f"{' x '.join(counted(*each) for each in counts)}: {counted(len(planned), 'run')}"
        done = len(planned) - len(pending)
        tell(f"{sizes}, of which {done} are done; {executor.jobs} at a time, in {plan.folder}")
        faults = _train(pending, executor)
        trials |= {each.run: each.collect() for each in pending if each.run not in faults}
        for each in planned:
            if trials[each.run] is None:
                faults.setdefault(each.run, f"it has no result on data of fingerprint {each.data.fingerprint[:12]}")
        first, settings = plan.datasets[0], planned[0].config.evaluation
        comparison = Comparison(
            command=command,
            seeds=tuple(plan.seed_numbers),
            episodes=settings.episodes,
            checkpoint_episodes=settings.checkpoint_episodes,
            datasets=datasets,
            variants=tuple(
                ComparedVariant(label=of.label, control=of.control, config=to_dict(replace(of.config, dataset=first)))
                for of in plan.variants
            ),
            trials=tuple(trial for trial in trials.values() if trial is not None),
            failed=tuple(
                Failure(variant=of.variant, dataset=of.data.name, seed=of.config.seed, run=of.run, error=faults[of.run])
                for of in planned
                if of.run in faults
            ),
        )
        write_comparison(plan.folder, comparison)
    return comparison


def list_commands(plan: Plan) -> list[str]:
    """The commands that train the missing runs, to be started elsewhere, such as by SLURM; their configurations are
    written into the runs' folders."""
    _, planned = plan.trials()
    for trial in planned:
        trial.check_unchanged()
    pending = [each for each in planned if each.collect() is None]
    return [shlex.join(["decision-rnn", *each.task().write()]) for each in pending]


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """Write comparison.json for programs, episodes.csv for statistics and comparison.md for people.

    Raises:
        InputError: If they cannot be written.
        EnvironmentFailure: If the disk is full.
    """
    from decision_rnn.comparison.report.markdown import format_comparison  # importing scipy takes a second

    text = io.StringIO()
    table = csv.DictWriter(text, [*EPISODE_COLUMNS, *comparison.metrics], lineterminator="\n")
    table.writeheader()
    table.writerows(spelt(comparison.episode_table()))
    files = {
        "comparison.json": json.dumps(comparison.to_dict(), separators=(",", ":")) + "\n",
        "episodes.csv": text.getvalue(),
        "comparison.md": format_comparison(comparison) + "\n",
    }
    try:
        for name, content in files.items():
            write_atomically(folder / name, content.encode())
    except OSError as error:
        raise cannot_write(f"the comparison into {folder}", error) from None


def _check_folder(folder: Path, planned: Sequence[PlannedTrial]) -> None:
    """InputError if the comparison.json in the folder has runs that are not planned, and so would be lost from it."""
    try:
        found = read_comparison(folder)
    except InputError:  # none, or one of another version, which is made again from the runs
        return
    ours = {each.run for each in planned}
    others = [trial.run for trial in found.trials if trial.run not in ours]
    if others:
        raise InputError(
            f"{folder} holds the comparison of {counted(len(others), 'other run')}, such as {others[0]}: use another "
            f"--output (output= in Python), compare them too, or remove {folder / 'comparison.json'}, which leaves the "
            "runs as they are"
        )


def _train(pending: Sequence[PlannedTrial], executor: Executor) -> dict[str, str]:
    """Train runs, with a progress bar and a line for each that ends; returns the errors of those that failed."""
    faults: dict[str, str] = {}
    if not pending:
        return faults
    ended = 0
    with (
        # The overall mean predicts better than the last steps, which take longer with some backbones.
        bar(
            total=sum(each.config.training.steps for each in pending),
            # What was logged after the last checkpoint is trained again: counting it would make the speed negative.
            initial=sum(int(last.name) for each in pending for last in checkpoints_of(each.output / each.run)[-1:]),
            desc="training",
            unit="step",
            smoothing=0,
        ) as shown,
        contextlib.closing(executor.run([each.task() for each in pending])) as events,
    ):
        for event in events:
            if event is not None:
                number, fault = event
                run, ended = pending[number].run, ended + 1
                warn(f"[{ended} of {len(pending)}] {run} {'done' if fault is None else f'failed: {fault}'}")
                if fault is not None:
                    faults[run] = fault
            elif not shown.disable:
                shown.update(sum(map(_steps_done, pending)) - shown.n)
    return faults


def _steps_done(planned: PlannedTrial) -> int:
    """The last step that a run has logged."""
    try:
        lines = read_metrics(planned.output / planned.run)
    except InputError:
        return 0
    return int(lines[-1]["step"]) if lines else 0

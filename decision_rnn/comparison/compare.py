"""Running a comparison: an executor trains the runs that are missing, then all results are collected and written."""

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import replace

from decision_rnn.comparison.executors import EXECUTORS, Executor
from decision_rnn.comparison.output import write_comparison
from decision_rnn.comparison.plan import Plan
from decision_rnn.comparison.record import ComparedVariant, Comparison, Failure
from decision_rnn.comparison.report.words import plural
from decision_rnn.comparison.trials import PlannedTrial
from decision_rnn.config import to_dict
from decision_rnn.errors import InputError
from decision_rnn.evaluation.results import PACKAGES
from decision_rnn.files import working_alone
from decision_rnn.machine import hardware, versions
from decision_rnn.messages import bar, tell, warn
from decision_rnn.training.run_folder import read_metrics
from decision_rnn.workers import available_cores


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

    Returns:
        The content of comparison.json: the runs that have a result, and those that failed.

    Raises:
        InputError: If another process is running the comparison, a run's folder holds a run of another configuration,
            or no run is possible for another reason.
    """
    with working_alone(plan.folder, "comparison", "running the comparison"):
        datasets, planned = plan.trials()
        trials = {each.run: trial for each in planned if (trial := each.collect()) is not None}
        pending = [each for each in planned if each.run not in trials]
        executor = executor or make_executor(plan, len(planned))
        tell(_describe(plan, len(pending), executor.jobs))  # shown before hours of work
        faults = _train(pending, executor) if pending else {}
        for each in pending:
            trial = each.collect() if each.run not in faults else None
            if trial is not None:
                trials[each.run] = trial
            else:
                faults.setdefault(each.run, f"it has no result on data of fingerprint {each.data.fingerprint[:12]}")
        settings = plan.variants[0].config.evaluation
        comparison = Comparison(
            command=command,
            seeds=tuple(plan.seed_numbers),
            episodes=settings.episodes,
            checkpoint_episodes=settings.checkpoint_episodes,
            datasets=datasets,
            variants=tuple(
                ComparedVariant(
                    label=variant.label,
                    control=variant.control,
                    config=to_dict(replace(variant.config, dataset=plan.datasets[0])),
                )
                for variant in plan.variants
            ),
            trials=tuple(trials[each.run] for each in planned if each.run in trials),
            failed=tuple(
                Failure(
                    variant=each.variant,
                    dataset=each.data.name,
                    seed=each.config.seed,
                    run=each.run,
                    error=faults[each.run],
                )
                for each in planned
                if each.run in faults
            ),
            versions=versions(PACKAGES),
            hardware=hardware(),
        )
        write_comparison(plan.folder, comparison)
    return comparison


def list_commands(plan: Plan) -> list[str]:
    """The commands that train the missing runs, to be started elsewhere, such as by SLURM; their configurations are
    written into the runs' folders."""
    _, planned = plan.trials()
    pending = [each for each in planned if each.collect() is None]
    return [shlex.join(["decision-rnn", *each.task().write()]) for each in pending]


def _train(pending: Sequence[PlannedTrial], executor: Executor) -> dict[str, str]:
    """Train runs, with a progress bar and a line for each that ends; returns the errors of those that failed."""
    faults: dict[str, str] = {}
    steps = [each.config.training.steps for each in pending]
    before = [_steps_done(each) for each in pending]
    ended = 0
    with (
        # The overall mean predicts better than the last steps, which take longer with some backbones.
        bar(total=sum(steps) - sum(before), desc="training", unit="step", smoothing=0) as shown,
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
                shown.update(sum(map(_steps_done, pending)) - sum(before) - shown.n)
    return faults


def _steps_done(planned: PlannedTrial) -> int:
    """The last step that a run has logged."""
    with contextlib.suppress(InputError):
        if lines := read_metrics(planned.output / planned.run):
            return int(lines[-1]["step"])
    return 0


def _describe(plan: Plan, pending: int, jobs: int) -> str:
    """What is about to be run, in one line."""
    controls = sum(variant.control for variant in plan.variants)
    runs = len(plan.variants) * len(plan.datasets) * plan.seeds
    compared = plural(len(plan.variants) - controls, "variant")
    if controls:
        compared += f" and {plural(controls, 'control')}"
    return (
        f"{compared} on {plural(len(plan.datasets), 'dataset')} with {plural(plan.seeds, 'seed')}: "
        f"{plural(runs, 'run')}, of which {runs - pending} are done; {jobs} at a time, in {plan.folder}"
    )

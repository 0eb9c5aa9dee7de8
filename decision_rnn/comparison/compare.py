"""Comparing variants over datasets and seeds: plan, train what is missing, collect and write results."""

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from decision_rnn.comparison.executors import LOG, LocalExecutor, RayExecutor
from decision_rnn.comparison.plan import OTHER, Plan
from decision_rnn.comparison.record import ComparedVariant, Failure
from decision_rnn.comparison.results import Comparison, read_comparison, write_comparison
from decision_rnn.comparison.variants import CONTROLS, Controls, Label, make_variants
from decision_rnn.config import flatten, nest, to_dict
from decision_rnn.data.dataset import as_dataset, full_name, is_ready, open_dataset
from decision_rnn.data.store import EpisodeStore
from decision_rnn.training.train import is_cloned, run_keys
from decision_rnn.utils.errors import InputError, MachineError
from decision_rnn.utils.files import working_alone, write_atomically
from decision_rnn.utils.interruption import handle_signals
from decision_rnn.utils.messages import pluralize, progress_bar, quiet, tell, warn
from decision_rnn.utils.parsing import Names, convert, options_of, read_yaml, to_plain
from decision_rnn.utils.plugins import import_plugins
from decision_rnn.utils.workers import available_cores

DEFAULT_BACKBONES = ("mingru", "minlstm", "lru", "transformer")
OPTIONS = ("backbones", "controls", "seeds", "checkpoint_episodes", "margin", "jobs", "executor", "output")
"""Options of a comparison, which are no keys of a run."""


def compare(
    datasets: Any,
    backbones: str | Sequence[str] | None = None,
    *,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    controls: str | Sequence[str] = CONTROLS,
    seeds: int | Sequence[int] = 3,
    steps: int | None = None,
    output: Path | str | None = None,
    checkpoint_episodes: int = 0,
    margin: float | None = None,
    jobs: int | None = None,
    executor: Literal["local", "ray"] = "local",
    environment_id: str | None = None,
    progress: bool = True,
    plugins: Sequence[str] = (),
    **config: Any,
) -> Comparison:
    """Train and evaluate variants on datasets with several seeds; `decision-rnn compare` does the same.

    Runs are made in separate processes: whatever a notebook registers, such as a backbone or an environment, must be in
    a module named in `plugins`. If interrupted and called again, it continues without repeating finished runs. Where
    data have no environment, `validation="local/held-out"` names episodes whose actions the agents predict.

    Args:
        datasets: A dataset as `train` takes it, episodes in memory included, or a list of datasets.
        backbones: Names, each a variant; if left out, mingru, minlstm, lru and transformer, or none if variants are
            given.
        variants: The keys of each variant, by label: `{"long": {"backbone": "mingru", "training": {"context": 60}}}`.
            `name` is its name in tables.
        controls: What to compare them with: bc (behaviour cloning), bc-10% (on the top 10% of episodes by return),
            bc-mlp (by an MLP), mlp and conv, with the settings of the first variant, or none.
        seeds: The number of seeds of every variant on every dataset, starting from `seed`, or a list of seeds.
        steps: Optimiser steps of every run; 2,000 if left out.
        output: The folder for the runs and the tables; runs/compare-DATASETS if left out.
        checkpoint_episodes: Episodes with which every checkpoint of a run is evaluated during training.
        margin: In points of score: whether a variant is equivalent to the first one within this margin is tested too.
            Choose it before you see the scores.
        jobs: Number of concurrent runs; one per core if left out.
        executor: Where to run: on this machine (local) or on a Ray cluster (ray), the one at the address in the
            environment variable RAY_ADDRESS or one that is started on this machine.
        environment_id: For episodes in memory: the Gymnasium id of their environment.
        progress: Whether to show a progress bar and a line for each finished run.
        plugins: Modules to import first, here and in the runs.
        config: Any other key of a run, shared by all variants, as `train` takes it.

    Returns:
        The comparison: `print(comparison)` shows its tables, `.to_dataframe()` has a row for every variant and target,
        `.trials` are the runs with every episode's return, `.failed` those that failed, which do not stop the others.

    Raises:
        InputError: If an argument is invalid, or a run impossible as it is configured, before the first run.
        MachineError: If every run has failed, with the error of the first.
    """
    import_plugins(plugins)
    path, partial = config.get("path"), config.get("partial", "keep")
    listed = datasets if isinstance(datasets, list | tuple) else [datasets]
    single = [data for data in listed if isinstance(data, Mapping) or hasattr(data, "rewards")]
    if any(not isinstance(data, EpisodeStore) for data in single):
        listed = [datasets]  # episodes of one dataset
    with quiet(not progress):
        opened = [as_dataset(data, environment_id, path, partial) for data in listed]
    if len({(dataset.path, dataset.partial) for dataset in opened}) > 1:
        raise InputError("compare(): the datasets differ in path or partial, which all runs share")
    options: dict[str, Any] = {"backbones": backbones, "variants": variants, "controls": controls, "seeds": seeds}
    options |= {"checkpoint_episodes": checkpoint_episodes, "margin": margin, "output": output}
    options |= {"jobs": jobs, "executor": executor, "plugins": plugins}
    keys = {"datasets": [dataset.name for dataset in opened], **run_keys(config, steps), **to_plain(options)}
    for dataset in opened[:1]:
        keys |= {"path": to_plain(dataset.path), "partial": dataset.partial}
    words = (f"{name}={value!r}" for name, value in keys.items() if value is not None)
    with quiet(not progress):
        return run_plan(make_plan(keys, "compare()"), f"decision_rnn.compare({', '.join(words)})")


def make_plan(keys: Mapping[str, Any], source: str) -> Plan:
    """The plan of a comparison from keys of a run, which all variants share, the `OPTIONS`, `variants`, with keys of a
    run by label, and `datasets` or `dataset`, names; InputError, naming their `source`, if one is invalid."""
    options = {name: option.default for name, option in options_of(compare).items() if name in OPTIONS}
    options |= {name: value for name in OPTIONS if (value := keys.get(name)) is not None}
    shared = {key: value for key, value in keys.items() if key not in (*OPTIONS, "variants")}
    own = convert(keys.get("variants") or {}, dict[Label, dict[str, Any]], f"{source}: variants")
    names = convert(shared.pop("dataset" if "dataset" in shared else "datasets", ()), Names, "datasets")
    datasets = tuple(dict.fromkeys(map(full_name, names)))
    backbones = options.pop("backbones") or (() if own else DEFAULT_BACKBONES)
    shared = {"evaluation.checkpoint_episodes": options.pop("checkpoint_episodes"), **flatten(shared)}
    named = {key: value for keys in (shared, *map(flatten, own.values())) for key, value in keys.items()}
    if datasets and all(is_ready(name) and is_cloned(named, open_dataset(name).store) for name in datasets):
        shared["condition.name"] = "none"
        if tuple(options["controls"]) == CONTROLS:
            options["controls"] = ("mlp",)  # the others are the same, or rank episodes by return
        tell(f"{', '.join(datasets)}: no rewards to condition on, so that all agents clone the data (condition none)")
    backbones = convert(backbones, Names, "backbones")
    controls = convert(convert(options.pop("controls"), Names), Controls, f"{source}: controls")
    own = {label: flatten(keys) for label, keys in own.items()}
    dataset = datasets[0] if datasets else ""
    variants = make_variants({**shared, "dataset": dataset}, own, backbones, controls, source)
    first, seeds = variants[0].config.seed, options["seeds"]
    options["seeds"] = tuple(range(first, first + seeds) if isinstance(seeds, int) else dict.fromkeys(seeds))
    options["output"] = options["output"] or f"runs/compare-{'+'.join(datasets).replace('/', '-')}"
    written = {"datasets": datasets, "seeds": options["seeds"], "margin": options["margin"], "backbones": backbones}
    written |= {"controls": controls, **nest(shared), "variants": {label: nest(keys) for label, keys in own.items()}}
    return convert({"variants": variants, "datasets": datasets, **options, "keys": to_plain(written)}, Plan)


def run_plan(plan: Plan, command: str, executor: LocalExecutor | None = None) -> Comparison:
    """Train the missing runs of a comparison, collect all results and write them; `command` is for the record.

    If it is killed and started again, finished runs are not repeated and an interrupted run resumes from its last
    checkpoint; Ctrl-C and the signals of schedulers end it after its runs have written checkpoints. A failed run is
    reported at once and does not stop the others. Without an executor the plan's is used.

    Raises:
        InputError: If another process is running the comparison, the output folder is a run's, a run's folder holds a
            run of another configuration or of other data, or the folder's comparison has runs that this one lacks.
        MachineError: If every run has failed, with the error of the first.
    """
    file = plan.output / "config.yaml"
    if file.is_file() and "datasets" not in read_yaml(file):
        raise InputError(f"{plan.output} holds a run: {OTHER}")
    with working_alone(plan.output, "comparison", "running the comparison"), handle_signals():
        datasets, planned = plan.trials()
        others: list[str] = []
        with contextlib.suppress(InputError):  # there is none, or one that is made again from the runs
            others = [trial.run for trial in read_comparison(plan.output).trials]
        if others := [run for run in others if run not in {each.run for each in planned}]:
            raise InputError(
                f"{plan.output}/comparison.json has {others[0]}: {OTHER}, compare it too, or remove that file"
            )
        trials = {run.run: run.collect() for run in planned}
        pending, failed = [run for run in planned if trials[run.run] is None], list[Failure]()
        executor = executor or make_executor(plan, len(planned))
        done = len(planned) - len(pending)
        tell(f"{pluralize(len(planned), 'run')}, {done} of them done; {executor.jobs} at a time, in {plan.output}")
        with (
            progress_bar(total=len(pending), desc="training", unit="run", show=bool(pending)) as progress,
            contextlib.closing(executor.run([run.task() for run in pending])) as events,
        ):
            for number, error in events:
                progress.update(1)
                run = pending[number]
                trials[run.run] = None if error else run.collect()
                if trials[run.run] is None:
                    error = error or f"no result on data of fingerprint {run.data.fingerprint[:12]}"
                    about = {"variant": run.variant, "dataset": run.data.name, "run": run.run}
                    failed.append(Failure(**about, seed=run.config.seed, error=error))
                warn(f"{run.run} {f'failed: {error}' if error else 'done'}")

        variants = [vars(variant) | {"config": to_dict(variant.config)} for variant in plan.variants]
        comparison = Comparison(
            command=command,
            seeds=plan.seeds,
            episodes=max(run.config.evaluation.episodes for run in planned),
            margin=plan.margin,
            datasets=datasets,
            variants=tuple(ComparedVariant(**values) for values in variants),
            trials=tuple(trial for trial in trials.values() if trial is not None),
            failed=tuple(failed),
        )
        write_comparison(plan.output, comparison)
        write_atomically(file, yaml.safe_dump(plan.keys, sort_keys=False, default_flow_style=None).encode())
    if not comparison.trials:
        log = plan.output / failed[0].run / LOG
        error = failed[0].error.rstrip(".")
        raise MachineError(f"no run has a result. {failed[0].run} failed: {error}. See {log}.")
    return comparison


def list_commands(plan: Plan) -> list[str]:
    """The commands that train the missing runs, to be started elsewhere, such as by SLURM. Their configurations are
    written into the folder `configs`; the folders of the runs, which may be in progress, are only read."""
    _, planned = plan.trials()
    return [shlex.join(["decision-rnn", *run.task().words]) for run in planned if run.collect() is None]


def make_executor(plan: Plan, runs: int) -> LocalExecutor:
    """The executor that a plan names, for that number of runs."""
    if plan.executor == "ray":
        return RayExecutor(plan.jobs)
    return LocalExecutor(plan.jobs or min(available_cores(), runs))

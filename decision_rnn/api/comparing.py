"""Comparing variants over datasets and seeds, as an experiment."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from decision_rnn.api.configuration import output_folder, plain, run_keys
from decision_rnn.api.datasets import find_dataset
from decision_rnn.comparison.compare import compare as run_plan
from decision_rnn.comparison.executors.contract import Executor
from decision_rnn.comparison.executors.local import LocalExecutor
from decision_rnn.comparison.plan import CHECKPOINT_EPISODES, Plan
from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.variants import (
    CONTROLS,
    DEFAULT_BACKBONES,
    Variant,
    add_controls,
    make_variants,
    part_keys,
)
from decision_rnn.config import RunConfig
from decision_rnn.config_parser import new_config
from decision_rnn.data.catalog import open_dataset
from decision_rnn.errors import InputError
from decision_rnn.messages import quiet
from decision_rnn.parsing import split_names
from decision_rnn.plugins import import_plugins
from decision_rnn.workers import available_cores

SOURCE = "compare()"


def compare(
    datasets: Any,
    backbones: str | Sequence[str] | None = None,
    *,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    controls: str | Sequence[str] = CONTROLS,
    seeds: int = 3,
    steps: int | None = None,
    output: Path | str | None = None,
    checkpoint_episodes: int = CHECKPOINT_EPISODES,
    jobs: int | None = None,
    executor: Literal["local", "ray"] = "local",
    ray_address: str | None = None,
    progress: bool = True,
    plugins: Sequence[str] = (),
    **config: Any,
) -> Comparison:
    """Train and evaluate variants on datasets with several seeds; `decision-rnn compare` does the same.

    Runs are made in separate processes, so a script must do its work under `if __name__ == "__main__":`, and whatever a
    notebook registers must be in a module named in `plugins`. If interrupted and called again, it continues without
    repeating finished runs.

    Args:
        datasets: A dataset as `train` takes it, or a list of them.
        backbones: Names, each a variant; if left out, `mingru`, `minlstm`, `lru` and `transformer`, or none if
            `variants` are given.
        variants: The keys of each variant, by label: `{"long": {"backbone": "mingru", "training": {"context": 60}}}`.
        controls: What to compare them with: any of `bc` (behaviour cloning), `bc-10%` (of the best tenth),
            `mlp` and `conv`; an empty list for none.
        seeds: The number of seeds of every variant on every dataset, starting from `seed`.
        steps: Optimiser steps of every run; 2,000 if left out.
        output: The folder for the runs and the tables; `runs/compare-DATASETS` if left out.
        checkpoint_episodes: The number of episodes for evaluating every checkpoint; 0 to evaluate only the last one.
        jobs: The number of concurrent runs; one per core if left out.
        executor: Where to run: on this machine (`local`), or on a Ray cluster (`ray`).
        ray_address: The address of a running cluster; if left out, one is started on this machine.
        progress: Whether to show a progress bar and a line for each finished run.
        plugins: Modules to import first, here and in the runs.
        config: Any other key of a run, shared by all variants, as `train` takes it.

    Returns:
        The comparison, as in its `comparison.json`: `.trials` are the runs with every episode's return, `.failed` those
        that failed, which do not stop the others. `print(comparison)` shows the tables, in Markdown.

    Raises:
        InputError: If an argument is invalid, before the first run.

    Example:
        >>> comparison = decision_rnn.compare(
        ...     "own/swing",
        ...     ["mingru", "lru"],
        ...     controls=[],
        ...     seeds=1,
        ...     steps=10,
        ...     output="compared",
        ...     checkpoint_episodes=0,
        ...     progress=False,
        ...     backbone={"width": 16, "layers": 1},
        ...     evaluation={"episodes": 1},
        ... )
        >>> [(cell.variant, cell.seed, len(cell.targets[0].returns)) for cell in comparison.trials]
        [('mingru', 0, 1), ('lru', 0, 1)]
    """
    arguments = {name: value for name, value in locals().items() if name != "config"} | config
    import_plugins(plugins)
    given = datasets if isinstance(datasets, list | tuple) else [datasets]
    found = [find_dataset(data, None, config.get("path"), config.get("partial", "keep")) for data in given]
    if not found:
        raise InputError(f"{SOURCE}: no dataset was named: give one, such as 'hopper-medium'")
    if len({(dataset.path, dataset.partial) for dataset in found}) > 1:
        raise InputError(
            f"{SOURCE}: the datasets differ in path or partial, which all runs of a comparison share: open them with "
            "the same, or compare them separately"
        )
    keys = {
        **run_keys(config, steps, SOURCE),
        "dataset": found[0].name,
        "path": None if found[0].path is None else str(found[0].path),
        "partial": found[0].partial,
        "plugins": list(plugins),
    }
    shared, own = part_keys({**keys, "variants": plain(variants or {})}, SOURCE)
    names = _names(backbones, "" if own else DEFAULT_BACKBONES)

    def configure(data: Mapping[str, Any], where: str, known: Collection[str] | None) -> RunConfig:
        return new_config(data, where)

    chosen = make_variants(shared, own, names, SOURCE, f"{SOURCE}: backbones", configure)
    chosen = add_controls(chosen, ",".join(_names(controls, "")) or "none", shared, SOURCE, configure)
    seeds, checkpoint_episodes, jobs = plain([seeds, checkpoint_episodes, jobs])
    plan = plan_of(chosen, [dataset.name for dataset in found], seeds, output, checkpoint_episodes, jobs)
    arguments |= {"datasets": list(plan.datasets), "path": keys["path"], "partial": keys["partial"]}
    with quiet(not progress):
        return run_plan(plan, executor_of(plan, jobs, executor, ray_address), _call(arguments))


def _call(arguments: Mapping[str, Any]) -> str:
    """The call of `compare` with these arguments as text, without those equal to their defaults."""
    defaults: dict[str, Any] = {"path": None, "partial": "keep"}
    defaults |= {name: parameter.default for name, parameter in inspect.signature(compare).parameters.items()}
    asked = {name: plain(value) for name, value in arguments.items()}
    words = [f"{name}={value!r}" for name, value in asked.items() if value != plain(defaults.get(name))]
    return f"decision_rnn.compare({', '.join(words)})"


def plan_of(
    variants: Sequence[Variant],
    datasets: Sequence[str],
    seeds: int,
    output: Path | str | None,
    checkpoint_episodes: int,
    jobs: int | None,
) -> Plan:
    """The plan of a comparison; arguments as for `compare`. Raises InputError if one is invalid."""
    for name, count in {"seeds": seeds, "checkpoint_episodes": checkpoint_episodes, "jobs": jobs}.items():
        if type(count) is not int and (name, count) != ("jobs", None):
            raise InputError(f"{name} is {count!r:.100}: it must be a whole number")
    folder = output_folder(output)
    if seeds < 1 or (jobs is not None and jobs < 1):
        raise InputError("seeds and jobs (--seeds, --jobs) must be at least 1")
    names = [open_dataset(name).name for name in datasets]
    first = variants[0].config
    return Plan(
        variants=tuple(variants),
        datasets=tuple(datasets),
        seeds=tuple(range(first.seed, first.seed + seeds)),
        output=folder or Path("runs") / f"compare-{'+'.join(name.replace('/', '-') for name in names)}",
        checkpoint_episodes=checkpoint_episodes,
    )


def executor_of(plan: Plan, jobs: int | None, executor: str, ray_address: str | None) -> Executor:
    """The executor that runs the cells; arguments as for `compare`."""
    if executor == "ray":
        from decision_rnn.comparison.executors.ray import RayExecutor

        return RayExecutor(ray_address, jobs)
    if executor != "local" or ray_address is not None:
        raise InputError(f"executor is {executor!r:.100}: it must be local, or ray, which ray_address is for")
    return LocalExecutor(jobs or min(available_cores(), len(plan.variants) * len(plan.datasets) * len(plan.seeds)))


def _names(given: str | Sequence[str] | None, default: str) -> list[str]:
    return split_names(default if given is None else given if isinstance(given, str) else ",".join(given))

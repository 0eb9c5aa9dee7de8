"""Comparing variants over datasets and seeds, as an experiment."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decision_rnn.comparison.variants import CONTROLS, make_variants
from decision_rnn.config import RunConfig, flatten, option_names
from decision_rnn.training.configuration import output_folder, plain, run_keys
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import quiet
from decision_rnn.utils.parsing import convert, options_of, split_names, suggest
from decision_rnn.utils.plugins import import_plugins

if TYPE_CHECKING:
    from decision_rnn.comparison.plan import Plan
    from decision_rnn.comparison.record import Comparison
else:
    Plan = Comparison = Any  # they import torch, and `options_of` reads the annotations for `--help`

DEFAULT_BACKBONES = ("mingru", "minlstm", "lru", "transformer")
OPTIONS = ("backbones", "controls", "seeds", "checkpoint_episodes", "jobs", "executor", "ray_address", "output")
"""Options of a comparison beside the keys of a run, on the command line, in a file or a Python call."""


def compare(
    datasets: Any,
    backbones: str | Sequence[str] | None = None,
    *,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    controls: str | Sequence[str] = CONTROLS,
    seeds: int | Sequence[int] = 3,
    steps: int | None = None,
    output: Path | str | None = None,
    checkpoint_episodes: int = 20,
    jobs: int | None = None,
    executor: str = "local",
    ray_address: str | None = None,
    environment_id: str | None = None,
    progress: bool = True,
    plugins: Sequence[str] = (),
    **config: Any,
) -> Comparison:
    """Train and evaluate variants on datasets with several seeds; `decision-rnn compare` does the same.

    Runs are made in separate processes: whatever a notebook registers must be in a module named in `plugins`, and there
    are no callbacks; `evaluation={"metrics": [...]}` measures more than the return. If interrupted and called again, it
    continues without repeating finished runs. Where data name no environment, `validation="local/held-out"` names
    episodes on which losses are compared.

    Args:
        datasets: A dataset as `train` takes it, episodes in memory included, or a list of datasets.
        backbones: Names, each a variant; if left out, mingru, minlstm, lru and transformer, or none if variants are
            given.
        variants: The keys of each variant, by label: `{"long": {"backbone": "mingru", "training": {"context": 60}}}`.
        controls: What to compare them with: any of bc (behaviour cloning), bc-10% (of the best tenth of the episodes),
            mlp and conv, with the settings of the first variant, or none.
        seeds: The number of seeds of every variant on every dataset, starting from `seed`, or a list of seeds.
        steps: Optimiser steps of every run; 2,000 if left out.
        output: The folder for the runs and the tables; runs/compare-DATASETS if left out.
        checkpoint_episodes: Episodes for evaluating every checkpoint; 0 to evaluate only the last one.
        jobs: Number of concurrent runs; one per core if left out.
        executor: Where to run: on this machine (local), on a Ray cluster (ray), or by an executor of a plugin.
        ray_address: The address of a running cluster; if left out, one is started on this machine.
        environment_id: For episodes in memory: the Gymnasium id of their environment.
        progress: Whether to show a progress bar and a line for each finished run.
        plugins: Modules to import first, here and in the runs.
        config: Any other key of a run, shared by all variants, as `train` takes it.

    Returns:
        The comparison, as in its `comparison.json`: `.trials` are the runs with every episode's return, `.failed` those
        that failed, which do not stop the others. `print(comparison)` shows the tables, in Markdown.

    Raises:
        InputError: If an argument is invalid, or a run impossible as it is configured, before the first run.

    Example:
        >>> comparison = decision_rnn.compare(
        ...     "local/swing",
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
    from decision_rnn.comparison.compare import compare as run_plan
    from decision_rnn.data.datasets import find_dataset  # here: slow, and not needed for the options

    import_plugins(plugins)
    part = config.get("path"), config.get("partial", "keep")
    found = [find_dataset(data, environment_id, *part) for data in _listed(datasets)]
    if len({(dataset.path, dataset.partial) for dataset in found}) > 1:
        raise InputError(
            "compare(): the datasets differ in path or partial, which all runs of a comparison share: open them with "
            "the same, or compare them separately"
        )
    keys = run_keys(config, steps, "compare()") | {"datasets": [dataset.name for dataset in found]}
    if found:
        keys |= {"path": plain(found[0].path), "partial": found[0].partial}
    arguments |= {name: keys[name] for name in ("datasets", "path", "partial") if name in keys}
    keys |= {name: plain(arguments[name]) for name in (*OPTIONS, "plugins", "variants")}
    with quiet(not progress):
        return run_plan(plan(keys, "compare()"), _call(arguments))


def plan(keys: Mapping[str, Any], source: str) -> Plan:
    """The plan that is described by keys of a run, which all variants share, the `OPTIONS`, `variants`, with keys of a
    run by label, and `datasets` or `dataset`, names; raises InputError, naming `source`, for an invalid key."""
    from decision_rnn.comparison.plan import Plan  # here: slow, and not needed for the options

    shared = dict(keys)
    options: dict[str, Any] = {name: option.default for name, option in options_of(compare).items() if name in OPTIONS}
    for name in OPTIONS:
        if (value := shared.pop(name, None)) is not None:
            hint = options_of(compare)[name].hint
            options[name] = output_folder(value) if name == "output" else convert(value, hint, f"{source}: {name}")
    own = shared.pop("variants", None) or {}
    if not isinstance(own, Mapping) or not all(isinstance(of, Mapping) for of in own.values()):
        raise InputError(f"{source}: variants must hold labels, each with the keys of that variant: {own!r:.100}")
    for key in shared:
        if "." not in key and key not in (*options_of(RunConfig), "datasets"):
            hint = suggest(key, (*option_names({}), *OPTIONS, "datasets", "variants"))
            raise InputError(f"{source}: unknown key {key!r:.100}; {hint}`decision-rnn compare --help` lists the keys")
    if "datasets" in shared and "dataset" in shared:
        raise InputError(f"{source}: dataset and datasets are both given: leave one of the two out")
    datasets = _names(shared.pop("datasets", None) or shared.pop("dataset", None) or ())
    backbones, controls = options.pop("backbones"), _names(options.pop("controls"))
    variants = make_variants(
        {
            "evaluation.checkpoint_episodes": options.pop("checkpoint_episodes"),
            **flatten(shared),
            "dataset": datasets[0] if datasets else "",
        },
        {str(label): flatten(of) for label, of in own.items()},
        _names(() if own else DEFAULT_BACKBONES) if backbones is None else _names(backbones),
        () if controls == ["none"] else controls,
        source,
    )
    return Plan(variants=variants, datasets=tuple(datasets), **options)


def _listed(datasets: Any) -> Sequence[Any]:
    """A list of datasets: that given, or the one that is given, which may be a list of episodes."""
    if not isinstance(datasets, list | tuple):
        return [datasets]
    from decision_rnn.data.store import EpisodeStore  # here: slow, and not needed for the options

    episodes = any(hasattr(each, "rewards") and not isinstance(each, EpisodeStore) for each in datasets)
    return [datasets] if episodes else datasets


def _call(arguments: Mapping[str, Any]) -> str:
    """The call of `compare` with these arguments as text, without those equal to their defaults."""
    defaults: dict[str, Any] = {"path": None, "partial": "keep"}
    defaults |= {name: parameter.default for name, parameter in inspect.signature(compare).parameters.items()}
    given = {name: plain(value) for name, value in arguments.items() if name != "environment_id"}
    words = [f"{name}={value!r}" for name, value in given.items() if value != plain(defaults.get(name))]
    return f"decision_rnn.compare({', '.join(words)})"


def _names(given: str | Sequence[str]) -> list[str]:
    return split_names(given if isinstance(given, str) else ",".join(map(str, given)))

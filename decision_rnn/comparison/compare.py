"""Variants x seeds on one dataset: trains what is missing, evaluates, and makes one table."""

import itertools
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.checkpoint import Provenance, last_checkpoint, load_agent
from decision_rnn.comparison.cells import Cell, describe_failure, run_cells
from decision_rnn.comparison.latency import action_latency
from decision_rnn.comparison.table import format_comparison
from decision_rnn.comparison.variants import Variant, check_variants
from decision_rnn.config import to_dict
from decision_rnn.data.catalog import open_dataset
from decision_rnn.errors import InputError
from decision_rnn.evaluation.remarks import remarks
from decision_rnn.evaluation.results import PACKAGES, DataSummary, Protocol, Result
from decision_rnn.evaluation.statistics import summarise_seeds
from decision_rnn.files import write_atomically
from decision_rnn.machine import hardware, versions
from decision_rnn.plugins import check_plugins
from decision_rnn.training.run_folder import check_resumed_run

SCHEMA = 2
"""Of comparison.json. Version 0.1's, which names none, has backbones in place of variants."""


def compare(variants: Sequence[Variant], seeds: Sequence[int], output: Path, jobs: int = 1) -> dict[str, Any]:
    """Train every variant with every seed, as far as that is not done, and gather the comparison.

    Args:
        variants: On the same dataset, evaluated the same way.
        seeds: Of the runs.
        output: Folder of the runs, `<label>-seed<n>`, and of comparison.json and comparison.md.
        jobs: Runs trained at the same time, each on its share of the cores.

    Returns:
        What comparison.json holds: per variant its scores, parameters, training time and latency; and the runs that
        failed, without which the rest is made.

    Raises:
        InputError: If a run's folder holds a run of another configuration.
        Exception: What the first run failed with, if all of them failed.
    """
    check_variants(variants)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"the seeds of a comparison are {list(seeds)}: name at least one, and each once")
    first = variants[0].config
    if first.evaluation.episodes == 0:
        raise InputError("evaluation.episodes is 0, which leaves nothing to compare: ask for at least 1")
    runs = []
    for seed, variant in itertools.product(seeds, variants):  # all of them before hours of work on the first
        check_plugins(variant.config.plugins, variant.label)
        config, folder = replace(variant.config, seed=seed), variant.folder(output, seed)
        if (folder / "config.yaml").is_file():
            config = check_resumed_run(config, folder)
        runs.append((variant, config, folder))
    dataset = open_dataset(first.dataset, first.path, first.partial)
    store = dataset.open()  # made here, where progress can be seen
    spec = dataset.spec
    cells = [
        Cell(
            variant.label,
            config,
            folder,
            store.fingerprint,
            Protocol.of(config.evaluation, spec, config.agent),
        )
        for variant, config, folder in runs
    ]
    outcomes = dict(zip([(cell.label, cell.config.seed) for cell in cells], run_cells(cells, jobs), strict=True))
    failures = {cell: outcome for cell, outcome in outcomes.items() if isinstance(outcome, Exception)}
    results = {cell: outcome for cell, outcome in outcomes.items() if isinstance(outcome, Result)}
    if not results:
        raise next(iter(failures.values()))
    comparison = _gather(variants, results, Provenance.of(spec, store), output)
    comparison |= {
        "seeds": list(seeds),
        "jobs": jobs,
        "failed": [
            {"label": label, "seed": seed, "error": describe_failure(error)}
            for (label, seed), error in failures.items()
        ],
    }
    try:
        write_atomically(output / "comparison.json", (json.dumps(comparison, indent=2) + "\n").encode())
        write_atomically(output / "comparison.md", (format_comparison(comparison) + "\n").encode())
    except OSError as error:
        raise InputError(f"cannot write the comparison into {output}: {error.strerror}") from None
    return comparison


def _gather(
    variants: Sequence[Variant], results: dict[tuple[str, int], Result], provenance: Provenance, output: Path
) -> dict[str, Any]:
    some = next(iter(results.values()))
    # Results of version 0.1 say less of the data, which are the same.
    known = {name: getattr(provenance, name) for name in ("return_min", "return_max", "notes")}
    dataset = replace(some.dataset, **known)
    entries = []
    for variant in variants:
        by_seed = {seed: result for (label, seed), result in results.items() if label == variant.label}
        if by_seed:
            entries.append(_entry(variant, by_seed, dataset, output))
    asked = dict.fromkeys(target["target_return"] for entry in entries for target in entry["targets"])
    made_by = [
        {"commit": result.commit, "versions": result.versions, "hardware": result.hardware}
        for result in results.values()
    ]
    return {
        "schema": SCHEMA,
        "dataset": json.loads(json.dumps(asdict(dataset))),
        "protocol": {**asdict(some.protocol), "target_returns": list(asked)},
        "variants": entries,
        "commits": sorted({str(result.commit) for result in results.values()}),
        "evaluated_by": [made for i, made in enumerate(made_by) if made not in made_by[:i]],
        "versions": versions(PACKAGES),
        "hardware": hardware(),
    }


def _entry(variant: Variant, results: dict[int, Result], dataset: DataSummary, output: Path) -> dict[str, Any]:
    """One variant's line; the latency is measured here, on an otherwise idle process."""
    targets = []
    for per_seed in zip(*(result.targets for result in results.values()), strict=True):
        scores = [target.score_mean for target in per_seed]
        targets.append(
            {
                "target_return": per_seed[0].target_return,
                "in_range": dataset.holds(per_seed[0].target_return),
                "score_per_seed": scores,
                **asdict(summarise_seeds(scores)),
                "return_per_seed": [target.return_mean for target in per_seed],
                "return_mean": float(np.mean([target.return_mean for target in per_seed])),
                # Over the episodes of a seed: how far apart the seeds are is another question, the scores' own.
                "return_sd": float(np.sqrt(np.mean([target.return_sd**2 for target in per_seed]))),
            }
        )
    seed, result = next(iter(results.items()))
    return {
        "label": variant.label,
        "config": to_dict(variant.config),
        "seeds": list(results),
        "targets": targets,
        "parameters": result.parameters,
        "training_seconds": statistics.median(result.training_seconds for result in results.values()),
        "action_microseconds": action_latency(load_agent(last_checkpoint(variant.folder(output, seed))).agent),
        "comparable": result.dataset.comparable,
        "remarks": list(remarks(variant.config, dataset, result.protocol)),
    }

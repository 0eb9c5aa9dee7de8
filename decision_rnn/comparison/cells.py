"""Backbones x seeds on one dataset: trains what is missing, evaluates, and makes one table."""

import json
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from decision_rnn.agent import DecisionAgent
from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.config import RunConfig, from_dict, to_dict
from decision_rnn.data.catalog import open_store
from decision_rnn.errors import InputError
from decision_rnn.evaluation.results import PACKAGES, describe_state, evaluate, write_result
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.evaluation.statistics import bootstrap_interval, interquartile_mean
from decision_rnn.files import write_atomically
from decision_rnn.machine import hardware, versions
from decision_rnn.plugins import import_plugins
from decision_rnn.training.trainer import train
from decision_rnn.workers import available_cores, limited_threads, start_worker


def compare(configs: Sequence[RunConfig], seeds: Sequence[int], output: Path, jobs: int = 1) -> dict[str, Any]:
    """Train every configuration with every seed, as far as that is not done, and gather the comparison.

    Args:
        configs: One per backbone.
        seeds: Of the runs.
        output: Folder of the runs, `<backbone>-seed<n>`, and of comparison.json and comparison.md.
        jobs: Runs trained at the same time, each on its share of the cores.

    Returns:
        What comparison.json holds: per backbone its scores, parameters, training time and latency.

    Raises:
        InputError: If a run's folder holds a run of another configuration.
    """
    first = configs[0]
    store = open_store(first.dataset, path=first.path, partial=first.partial)  # made here, where progress can be seen
    runs = [
        (replace(config, seed=seed), output / f"{config.backbone.name}-seed{seed}")
        for seed in seeds
        for config in configs
    ]
    results = _train_all(runs, jobs, store.fingerprint)
    grouped = [
        [result for (run, _), result in zip(runs, results, strict=True) if run.backbone == config.backbone]
        for config in configs
    ]
    folders = [output / f"{config.backbone.name}-seed{seeds[0]}" for config in configs]
    comparison = {
        "dataset": results[0]["dataset"],
        "protocol": results[0]["protocol"],
        "training": to_dict(configs[0])["training"],
        "seeds": list(seeds),
        "jobs": jobs,
        "backbones": [_summary(group, folder) for group, folder in zip(grouped, folders, strict=True)],
        "commits": sorted({str(result.get("commit")) for result in results}),
        "versions": versions(PACKAGES),
        "hardware": hardware(),
    }
    try:
        write_atomically(output / "comparison.json", (json.dumps(comparison, indent=2) + "\n").encode())
        write_atomically(output / "comparison.md", (format_comparison(comparison) + "\n").encode())
    except OSError as error:
        raise InputError(f"cannot write the comparison into {output}: {error.strerror}") from None
    return comparison


def format_comparison(comparison: dict[str, Any]) -> str:
    """The comparison as a Markdown table."""
    data, protocol, seeds = comparison["dataset"], comparison["protocol"], comparison["seeds"]
    targets = protocol["target_returns"]
    head = ["backbone", *(f"score, asked {target:g}" for target in targets)]
    head += [*(f"return, asked {target:g}" for target in targets), "parameters", "training", "one action"]
    rows = [head, ["---"] * len(head)]
    for entry in comparison["backbones"]:
        rows.append(
            [
                entry["backbone"],
                *(f"{t['score_iqm']:.1f} [{t['score_low']:.1f}, {t['score_high']:.1f}]" for t in entry["targets"]),
                *(f"{t['return_mean']:.0f} ± {t['return_sd']:.0f}" for t in entry["targets"]),
                f"{entry['parameters']:,}",
                f"{entry['training_seconds']:.0f} s",
                f"{entry['action_microseconds']:.0f} µs",
            ]
        )
    rows.append([f"(the data, {data['dataset']})", f"{data['score_mean']:.1f}", *[""] * (len(head) - 2)])
    note = (
        f"Last checkpoint after {comparison['training']['steps']:,} steps; seeds {', '.join(map(str, seeds))}; "
        f"{protocol['episodes']} episodes per target, {describe_state(protocol)}. "
        "Score: interquartile mean over seeds with a 95% bootstrap interval; return: mean ± sd over all "
        "episodes; training: median wall time of a run"
        + (f", {comparison['jobs']} runs at a time" if comparison["jobs"] > 1 else "")
        + "; one action: median at batch 1 on one thread."
        + (f" Comparability: {data['comparable']}." if "comparable" in data else "")  # older results do not say
    )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n\n" + note


def action_latency(agent: DecisionAgent, actions: int = 300) -> float:
    """Median microseconds of one `act` in one environment, on one thread."""
    observation, reward = torch.zeros(1, len(agent.observation_mean)), torch.zeros(1)
    times = []
    with one_thread(), torch.inference_mode():
        state = agent.initial_state(torch.ones(1))
        for _ in range(actions):
            begun = time.perf_counter()
            _, state = agent.act(observation, reward, None, state)
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def _train_all(runs: Sequence[tuple[RunConfig, Path]], jobs: int, fingerprint: str) -> list[dict[str, Any]]:
    if jobs == 1:
        return [_train_one(config, run, fingerprint) for config, run in runs]
    results: dict[int, dict[str, Any]] = {}
    with (
        ProcessPoolExecutor(
            jobs, get_context("spawn"), initializer=_start_quietly, initargs=(runs[0][0].plugins,)
        ) as pool,
        tqdm(total=len(runs), desc="runs", unit="run", disable=None) as bar,
    ):
        with limited_threads(max(1, available_cores() // jobs)):
            futures = {pool.submit(_train_one, config, run, fingerprint): i for i, (config, run) in enumerate(runs)}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                bar.update()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [results[i] for i in range(len(runs))]


def _start_quietly(plugins: Sequence[str]) -> None:
    """In a worker: no bars, which would write over each other; the plugins of its parent."""
    start_worker()
    import_plugins(plugins)
    os.environ["TQDM_DISABLE"] = "1"


def _train_one(config: RunConfig, run: Path, fingerprint: str) -> dict[str, Any]:
    """The result of a run; trained, or trained on, and evaluated unless that was done before on the same data."""
    path = run / "result.json"
    if path.is_file():
        result = json.loads(path.read_text())
        same_data = result["dataset"]["fingerprint"] == fingerprint
        if same_data and from_dict(result["config"], str(path)) == config:  # keys newer than the result have defaults
            return result
    result = evaluate(train(config, run, resume=(run / "config.yaml").is_file()), config.evaluation)
    write_result(run, result)
    return result


def _summary(results: Sequence[dict[str, Any]], run: Path) -> dict[str, Any]:
    """One backbone's line: `results` are its seeds'; the latency is measured here, on an otherwise idle process."""
    targets = []
    for per_seed in zip(*(result["targets"] for result in results), strict=True):
        scores = np.array([target["score_mean"] for target in per_seed])
        returns = np.concatenate([target["returns"] for target in per_seed])
        low, high = bootstrap_interval([scores])
        targets.append(
            {
                "target_return": per_seed[0]["target_return"],
                "score_per_seed": scores.tolist(),
                "score_iqm": interquartile_mean(scores),
                "score_low": low,
                "score_high": high,
                "return_mean": float(returns.mean()),
                "return_sd": float(returns.std()),
            }
        )
    return {
        "backbone": results[0]["config"]["backbone"]["name"],
        "config": results[0]["config"]["backbone"],
        "targets": targets,
        "parameters": results[0]["parameters"],
        "training_seconds": statistics.median(result["training_seconds"] for result in results),
        "action_microseconds": action_latency(load_agent(last_checkpoint(run)).agent),
    }

"""Comparisons with given scores, for tests of tables, figures and pages: nothing is trained or played."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from decision_rnn.comparison.record import ComparedDataset, ComparedVariant, Failure, Target, Trial
from decision_rnn.comparison.results import Comparison
from decision_rnn.comparison.variants import NAMES
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.evaluation.results import TargetResult

TARGETS = {3600.0: "paper", 1800.0: "paper", 3000.0: "best", 1000.0: "spread", 2000.0: "spread"}
CONTROLS = ("bc", "mlp", "conv")
ACTING = {"inference": "recurrent", "window": 20, "actions": "greedy"}
CONFIG: dict[str, Any] = {"training": {"steps": 20_000}, "evaluation": ACTING}


def make_dataset(name: str = "local/round") -> ComparedDataset:
    """A dataset on which a score is a return divided by 30."""
    data = DatasetSpec(
        name=name,
        fingerprint="a" * 64,
        environment_id="Hopper-v5",
        return_mean=1400.0,
        return_sd=350.0,
        return_min=0.0,
        return_max=3000.0,
        reference_min=0.0,
        reference_max=3000.0,
        score_meaning="0 is a random policy, 100 an expert",
        target_returns=(3600.0, 1800.0),
        return_scale=1000.0,
        spaces={},
        comparable="the data are not D4RL's",
    )
    targets = [Target(target_return=at, roles=(role,), in_range=at <= 3000) for at, role in TARGETS.items()]  # type: ignore[arg-type]
    return ComparedDataset(data=data, targets=tuple(targets))


def achieved(target: float | None, returns: Sequence[float], **changes: Any) -> TargetResult:
    """The result of episodes with these returns."""
    values = np.array(returns)
    numbers = {"return_mean": values.mean(), "return_sd": values.std(), "length_mean": 800.0}
    numbers |= {"score_mean": values.mean() / 30, "score_sd": values.std() / 30}
    in_range = None if target is None else target <= 3000
    return TargetResult(target_return=target, in_range=in_range, returns=tuple(returns), **numbers, **changes)


def make_trial(label: str, score: float, seed: int = 0, dataset: str = "local/round", **changes: Any) -> Trial:
    """A run with two episodes of that mean score for every target; bc has no target."""
    targets = [None] if label == "bc" else [*TARGETS]
    values: dict[str, Any] = {
        "targets": tuple(achieved(target, (30 * score - 30, 30 * score + 30)) for target in targets),
        "step": 20_000,
        "parameters": 730_000,
        "backbone_parameters": 700_000,
        "state_bytes": 512,
        "action_microseconds": 250.0,
        "training_seconds": 400.0,
        "evaluation_seconds": 60.0,
        "remarks": (),
        "commit": "0123456789ab",
        "versions": {"python": "3.12.0", "torch": "2.12.0"},
        "hardware": {"cpu": "Test CPU", "cores": 2, "threads": 1, "gpu": None},
    }
    return Trial(variant=label, dataset=dataset, seed=seed, run=f"{label}-seed{seed}", **{**values, **changes})


def of_trials(trials: Sequence[Trial], datasets: Sequence[str] = ("local/round",), **changes: Any) -> Comparison:
    """The comparison of these runs; bc, mlp and conv are controls."""
    values: dict[str, Any] = {
        "command": "decision-rnn compare hopper-medium --backbones mingru,lru --seeds 5",
        "seeds": tuple(sorted({trial.seed for trial in trials})),
        "episodes": 2,
        "datasets": tuple(map(make_dataset, datasets)),
        "variants": tuple(
            ComparedVariant(label=label, name=NAMES.get(label, label), control=label in CONTROLS, config=CONFIG)
            for label in dict.fromkeys(trial.variant for trial in trials)
        ),
        "trials": tuple(trials),
        "failed": (),
    }
    return Comparison(**{**values, **changes})


def of_scores(
    scores: Mapping[str, Any], datasets: Sequence[str] = ("local/round",), failed: Collection[tuple[str, int]] = ()
) -> Comparison:
    """The comparison of variants with these scores, (seeds,) on every dataset or (datasets, seeds).

    The runs of `failed`, label and seed, have no result on any dataset.
    """
    trials = [
        make_trial(label, score, seed, dataset)
        for label, values in scores.items()
        for dataset, seeds in zip(datasets, np.broadcast_to(values, (len(datasets), np.shape(values)[-1])), strict=True)
        for seed, score in enumerate(seeds.tolist())
    ]
    failures = tuple(
        Failure(variant=label, dataset=dataset, seed=seed, run=f"{label}-seed{seed}", error="the loss became NaN")
        for dataset in datasets
        for label, seed in failed
    )
    finished = tuple(trial for trial in trials if (trial.variant, trial.seed) not in failed)
    return replace(of_trials(trials, datasets), trials=finished, failed=failures)

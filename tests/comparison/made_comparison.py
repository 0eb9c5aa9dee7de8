"""Synthetic comparisons for tests of reports and plots: plausible random numbers, or given scores."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from decision_rnn.comparison.record import (
    CheckpointScores,
    ComparedDataset,
    ComparedVariant,
    Failure,
    Target,
    Trial,
)
from decision_rnn.comparison.results import Comparison
from decision_rnn.comparison.variants import NAMES
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.evaluation.results import TargetResult

LABELS = ("mingru", "minlstm", "lru", "s4d", "mamba", "transformer", "mlstm", "retention", "aaren", "gru", "lstm")
HARDWARE = {"cpu": "Test CPU", "cores": 2, "threads": 1, "gpu": None}
VERSIONS = {"python": "3.12.0", "torch": "2.12.0", "decision-rnn": "0.1.0"}

ERROR = "the loss became NaN at step 120"
CHECKED = ("paper", "best")
"""Roles of the targets that every checkpoint is asked for."""


def made_comparison(
    labels: Sequence[str] = LABELS[:6],
    seeds: int = 5,
    datasets: Sequence[str] = ("standin/hopper-medium",),
    controls: Sequence[str] = ("conv", "mlp"),
    cloning: Sequence[str] = ("bc",),
    failed: Sequence[tuple[str, int]] = (),
    checkpoints: int = 5,
    episodes: int = 20,
) -> Comparison:
    """A comparison of these variants, controls and cloning variants, which are controls too.

    `failed` are the (variant, seed) without a result on any dataset.
    """
    generator = np.random.default_rng(0)
    of_datasets = tuple(_dataset(name, i) for i, name in enumerate(datasets))
    names = [*labels, *controls, *cloning]
    config = {"training": {"steps": 20_000}, "plugins": [], "evaluation": {"inference": "recurrent", "window": 20}}
    skills = dict(zip(names, generator.uniform(0.75, 0.97, len(names)), strict=True))
    return Comparison(
        command="decision-rnn compare hopper-medium --backbones mingru,lru --seeds 5",
        seeds=tuple(range(seeds)),
        episodes=episodes,
        checkpoint_episodes=5,
        datasets=of_datasets,
        variants=tuple(
            ComparedVariant(label=name, name=NAMES.get(name, name), control=name not in labels, config=config)
            for name in names
        ),
        trials=tuple(
            _trial(generator, name, name in cloning, dataset, seed, skills[name], checkpoints, episodes)
            for dataset in of_datasets
            for name in names
            for seed in range(seeds)
            if (name, seed) not in failed
        ),
        failed=tuple(
            Failure(variant=name, dataset=of.data.name, seed=seed, run=f"{name}-seed{seed}", error=ERROR)
            for of in of_datasets
            for name, seed in failed
        ),
    )


def _dataset(name: str, number: int) -> ComparedDataset:
    data = DatasetSpec(
        name=name,
        fingerprint=f"{number}a" * 32,
        environment_id="Hopper-v5",
        return_mean=1400.0,
        return_sd=350.0,
        return_min=310.0,
        return_max=3118.0,
        reference_min=-20.272305,
        reference_max=3234.3,
        score_meaning="0 is a random policy, 100 an expert",
        target_returns=(3600.0, 1800.0),
        return_scale=1000.0,
        spaces={},
        comparable="the data are not D4RL's: compare scores with each other alone",
    )
    asked = [(3600.0, "paper"), (1800.0, "paper"), (3118.0, "best"), (600.0, "spread"), (1200.0, "spread"),
             (2400.0, "spread")]  # fmt: skip
    targets = (Target(target_return=of, roles=(role,), in_range=data.contains(of)) for of, role in asked)
    return ComparedDataset(data=data, targets=tuple(targets))


def _trial(
    generator: np.random.Generator,
    label: str,
    cloning: bool,
    dataset: ComparedDataset,
    seed: int,
    skill: float,
    checkpoints: int,
    episodes: int,
) -> Trial:
    luck = skill + generator.normal(0, 0.03)

    def results(progress: float, count: int, roles: Sequence[str]) -> tuple[TargetResult, ...]:
        asked = [None] if cloning else [t.target_return for t in dataset.targets if set(t.roles) & set(roles)]
        aims = [dataset.data.return_mean if of is None else min(of, 3000.0) for of in asked]
        played = [luck * progress * aim + generator.normal(0, 150, count) for aim in aims]
        return tuple(achieved(dataset.data, *of) for of in zip(asked, np.round(played, 3).tolist(), strict=True))

    steps = [20_000 * (i + 1) // checkpoints for i in range(checkpoints)]
    losses = {
        step: 0.02 + 0.3 * np.exp(-step / 4_000) * generator.uniform(0.9, 1.1) for step in range(100, 20_001, 100)
    }
    return Trial(
        variant=label,
        dataset=dataset.data.name,
        seed=seed,
        run=f"{label}-seed{seed}",
        step=20_000,
        targets=results(1, episodes, (*CHECKED, "spread")),
        checkpoints=tuple(
            CheckpointScores(step=step, targets=results(1 - 0.6 * float(np.exp(-step / 5_000)), 5, CHECKED))
            for step in steps
        ),
        loss=tuple((step, float(loss)) for step, loss in losses.items()),
        parameters=730_000 + 7_000 * len(label),
        backbone_parameters=700_000,
        state_bytes=0 if label == "mlp" else 512 * 4 ** (len(label) % 5),
        action_microseconds=250.0 + 60 * len(label),
        training_seconds=400.0 + 150 * len(label) + seed,
        evaluation_seconds=60.0,
        remarks=("lru forgets slowly and was trained on slices that each begin from nothing",) * (label == "lru"),
        commit="0123456789ab",
        versions=VERSIONS,
        hardware=HARDWARE,
        jobs=2,
    )


def achieved(data: DatasetSpec, asked: float | None, returns: Sequence[float]) -> TargetResult:
    """The result of episodes with these returns."""
    values = np.array(returns)
    scores = 100 * (values - data.reference_min) / (data.reference_max - data.reference_min)
    return TargetResult(
        target_return=asked,
        in_range=data.contains(asked),
        return_mean=float(values.mean()),
        return_sd=float(values.std()),
        score_mean=float(scores.mean()),
        score_sd=float(scores.std()),
        length_mean=800.0,
        returns=tuple(returns),
    )


_DATA = replace(
    _dataset("local/round", 0).data, return_min=0.0, return_max=3000.0, reference_min=0.0, reference_max=3000.0
)
_TARGETS = {3600.0: "paper", 1800.0: "paper", 3000.0: "best", 1000.0: "spread", 2000.0: "spread"}
ROUND = ComparedDataset(
    data=_DATA,
    targets=tuple(Target(target_return=of, roles=(role,), in_range=of <= 3000) for of, role in _TARGETS.items()),
)
"""A dataset on which a score is a return divided by 30."""


def trials_of_scores(
    scores: Sequence[float], label: str = "mingru", bc: bool = False, dataset: ComparedDataset = ROUND, **changes: Any
) -> list[Trial]:
    """A trial for each score, with the seeds 0, 1, ...: for every target two episodes with that mean score."""
    asked = [None] if bc else [target.target_return for target in dataset.targets]
    (made,) = made_comparison((label,), 1, controls=(), cloning=(), checkpoints=0).trials
    template = replace(made, dataset=dataset.data.name, loss=(), remarks=())
    played = [tuple(achieved(dataset.data, of, (30 * score - 30, 30 * score + 30)) for of in asked) for score in scores]
    return [replace(template, **{"seed": seed, "targets": of, **changes}) for seed, of in enumerate(played)]


def of_trials(trials: Sequence[Trial], **changes: Any) -> Comparison:
    """A comparison of these trials; variants named bc... or c... are controls."""
    labels = dict.fromkeys(trial.variant for trial in trials)
    seeds = max(trial.seed for trial in trials) + 1
    controls = [label for label in labels if label.startswith(("bc", "c"))]
    made = made_comparison([label for label in labels if label not in controls], seeds, (), controls, ())
    return replace(made, **{"datasets": (ROUND,), "trials": tuple(trials), "checkpoint_episodes": 20, **changes})


def of_scores(**scores: Sequence[float]) -> Comparison:
    """A comparison of variants with these scores of their seeds; bc has no target."""
    trials = (trials_of_scores(of, label, bc=label == "bc") for label, of in scores.items())
    return of_trials([trial for of_variant in trials for trial in of_variant])

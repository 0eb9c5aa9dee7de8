"""The record of a comparison: the content of comparison.json, and how to read it.

It holds the measurements, cell by cell; the summaries in tables and on the page are computed from it (summary.py).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from decision_rnn.data.summary import DataSummary
from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import describe_state
from decision_rnn.evaluation.results import TargetResult
from decision_rnn.records import read_record

SCHEMA = 3
"""Schema of comparison.json. Files of schema 2, and of version 0.1 without one, hold one dataset and no episodes."""

Role = Literal["paper", "best", "spread", "cloning"]
"""Where a target return comes from: the `paper` of the task (or the user), the `best` return in the data, one of those
`spread` over the data's range, or `cloning`, which has none."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target return on a dataset; None in behaviour cloning.

    `in_range`: whether it is inside the data's range, where its score measures obedience; beyond it, extrapolation.
    """

    target_return: float | None
    role: Role
    in_range: bool | None


@dataclass(frozen=True, kw_only=True)
class ComparedDataset:
    """A dataset of the comparison, and its targets, those of the paper first."""

    data: DataSummary
    targets: tuple[Target, ...]

    def with_results(self, cell: "CellRecord") -> tuple[tuple[Target, TargetResult], ...]:
        """Every target with the result of a run's episodes; for cloning the single target with the role `cloning`."""
        if [achieved.target_return for achieved in cell.targets] == [None]:
            return ((Target(target_return=None, role="cloning", in_range=None), cell.targets[0]),)
        return tuple(zip(self.targets, cell.targets, strict=True))


@dataclass(frozen=True, kw_only=True)
class ComparedVariant:
    """A variant of the comparison.

    Attributes:
        label: Its name in every table.
        control: Whether it is a control, such as cloning.
        config: Complete configuration of its run on the first dataset with the first seed, as plain JSON values.
    """

    label: str
    control: bool
    config: dict[str, Any]

    @property
    def window(self) -> int | None:
        """Number of steps that it re-runs for every action; None where it carries its state."""
        evaluation = self.config["evaluation"]
        return int(evaluation["window"]) if evaluation["state"] == "window" else None


@dataclass(frozen=True, kw_only=True)
class CheckpointScores:
    """An evaluation of one checkpoint, with fewer episodes than the final evaluation."""

    step: int
    targets: tuple[TargetResult, ...]


@dataclass(frozen=True, kw_only=True)
class CellRecord:
    """One run: a variant on a dataset with a seed.

    Attributes:
        variant: Label of the variant.
        dataset: Name of the dataset.
        seed: Seed of the run.
        run: Folder of the run, relative to the comparison's.
        steps: Number of training steps.
        targets: Results of the last checkpoint for every target of the dataset, in the same order (a return that is
            both the paper's and the data's best appears twice), or for cloning's single target None.
        checkpoints: Results of every checkpoint, including the last, over `checkpoint_episodes` episodes each.
        loss: Training steps and the loss at each.
        parameters: Number of parameters of the agent.
        backbone_parameters: Number of parameters of its backbone.
        state_bytes: Size of its state for one environment.
        action_microseconds: Median time of one action in one environment on one thread.
        training_seconds: Wall time of the training.
        evaluation_seconds: Wall time of the last checkpoint's evaluation.
        remarks: What a reader has to know before trusting the scores, in sentences.
        commit: Commit of the source tree that evaluated it; None for an installed package.
        versions: Versions of Python and of the packages that scores depend on.
        hardware: The machine that evaluated it.
        jobs: Number of runs trained at the same time, including this one; None if not known.
    """

    variant: str
    dataset: str
    seed: int
    run: str
    steps: int
    targets: tuple[TargetResult, ...]
    checkpoints: tuple[CheckpointScores, ...]
    loss: tuple[tuple[int, float], ...]
    parameters: int
    backbone_parameters: int | None
    state_bytes: int
    action_microseconds: float
    training_seconds: float
    evaluation_seconds: float
    remarks: tuple[str, ...]
    commit: str | None
    versions: dict[str, str]
    hardware: dict[str, Any]
    jobs: int | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CellRecord":
        """Read the output of `dataclasses.asdict` after JSON; KeyError or TypeError if it is something else."""
        return cls(
            **{
                **data,
                "targets": _targets(data["targets"]),
                "checkpoints": tuple(
                    CheckpointScores(step=point["step"], targets=_targets(point["targets"]))
                    for point in data["checkpoints"]
                ),
                "loss": tuple((int(step), float(loss)) for step, loss in data["loss"]),
                "remarks": tuple(data["remarks"]),
            }
        )


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that failed, and its error in one line."""

    variant: str
    dataset: str
    seed: int
    error: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results of a comparison of variants x datasets x seeds.

    Attributes:
        command: The command that made it, to be run again.
        seeds: Seeds of the runs of every variant on every dataset.
        jobs: Number of runs at a time that the collecting command allowed; every cell has its own `jobs`.
        state: How the first variant acts: `carry` its state, or re-run a `window`; for the others see
            `ComparedVariant.window`.
        window: Number of steps in the first variant's window; None where its state is carried.
        episodes: Episodes of the last checkpoint, for each target.
        checkpoint_episodes: Episodes with which every checkpoint is evaluated, for each target; 0 for none.
        datasets: The datasets, in the order given.
        variants: The variants, in the order given, controls last.
        cells: The runs that have a result.
        failed: The runs that failed.
        versions: Versions of Python and packages on the machine that collected the results.
        hardware: The machine that collected the results.
    """

    command: str
    seeds: tuple[int, ...]
    jobs: int
    state: Literal["carry", "window"]
    window: int | None
    episodes: int
    checkpoint_episodes: int
    datasets: tuple[ComparedDataset, ...]
    variants: tuple[ComparedVariant, ...]
    cells: tuple[CellRecord, ...]
    failed: tuple[Failure, ...]
    versions: dict[str, str]
    hardware: dict[str, Any]

    def cells_of(self, variant: str, dataset: str) -> tuple[CellRecord, ...]:
        """The runs of a variant on a dataset, by seed."""
        found = [cell for cell in self.cells if (cell.variant, cell.dataset) == (variant, dataset)]
        return tuple(sorted(found, key=lambda cell: cell.seed))

    def jobs_at_a_time(self) -> str:
        """How many runs were trained at a time: `2`, or `1 or 2`; empty if that is not known of any run."""
        return " or ".join(map(str, sorted({cell.jobs for cell in self.cells if cell.jobs is not None})))

    def describe_jobs(self) -> str:
        """The same as a clause for a sentence on training times; empty for one run at a time or if not known."""
        jobs = self.jobs_at_a_time()
        some = " where that is known" * any(cell.jobs is None for cell in self.cells)
        return f", {jobs} runs at a time{some}" if jobs not in ("", "1") else ""

    def own_windows(self) -> dict[str, int | None]:
        """The `ComparedVariant.window` of the variants that do not act in the way of the first one, by label."""
        return {variant.label: variant.window for variant in self.variants if variant.window != self.window}

    def traits(self) -> dict[str, str]:
        """What tables add to a label: that the variant is a control, and how it acts if not as the first one does;
        empty for most."""
        own = {label: describe_state(window) for label, window in self.own_windows().items()}
        return {v.label: ", ".join(filter(None, ("control" * v.control, own.get(v.label)))) for v in self.variants}

    def __str__(self) -> str:
        """The tables that `compare` prints, in Markdown."""
        from decision_rnn.comparison.table import format_comparison  # imported here to avoid a cycle

        return format_comparison(self)

    def to_dict(self) -> dict[str, Any]:
        """The content of comparison.json, as plain JSON values."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str) -> "Comparison":
        """Read the output of `to_dict`; InputError, naming `source`, if it is something else."""
        schema = data.get("schema", 1) if isinstance(data, Mapping) else None
        if schema != SCHEMA:
            raise InputError(
                f"{source} is a comparison of schema {schema}, of which this version knows {SCHEMA}: run its command "
                "again, which makes the file again from the runs"
            )
        try:
            return cls(
                **{
                    **{key: value for key, value in data.items() if key != "schema"},
                    "seeds": tuple(data["seeds"]),
                    "datasets": tuple(
                        ComparedDataset(
                            data=read_record(entry["data"], DataSummary),
                            targets=tuple(Target(**target) for target in entry["targets"]),
                        )
                        for entry in data["datasets"]
                    ),
                    "variants": tuple(ComparedVariant(**entry) for entry in data["variants"]),
                    "cells": tuple(CellRecord.from_dict(entry) for entry in data["cells"]),
                    "failed": tuple(Failure(**entry) for entry in data["failed"]),
                }
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise InputError(f"{source} is not a comparison, or damaged ({reason}): run its command again") from None


def read_comparison(path: Path) -> Comparison:
    """Read a comparison from its folder or its comparison.json; InputError if there is none."""
    file = path / "comparison.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(
            f"cannot read {file}: {error.strerror}; name the folder of a comparison made with `decision-rnn compare`"
        ) from None
    except ValueError as error:
        raise InputError(f"{file} is not a comparison, or damaged ({error}): run its command again") from None
    return Comparison.from_dict(data, str(file))


def _targets(entries: list[dict[str, Any]]) -> tuple[TargetResult, ...]:
    return tuple(TargetResult(**{**entry, "returns": tuple(entry["returns"])}) for entry in entries)

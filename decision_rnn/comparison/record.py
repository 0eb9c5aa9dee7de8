"""The record of a comparison: what comparison.json holds, and how it comes back.

It keeps what was measured, cell by cell; what that comes to is computed from it (summary.py), for the table and the
page alike.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from decision_rnn.errors import InputError
from decision_rnn.evaluation.actor import describe_state
from decision_rnn.evaluation.results import DataSummary, TargetResult

SCHEMA = 3
"""Of comparison.json. Those of schema 2 and of version 0.1, which names none, hold one dataset and no episodes."""

Role = Literal["paper", "best", "spread", "cloning"]
"""Why a return is asked for: the `paper` of the task asks for it (or the user did), it is the `best` of the data, it is
one of those `spread` through the data's range, or none is asked for, in `cloning`."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A return that the agents of a dataset are asked for; None in cloning.

    `in_range` says whether it lies in the data's range: there its score measures obedience, beyond it extrapolation.
    """

    target_return: float | None
    role: Role
    in_range: bool | None


@dataclass(frozen=True, kw_only=True)
class ComparedDataset:
    """A dataset of the comparison: what it holds, and which returns are asked for on it, the paper's first."""

    data: DataSummary
    targets: tuple[Target, ...]

    def with_results(self, cell: "CellRecord") -> tuple[tuple[Target, TargetResult], ...]:
        """Every target with what a run's episodes came to; of cloning the one whose role is `cloning`."""
        if [achieved.target_return for achieved in cell.targets] == [None]:
            return ((Target(target_return=None, role="cloning", in_range=None), cell.targets[0]),)
        return tuple(zip(self.targets, cell.targets, strict=True))


@dataclass(frozen=True, kw_only=True)
class ComparedVariant:
    """A variant of the comparison.

    Attributes:
        label: Its name in every table.
        control: Whether it is there to be compared with, such as cloning.
        config: Of its runs on the first dataset with the first seed, whole, as plain JSON values.
    """

    label: str
    control: bool
    config: dict[str, Any]

    @property
    def window(self) -> int | None:
        """Steps that it re-runs for every action; None where it carries its state."""
        evaluation = self.config["evaluation"]
        return int(evaluation["window"]) if evaluation["state"] == "window" else None


@dataclass(frozen=True, kw_only=True)
class CheckpointScores:
    """An evaluation of one checkpoint, by fewer episodes than the last one's."""

    step: int
    targets: tuple[TargetResult, ...]


@dataclass(frozen=True, kw_only=True)
class CellRecord:
    """One run: a variant on a dataset with a seed.

    Attributes:
        variant: Its label.
        dataset: Its name.
        seed: Of the run.
        run: Its folder, relative to the comparison's.
        steps: Of training.
        targets: What the last checkpoint's episodes came to, for every target of the dataset in its order (a return
            that is the paper's and the data's best at once stands there twice), or for cloning's None.
        checkpoints: What every checkpoint came to, the last one included, by `checkpoint_episodes` each.
        loss: Steps of training and the loss there.
        parameters: Of the agent.
        backbone_parameters: Of its backbone alone.
        state_bytes: What it remembers of one environment.
        action_microseconds: Median of one action in one environment on one thread.
        training_seconds: Wall time of the training.
        evaluation_seconds: Wall time of the last checkpoint's evaluation.
        remarks: What a reader has to know before believing the scores, in sentences.
        commit: Of the source tree that evaluated it; None for an installed package.
        versions: Of Python and of the packages a score depends on.
        hardware: Of the machine that evaluated it.
        jobs: How many runs were trained at a time, this one among them; None where that is not known.
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
        """What `dataclasses.asdict` gave, through JSON; KeyError or TypeError where it is not that."""
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
    """A run that failed, and with what, in one line."""

    variant: str
    dataset: str
    seed: int
    error: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Variants x datasets x seeds, as far as they could be had.

    Attributes:
        command: That made it, as it can be typed again.
        seeds: Of the runs of every variant on every dataset.
        jobs: How many runs the command that gathered it would have trained at a time; each cell has its own.
        state: How the first variant acts: `carry`, or re-running a `window`. Each variant's `window` says it of that
            one.
        window: Steps in the first variant's window; None where its state is carried.
        episodes: Of the last checkpoint, for each target.
        checkpoint_episodes: Of the other checkpoints.
        datasets: In the order asked for.
        variants: Likewise; the controls come last.
        cells: Those that have a result.
        failed: Those that have none.
        versions: Of the machine that gathered it.
        hardware: Likewise.
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
        """How many runs were trained at a time, as far as it is known: `2`, or `1 or 2`; empty where it is of none."""
        return " or ".join(map(str, sorted({cell.jobs for cell in self.cells if cell.jobs is not None})))

    def describe_jobs(self) -> str:
        """That in a sentence on times of training, after a comma; empty where nothing is to be said."""
        jobs = self.jobs_at_a_time()
        some = " where that is known" * any(cell.jobs is None for cell in self.cells)
        return f", {jobs} runs at a time{some}" if jobs not in ("", "1") else ""

    def own_windows(self) -> dict[str, int | None]:
        """The `ComparedVariant.window` of those that act in another way than the first variant does."""
        return {variant.label: variant.window for variant in self.variants if variant.window != self.window}

    def traits(self) -> dict[str, str]:
        """What stands in small print beside a label: that it is a control, and how it acts where the first one acts
        otherwise; empty for most."""
        own = {label: describe_state(window) for label, window in self.own_windows().items()}
        return {v.label: ", ".join(filter(None, ("control" * v.control, own.get(v.label)))) for v in self.variants}

    def __str__(self) -> str:
        """The tables that `compare` prints, in Markdown."""
        from decision_rnn.comparison.table import format_comparison  # here, because that is made of records

        return format_comparison(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, what comparison.json holds."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str) -> "Comparison":
        """What `to_dict` gave; InputError, naming `source`, where it is not that."""
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
                            data=DataSummary(**{**entry["data"], "notes": tuple(entry["data"]["notes"])}),
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
    """The comparison of a folder, or of its comparison.json; InputError where there is none."""
    file = path / "comparison.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(
            f"cannot read {file}: {error.strerror}; name the folder of a comparison made by `decision-rnn compare`"
        ) from None
    except ValueError as error:
        raise InputError(f"{file} is not a comparison, or damaged ({error}): run its command again") from None
    return Comparison.from_dict(data, str(file))


def _targets(entries: list[dict[str, Any]]) -> tuple[TargetResult, ...]:
    return tuple(TargetResult(**{**entry, "returns": tuple(entry["returns"])}) for entry in entries)

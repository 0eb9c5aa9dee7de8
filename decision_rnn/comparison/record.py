"""The record of a comparison: measurements, run by run. Everything in tables and figures is computed from it."""

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from decision_rnn.config import EvaluationConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.evaluation.results import Measurements, describe_acting
from decision_rnn.utils.parsing import TargetReturn

Role = Literal["paper", "best", "spread", "bc"]
"""Origin of a target return: the paper of the task or the user, the best return in the data, one of several spread over
the data's range, or behaviour cloning, which has none."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target return on a dataset, and whether it is inside the data's range; both None in behaviour cloning."""

    target_return: TargetReturn | None
    roles: tuple[Role, ...]
    in_range: bool | None


@dataclass(frozen=True)
class HeldOut:
    """Held-out episodes whose actions the agents predict.

    Attributes:
        measure: What 1 - error is, see `HeldOutScore`.
        steps: (episodes,), the length of every episode.
        references: The errors, (episodes,), of predictors without a network, by name.
    """

    dataset: str
    fingerprint: str
    measure: Literal["R2", "accuracy"]
    steps: tuple[int, ...]
    references: dict[str, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class ComparedDataset:
    """A dataset of the comparison with its distinct targets, those of the paper first, and held-out episodes, if there
    are any; without targets, nothing is played."""

    data: DatasetSpec
    targets: tuple[Target, ...]
    held_out: HeldOut | None = None


@dataclass(frozen=True, kw_only=True)
class ComparedVariant:
    """A variant: its label in configurations, folders and rows, its name in tables and figures, and the configuration
    of its run on the first dataset with the first seed, as plain JSON values."""

    label: str
    name: str
    control: bool
    config: dict[str, Any]

    @property
    def acting(self) -> str:
        """How its agents act: with a carried state or a window of steps, greedily or by samples."""
        options = {name: self.config["evaluation"][name] for name in ("inference", "window", "actions")}
        return describe_acting(EvaluationConfig(**options))


@dataclass(frozen=True, kw_only=True)
class Trial(Measurements):
    """One run of a comparison, a variant on a dataset with a seed, and the evaluation of its last checkpoint.

    Attributes:
        run: Folder of the run, relative to the comparison's.
        held_out: (episodes,), the errors of the last checkpoint on held-out episodes; None without these.
    """

    variant: str
    dataset: str
    seed: int
    run: str
    held_out: tuple[float, ...] | None = None

    def __repr__(self) -> str:
        scores = [f"{target.name} scores {target.score_mean:.1f}" for target in self.targets]
        scores += [f"held-out error {sum(self.held_out) / len(self.held_out):.4g}"] if self.held_out else []
        return f"Trial({self.run!r}, step {self.step}, {', '.join(scores)})"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that failed, with its error in one line. The run's log holds the traceback."""

    variant: str
    dataset: str
    seed: int
    run: str
    error: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """The measurements of a comparison of variants x datasets x seeds.

    Attributes:
        schema: Version of the file format.
        episodes: Episodes of the last checkpoint, per target; 0 if nothing is played.
        margin: In points of score, within which a variant counts as equivalent to the reference; None if not tested.
        variants: In the order of the command, controls last; the first one is the reference.
        trials: The runs that have a result.
    """

    schema: Literal[5] = 5
    command: str
    seeds: tuple[int, ...]
    episodes: int
    margin: float | None = None
    datasets: tuple[ComparedDataset, ...]
    variants: tuple[ComparedVariant, ...]
    trials: tuple[Trial, ...]
    failed: tuple[Failure, ...]

    @property
    def names(self) -> dict[str, str]:
        """Names of the variants in tables, by label; they tell how a variant acts if not as the first one."""
        first = self.variants[0].acting
        return {
            each.label: each.name if each.acting == first else f"{each.name} ({each.acting})" for each in self.variants
        }

    def runs(self, dataset: str) -> dict[str, tuple[Trial, ...]]:
        """Finished runs on a dataset by label, in the order of their seeds, of the variants that have some."""
        trials = sorted((trial for trial in self.trials if trial.dataset == dataset), key=attrgetter("seed"))
        runs = {each.label: tuple(run for run in trials if run.variant == each.label) for each in self.variants}
        return {label: trials for label, trials in runs.items() if trials}

    def failures(self, dataset: str | None = None) -> Counter[str]:
        """Number of failed runs by label, on one dataset or on all."""
        return Counter(run.variant for run in self.failed if dataset in (None, run.dataset))

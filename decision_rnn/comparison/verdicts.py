"""Which variants differ: on one dataset by Welch's test, over several by the probability of improvement.

Every variant is compared with one reference: the first variant with at least five seeds. It is named before any score
is known, since the order of the variants is. A variant with fewer seeds gets no verdict, and the others keep theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from decision_rnn.evaluation.aggregate import aggregate_scores, compare_over_datasets
from decision_rnn.evaluation.statistics import (
    FEWEST_FOR_INTERVAL,
    SeedDifference,
    SeedScores,
    Verdict,
    compare_variants,
)

if TYPE_CHECKING:
    from decision_rnn.comparison.record import Comparison, Role, Target
    from decision_rnn.comparison.summary import VariantSummary


def reference(found: Sequence[VariantSummary]) -> str:
    """The variant on one dataset that the others are compared with."""
    return _first_with_enough({summary.variant: len(summary.trials) for summary in found})


def differences(found: Sequence[VariantSummary], target: Target) -> dict[str, SeedDifference]:
    """How the other variants on one dataset differ from the reference at one target."""
    scores = {summary.variant: summary.of_target(target).per_seed for summary in found}
    return compare_variants(scores, reference(found))


def held_out_differences(found: Sequence[VariantSummary]) -> dict[str, SeedDifference]:
    """How the other variants on one dataset differ from the reference in the loss on held-out episodes."""
    losses = {summary.variant: summary.held_out_losses for summary in found}
    return compare_variants(losses, reference(found), lower_is_better=True)


def _first_with_enough(seeds: Mapping[str, int]) -> str:
    return next((label for label, count in seeds.items() if count >= FEWEST_FOR_INTERVAL), next(iter(seeds)))


@dataclass(frozen=True, eq=False)
class Overall:
    """Scores of the variants over the datasets on which all of them have some, at the first target of one role.

    Attributes:
        role: Role of the target; None if no variant has a target return.
        scores: Scores of the seeds, by variant and dataset, without the variants that have none on any dataset.
    """

    role: Role | None
    scores: dict[str, dict[str, tuple[float, ...]]]

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets on which all variants here have scores."""
        return tuple(next(iter(self.scores.values())))

    @cached_property
    def aggregates(self) -> dict[str, SeedScores]:
        """Interquartile mean of each variant."""
        return {label: aggregate_scores(of) for label, of in self.scores.items()}

    @cached_property
    def reference(self) -> str:
        """The variant that the others are compared with."""
        return _first_with_enough({label: min(map(len, of.values())) for label, of in self.scores.items()})

    @cached_property
    def improvements(self) -> dict[str, SeedScores]:
        """Probability that each other variant improves on the reference."""
        others = self.scores[self.reference]
        return {
            label: compare_over_datasets(of, others) for label, of in self.scores.items() if label != self.reference
        }

    def verdict(self, label: str) -> Verdict | None:
        """A variant against the reference, by the interval of the probability of improvement; None without one."""
        of = self.improvements[label]
        if of.low is None or of.high is None:
            return None
        return "better" if of.low > 0.5 else "worse" if of.high < 0.5 else "no difference shown"


def over_datasets(comparison: Comparison, summaries: Sequence[VariantSummary]) -> tuple[Overall, ...]:
    """Aggregate the variants over the datasets that they share, at the first target of the task and at the data's best,
    or without a target where there is none; one of both if they are the same targets; empty if the variants share fewer
    than two datasets."""
    found = {role for summary in summaries for of in summary.targets for role in of.target.roles}
    roles: list[Role | None] = [role for role in ("paper", "best") if role in found]
    made: list[Overall] = []
    for role in roles or [None]:
        scores: dict[str, dict[str, tuple[float, ...]]] = {variant.label: {} for variant in comparison.variants}
        for summary in summaries:
            if (of := summary.of_role(role)) is not None:
                scores[summary.variant][summary.dataset] = of.per_seed
        known = {label: by_dataset for label, by_dataset in scores.items() if by_dataset}
        names = [of.data.name for of in comparison.datasets]
        kept = [name for name in names if all(name in by_dataset for by_dataset in known.values())]
        shared = {label: {name: of[name] for name in kept} for label, of in known.items()}
        if known and len(kept) >= 2 and shared not in [of.scores for of in made]:
            made.append(Overall(role, shared))
    return tuple(made)

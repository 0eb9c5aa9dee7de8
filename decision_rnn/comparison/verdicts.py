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

ROLES: tuple[Role, ...] = ("paper", "best")
"""Variants are compared at the first target of each of these roles."""


def reference(found: Sequence[VariantSummary]) -> str:
    """The variant on one dataset that the others are compared with."""
    return _first_with_enough({summary.variant: len(summary.trials) for summary in found})


def differences(found: Sequence[VariantSummary], target: Target) -> dict[str, SeedDifference]:
    """How the other variants on one dataset differ from the reference at one target."""
    scores = {summary.variant: summary.of_target(target).per_seed for summary in found}
    return compare_variants(scores, reference(found))


def _first_with_enough(seeds: Mapping[str, int]) -> str:
    return next((label for label, count in seeds.items() if count >= FEWEST_FOR_INTERVAL), next(iter(seeds)))


@dataclass(frozen=True, eq=False)
class Overall:
    """Scores of the variants over several datasets, at the first target of one role.

    Attributes:
        role: Role of the target; None if no variant has a target return.
        left_out: The datasets without a result of every variant here.
        without: Variants without a score on any dataset, which are left out.
        scores: Scores of the seeds, by variant and dataset.
    """

    role: Role | None
    left_out: tuple[str, ...]
    without: tuple[str, ...]
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
    """Aggregate the variants over the datasets that they share, for each role of targets that there is.

    A role for which they share fewer than two datasets is left out.
    """
    found = {role for summary in summaries for of in summary.targets for role in of.target.roles}
    roles: list[Role | None] = [role for role in ROLES if role in found]
    made = (_over_datasets(comparison, summaries, role) for role in roles or [None])
    return tuple(overall for overall in made if overall is not None)


def _over_datasets(comparison: Comparison, summaries: Sequence[VariantSummary], role: Role | None) -> Overall | None:
    scores: dict[str, dict[str, tuple[float, ...]]] = {variant.label: {} for variant in comparison.variants}
    for summary in summaries:
        if (of := summary.of_role(role)) is not None:
            scores[summary.variant][summary.dataset] = of.per_seed
    without = tuple(label for label, of in scores.items() if not of)
    by_variant = [of for of in scores.values() if of]
    kept = [name for name in by_variant[0] if all(name in of for of in by_variant)] if by_variant else []
    if len(kept) < 2:
        return None
    return Overall(
        role=role,
        left_out=tuple(of.data.name for of in comparison.datasets if of.data.name not in kept),
        without=without,
        scores={label: {name: of[name] for name in kept} for label, of in scores.items() if of},
    )

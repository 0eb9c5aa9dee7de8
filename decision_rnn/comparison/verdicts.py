"""Variants against each other: whether a difference is shown on a dataset, and what they come to over several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from decision_rnn.evaluation.aggregate import (
    AggregateScore,
    Improvement,
    aggregate_scores,
    compare_over_datasets,
    shared_datasets,
)
from decision_rnn.evaluation.statistics import VariantDifferences, compare_variants

if TYPE_CHECKING:
    from decision_rnn.comparison.record import Role
    from decision_rnn.comparison.summary import VariantSummary


def seed_scores(summary: VariantSummary, role: Role) -> tuple[float, ...]:
    """Every seed's score at the first target of that role; of cloning, which is asked for nothing, its one score."""
    target = summary.of_role(role) or summary.of_role("cloning")
    return () if target is None else target.per_seed


def differences(summaries: Sequence[VariantSummary], role: Role) -> VariantDifferences:
    """How the variants on one dataset differ from the first of them at the first target of that role.

    The first stands at the head of the comparison before any score is known, so that it is named beforehand.
    """
    return compare_variants({s.variant: seed_scores(s, role) for s in summaries}, summaries[0].variant)


@dataclass(frozen=True)
class Aggregate:
    """One variant over several datasets, at the first target of one role.

    Attributes:
        variant: Its label.
        score: Over the datasets and seeds.
        improvement: On the first variant; None for that one itself.
    """

    variant: str
    score: AggregateScore
    improvement: Improvement | None


def aggregate(summaries: Sequence[VariantSummary], role: Role) -> tuple[tuple[Aggregate, ...], tuple[str, ...]]:
    """Every variant over the datasets that all have scores on, and the datasets that are therefore left out."""
    labels = dict.fromkeys(summary.variant for summary in summaries)
    scores = {label: {s.dataset: seed_scores(s, role) for s in summaries if s.variant == label} for label in labels}
    kept, left_out = shared_datasets(scores.values())
    if len(kept) < 2:
        return (), tuple(left_out)
    shared = {label: {name: of[name] for name in kept} for label, of in scores.items()}
    first = next(iter(shared.values()))
    aggregates = tuple(
        Aggregate(label, aggregate_scores(of), None if of is first else compare_over_datasets(of, first))
        for label, of in shared.items()
    )
    return aggregates, tuple(left_out)

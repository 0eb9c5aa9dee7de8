"""Comparisons between variants: whether a difference is shown on a dataset, and aggregates over several datasets."""

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
    from decision_rnn.comparison.record import Comparison, Role
    from decision_rnn.comparison.summary import VariantSummary


ASKED: tuple[Role, ...] = ("paper", "best")
"""Variants are compared at the first target of each of these roles."""

NOTHING_SHARED = "There is no number over the datasets: fewer than two have a result of every variant."
"""Shown for comparisons on several datasets if `over_datasets` returns nothing."""


def seed_scores(summary: VariantSummary, role: Role) -> tuple[float, ...]:
    """Score of every seed at the first target with that role; for cloning its only scores."""
    target = summary.of_role(role) or summary.of_role("bc")
    return () if target is None else target.per_seed


def differences(summaries: Sequence[VariantSummary], role: Role) -> VariantDifferences:
    """How the variants on one dataset differ from the first of them at the first target with that role.

    The first variant counts as a reference named beforehand, since the order is fixed before any score is known.
    """
    return compare_variants({s.variant: seed_scores(s, role) for s in summaries}, summaries[0].variant)


@dataclass(frozen=True)
class Overall:
    """Scores of the variants over several datasets, at the first target of one role.

    Attributes:
        role: Role of the target; `bc` if no variant has a target return.
        datasets: The datasets on which all variants here have scores.
        left_out: The other datasets of the comparison.
        without: Variants without a score on any dataset, which are left out.
        scores: Scores of the seeds, by variant and dataset.
        aggregates: Aggregate scores by variant.
    """

    role: Role
    datasets: tuple[str, ...]
    left_out: tuple[str, ...]
    without: tuple[str, ...]
    scores: dict[str, dict[str, tuple[float, ...]]]
    aggregates: dict[str, AggregateScore]

    @property
    def omissions(self) -> str:
        """What is left out and why, in sentences; empty if nothing is."""
        sentences = []
        if self.left_out:
            sentences.append(f"Left out, because not every variant has a result there: {', '.join(self.left_out)}.")
        if self.without:
            sentences.append(f"Left out, because they have no result on any dataset: {', '.join(self.without)}.")
        return " ".join(sentences)

    @property
    def best(self) -> str:
        """The variant with the highest aggregate score."""
        return max(self.aggregates, key=lambda label: self.aggregates[label].score)

    def improvement(self, label: str, other: str) -> Improvement:
        """Improvement of one variant on another."""
        return compare_over_datasets(self.scores[label], self.scores[other])


def over_datasets(comparison: Comparison, summaries: Sequence[VariantSummary]) -> tuple[Overall, ...]:
    """Aggregate the variants over the datasets that they share, for each role of targets that there is.

    A role for which they share fewer than two datasets is left out.
    """
    asked: list[Role] = [role for role in ASKED if any(summary.of_role(role) for summary in summaries)]
    made = (_over_datasets(comparison, summaries, role) for role in asked or ["bc"])
    return tuple(overall for overall in made if overall is not None)


def _over_datasets(comparison: Comparison, summaries: Sequence[VariantSummary], role: Role) -> Overall | None:
    known = {(summary.variant, summary.dataset): seed_scores(summary, role) for summary in summaries}
    names = [dataset.data.name for dataset in comparison.datasets]
    scores = {
        variant.label: {name: of for name in names if (of := known.get((variant.label, name)))}
        for variant in comparison.variants
    }
    without = tuple(label for label, of in scores.items() if not of)
    scores = {label: of for label, of in scores.items() if of}
    kept, _ = shared_datasets(scores.values())
    if len(kept) < 2:
        return None
    scores = {label: {name: of[name] for name in kept} for label, of in scores.items()}
    return Overall(
        role=role,
        datasets=tuple(kept),
        left_out=tuple(name for name in names if name not in kept),
        without=without,
        scores=scores,
        aggregates={label: aggregate_scores(of) for label, of in scores.items()},
    )

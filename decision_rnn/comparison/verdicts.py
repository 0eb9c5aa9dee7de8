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
    from decision_rnn.comparison.record import Comparison, Role
    from decision_rnn.comparison.summary import VariantSummary


ASKED: tuple[Role, ...] = ("paper", "best")
"""Roles whose first target variants are compared at."""

NOTHING_SHARED = "There is no number over the datasets: fewer than two have a result of every variant."
"""Of a comparison on several, where `over_datasets` gives nothing."""


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
class Overall:
    """What the variants come to over several datasets, at the first target of one role.

    Attributes:
        role: Of the target; `cloning` where nobody is asked for anything.
        datasets: Those that all variants here have scores on.
        left_out: The others of the comparison.
        without: The variants that have no score on any dataset, which are not here.
        scores: By variant and dataset, every seed's.
        aggregates: By variant.
    """

    role: Role
    datasets: tuple[str, ...]
    left_out: tuple[str, ...]
    without: tuple[str, ...]
    scores: dict[str, dict[str, tuple[float, ...]]]
    aggregates: dict[str, AggregateScore]

    @property
    def omissions(self) -> str:
        """What is left out and why, in sentences; empty where nothing is."""
        sentences = []
        if self.left_out:
            sentences.append(f"Left out, because not every variant has a result there: {', '.join(self.left_out)}.")
        if self.without:
            sentences.append(f"Left out, because they have no result on any dataset: {', '.join(self.without)}.")
        return " ".join(sentences)

    @property
    def best(self) -> str:
        """The variant of the highest aggregate."""
        return max(self.aggregates, key=lambda label: self.aggregates[label].score)

    def improvement(self, label: str, other: str) -> Improvement:
        """Of one variant on another."""
        return compare_over_datasets(self.scores[label], self.scores[other])


def over_datasets(comparison: Comparison, summaries: Sequence[VariantSummary]) -> tuple[Overall, ...]:
    """What the variants come to over the datasets that they share, for each role that agents are asked for by.

    A role for which they share fewer than two is left out.
    """
    asked: list[Role] = [role for role in ASKED if any(summary.of_role(role) for summary in summaries)]
    made = (_over_datasets(comparison, summaries, role) for role in asked or ["cloning"])
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

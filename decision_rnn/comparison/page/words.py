"""Formatting of numbers and names on the page."""

from collections.abc import Iterable, Sequence

from decision_rnn.comparison.page.parts import Cell
from decision_rnn.comparison.record import ComparedDataset, Target
from decision_rnn.comparison.summary import TargetSummary, VariantSummary
from decision_rnn.evaluation.report import describe_range, format_scores
from decision_rnn.evaluation.statistics import FEWEST_FOR_INTERVAL, INTERVAL_NOTE, SeedScores

LONGEST = 18
"""The longest label, in characters, that a chart has room for."""


def listed(names: Iterable[str], most: int | None = None) -> str:
    """`a, b and c`; with more than `most` names, the last ones are counted: `a, b and 3 more`."""
    names = list(names)
    if most is not None and len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def shortened(label: str) -> str:
    """A label, with an ellipsis in the middle if it is too long for a chart."""
    half = (LONGEST - 1) // 2
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1 - half]}…{label[-half:]}"


def plural(count: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def describe_target(target: Target) -> str:
    """The target and where it is relative to the data: `target 3600, beyond the data`."""
    if target.target_return is None:
        return "no target"
    what = f"target {target.target_return:g}"
    where = describe_range(target.in_range, "best" in target.roles)
    return f"{what}, {where}" if where else what


def seeds_cell(scores: SeedScores, per_seed: Sequence[float], span: int = 1) -> Cell:
    """A score, with the scores of all seeds in small print."""
    each = ", ".join(f"{score:.1f}" for score in per_seed)
    return Cell(format_scores(scores), f"seeds: {each}" if len(per_seed) > 1 else "", span)


def describe_scores(all_scores: Iterable[SeedScores]) -> str:
    """Explains the scores of a table in a sentence; empty for a table without scores."""
    spreads = {scores.spread for scores in all_scores}
    parts = []
    if "95% interval" in spreads:
        parts.append(f"the {INTERVAL_NOTE}, in square brackets")
    if "range" in spreads:
        parts.append(
            f"the mean over fewer than {FEWEST_FOR_INTERVAL} seeds with their range in round brackets, which is no "
            "confidence interval"
        )
    if None in spreads:
        parts.append("the score of a single seed, which may be far from the mean over seeds")
    return f"A score is {', or '.join(parts)}." if parts else ""


def main_targets(dataset: ComparedDataset, found: Sequence[VariantSummary]) -> list[Target | None]:
    """The targets of the score table that some variant was evaluated with: those of the task, then the data's best;
    [None] if there are none."""
    asked = [of.target for summary in found for of in summary.targets]
    return [t for t in dataset.targets if {"paper", "best"} & set(t.roles) and t in asked] or [None]


def score_of(summary: VariantSummary, target: Target | None) -> TargetSummary | None:
    """A variant's result for a target; for cloning its only result."""
    of_target = next((found for found in summary.targets if found.target == target), None)
    return of_target or summary.of_role("bc")


def score_of_return(dataset: ComparedDataset, value: float) -> float:
    """The normalised score of a return."""
    return float(dataset.data.normalised(value))


def best_in_data(dataset: ComparedDataset) -> float | None:
    """The score of the best episode in the data; None if it is not known."""
    return None if dataset.data.return_max is None else score_of_return(dataset, dataset.data.return_max)

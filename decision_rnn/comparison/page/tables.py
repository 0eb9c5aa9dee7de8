"""The tables of one dataset: the scores, and the numbers behind every chart."""

from collections.abc import Mapping, Sequence

import numpy as np

from decision_rnn.comparison.page.charts import seed_medians
from decision_rnn.comparison.page.parts import Cell, Table
from decision_rnn.comparison.page.words import (
    best_in_data,
    describe_target,
    main_targets,
    score_of_return,
    seeds_cell,
)
from decision_rnn.comparison.record import ComparedDataset, Target, Trial
from decision_rnn.comparison.summary import VariantSummary
from decision_rnn.evaluation.report import format_deviation, format_scores

Summaries = Sequence[VariantSummary]
Traits = Mapping[str, str]
"""Traits by label, from `Comparison.traits`."""
FEW = 10
"""The most rows of a curve in a table."""


def score_table(dataset: ComparedDataset, found: Summaries, traits: Traits, checkpoint_episodes: int) -> Table:
    """The main table: scores of the last checkpoint, obedience, and the scores of the best checkpoint."""
    targets = main_targets(dataset, found)
    width = len(targets)
    head = ["variant", *(_score_head(dataset, target) for target in targets)]
    obeys = any(summary.obedience is not None for summary in found)
    head += ["obedience error, % of the data's range"] * obeys
    curves = any(summary.curves for summary in found)
    if curves:
        asked = "" if targets[0] is None else f", target {targets[0].target_return:g}"
        head += [f"{which} checkpoint{asked}, {checkpoint_episodes} episodes" for which in ("last", "best")]
    rows: list[list[Cell | str]] = []
    for summary in found:
        row: list[Cell | str] = [variant_cell(summary.variant, traits)]
        cloning = summary.of_role("bc")
        if cloning is not None:
            cell = seeds_cell(cloning.scores, cloning.per_seed, width)
            row.append(Cell(cell.text, f"no target; {cell.detail}".removesuffix("; "), width))
        else:
            for target in targets:
                of = next((of for of in summary.targets if of.target == target), None)
                row.append("" if of is None else seeds_cell(of.scores, of.per_seed))
        if obeys:
            row.append("" if summary.obedience is None else format_scores(summary.obedience))
        if curves:
            row += _last_and_best(summary)
        rows.append(row)
    top = best_in_data(dataset)
    data = Cell(f"{dataset.data.score_mean:.1f}", "" if top is None else f"best episode {top:.1f}", width)
    rows.append([Cell("the data", "mean of its episodes"), data, *[""] * (obeys + 2 * curves)])
    return Table.of(f"Scores on {dataset.data.name}", head, rows, folded=False)


def variant_cell(label: str, traits: Traits) -> Cell:
    """A variant's label, with its traits in small print."""
    return Cell(label, traits[label])


def _score_head(dataset: ComparedDataset, target: Target | None) -> str:
    """The header of a target's scores; inside the data's range it adds the score of the target, which is the aim."""
    if target is None:
        return "score"
    text = f"score, {describe_target(target)}"
    if target.target_return is None or not target.in_range:
        return text
    return f"{text} (which scores {score_of_return(dataset, target.target_return):.1f})"


def _last_and_best(summary: VariantSummary) -> list[Cell | str]:
    if not summary.curves:
        return ["", ""]
    curve = summary.curves[0]
    return [format_scores(curve.last), format_scores(curve.best)]


def target_table(found: Summaries) -> Table:
    """Scores and returns for every target."""
    rows: list[list[Cell | str]] = [
        [
            summary.variant,
            describe_target(of.target),
            seeds_cell(of.scores, of.per_seed),
            format_deviation(of.deviation),
            f"{of.return_mean:.0f} ± {of.return_sd:.0f}",
            f"{of.return_median:.0f}",
            f"{of.return_p10:.0f} to {of.return_p90:.0f}",
        ]
        for summary in found
        for of in summary.targets
    ]
    head = ("variant", "target", "score", "sd over seeds (of the agents)", "return, mean ± sd", "median", "10% to 90%")
    return Table.of("Every target", head, rows)


def calibration_table(cells: dict[str, Sequence[Trial]]) -> Table:
    """The median return of each seed for every target."""
    rows = [
        [label, f"{seed}", f"{asked:g}", f"{median:.0f}", f"{median - asked:+.0f}"]
        for label, of in cells.items()
        for seed, points in seed_medians(of).items()
        for asked, median in points
    ]
    return Table.of("Each seed's median return", ("variant", "seed", "target", "achieved", "difference"), rows)


def checkpoint_table(found: Summaries) -> Table:
    """The scores of all checkpoints and seeds."""
    rows = [
        [
            summary.variant,
            describe_target(curve.target),
            f"{step:,}",
            f"{curve.mean[i]:.1f}",
            ", ".join(f"{seed[i]:.1f}" for seed in curve.per_seed),
        ]
        for summary in found
        for curve in summary.curves
        for i, step in enumerate(curve.steps)
    ]
    return Table.of("Every checkpoint's score", ("variant", "target", "step", "mean", "seeds"), rows)


def curve_table(caption: str, x: str, y: str, curves: Mapping[str, Sequence[tuple[float, float]]]) -> Table:
    """Points of curves, at most `FEW` of each."""
    rows = [
        [label, f"{at:,.0f}", f"{value:.4g}"]
        for label, points in curves.items()
        for at, value in (points[i] for i in _few(len(points)))
    ]
    return Table.of(caption, ("variant", x, y), rows)


def tuning_table(found: Summaries) -> Table:
    """The score over the episodes spent on choosing, with a column for each kind of spread over the seeds."""
    heads = {"95% interval": "95% interval of the mean", "range": "range of the seeds"}
    tunings = {summary.variant: summary.tuning for summary in found if summary.tuning is not None}
    kinds = [kind for kind in heads if any(tuning.spread == kind for tuning in tunings.values())]
    rows = []
    for label, tuning in tunings.items():
        ends = [f"{low:.1f} to {high:.1f}" for low, high in zip(tuning.low, tuning.high, strict=True)]
        for i, (episodes, score) in enumerate(zip(tuning.episodes, tuning.score, strict=True)):
            spread = [ends[i] if kind == tuning.spread else "" for kind in kinds]
            rows.append([label, f"{episodes:,}", f"{score:.1f}", *spread])
    return Table.of(
        "Score over episodes spent", ("variant", "episodes", "score", *(heads[kind] for kind in kinds)), rows
    )


def cost_table(found: Summaries, traits: Traits) -> Table:
    """What each variant costs."""
    rows: list[list[Cell | str]] = [
        [
            variant_cell(summary.variant, traits),
            f"{summary.parameters:,}",
            f"{summary.training_seconds:,.0f} s",
            f"{summary.action_microseconds:,.0f} µs",
            f"{summary.state_bytes:,} bytes",
        ]
        for summary in found
    ]
    return Table.of("Costs", ("variant", "parameters", "training of a run", "one action", "state"), rows, folded=False)


def _few(count: int) -> list[int]:
    """At most `FEW` indices, including the first and the last."""
    return sorted({round(float(i)) for i in np.linspace(0, count - 1, min(count, FEW))})

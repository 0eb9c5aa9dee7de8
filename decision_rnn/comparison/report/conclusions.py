"""The main findings in words, computed, and never more than the tests and intervals support."""

from collections.abc import Callable, Mapping, Sequence

from decision_rnn.comparison.record import ComparedDataset, Target
from decision_rnn.comparison.report.overall import NOTHING_SHARED, TITLES
from decision_rnn.comparison.report.parts import Findings
from decision_rnn.comparison.report.words import (
    capitalised,
    describe_targets,
    format_spread,
    listed,
)
from decision_rnn.comparison.summary import VariantSummary, compared_targets
from decision_rnn.comparison.verdicts import Overall, differences, reference
from decision_rnn.evaluation.report import format_scores
from decision_rnn.evaluation.statistics import FEWEST_FOR_INTERVAL, SeedScores, Verdict

NAMES = 6
"""The largest number of names in one list."""

Summaries = Sequence[VariantSummary]


def conclusions(findings: Findings) -> list[tuple[str, list[str]]]:
    """A paragraph for each finding, under a title: over all datasets, if there are several, then on each."""
    controls = {variant.label for variant in findings.comparison.variants if variant.control}

    def named(label: str) -> str:
        return f"the control {label}" if label in controls else label

    datasets = findings.comparison.datasets
    found = [(of.data.name, _on_dataset(of, findings.on(of), named)) for of in datasets]
    if len(datasets) > 1:
        over_all = [_over_datasets(of, named) for of in findings.overall] or [NOTHING_SHARED]
        found.insert(0, ("Over all datasets", over_all))
    return found


def _on_dataset(dataset: ComparedDataset, found: Summaries, named: Callable[[str], str]) -> list[str]:
    if not found:
        return [f"On {dataset.data.name} no run has a result."]
    paragraphs = [_at_target(targets, found, named) for targets in compared_targets(found)]
    best = float(dataset.data.normalised(dataset.data.return_max))
    paragraphs.append(f"An episode of the data scores {dataset.data.score_mean:.1f} on average and {best:.1f} at best.")
    errors = {of.variant: of.target_error for of in found if of.target_error is not None}
    if errors:
        least = min(errors, key=lambda label: errors[label].score)
        paragraphs.append(
            f"Inside the data's range {named(least)} has {'the lowest' if len(errors) > 1 else 'a'} target error: "
            f"{_with_spread(errors[least], '%')} of that range."
        )
    return paragraphs


def _at_target(targets: Sequence[Target], found: Summaries, named: Callable[[str], str]) -> str:
    """Which variant scores highest at a target, and which differ from the reference."""
    results = {of.variant: of.of_target(targets[0]) for of in found}
    best = max(results, key=lambda label: results[label].scores.score)
    cloned = targets[0].target_return is None
    where = "Without a target" if cloned else f"At {describe_targets(targets)}"
    no_target = ", which has no target," * (results[best].target != targets[0])
    highest = "scores highest," if len(results) > 1 else "scores"
    text = f"{where}, {named(best)}{no_target} {highest} {_with_spread(results[best].scores)}."
    verdicts = {label: of.verdict for label, of in differences(found, targets[0]).items()}
    scores = {label: f" ({of.scores.score:.1f})" for label, of in results.items()}
    return text + _verdicts(reference(found), verdicts, lambda label: named(label) + scores[label])


def _over_datasets(overall: Overall, named: Callable[[str], str]) -> str:
    best = max(overall.aggregates, key=lambda label: overall.aggregates[label].score)
    text = (
        f"{capitalised(TITLES[overall.role])}, {named(best)} has the highest interquartile mean, "
        f"{format_scores(overall.aggregates[best])}."
    )
    verdicts = {label: overall.verdict(label) for label in overall.improvements}
    text += _verdicts(overall.reference, verdicts, named)
    intervals = " These verdicts rest on the 95% intervals of the probability of improvement, each by itself."
    return text + intervals * any(verdicts.values())


def _verdicts(reference: str, verdicts: Mapping[str, Verdict | None], named: Callable[[str], str]) -> str:
    """The verdicts in a sentence, which begins with a space."""
    labels: dict[Verdict | None, list[str]] = {}
    for label, verdict in verdicts.items():
        labels.setdefault(verdict, []).append(named(label))
    parts = [
        f"{listed(labels[verdict], NAMES)} {'is' if len(labels[verdict]) == 1 else 'are'} {verdict}"
        for verdict in ("better", "worse")
        if verdict in labels
    ]
    if same := labels.get("no difference shown"):
        parts.append(f"no difference is shown for {listed(same, NAMES)}")
    if not parts:
        few = f" With fewer than {FEWEST_FOR_INTERVAL} seeds a difference cannot be told from chance."
        return few * bool(labels)
    unknown = f" Too few seeds for a verdict: {listed(labels.get(None, ()))}." * (None in labels)
    return f" Compared with {named(reference)}, {', '.join(parts)}.{unknown}"


def _with_spread(scores: SeedScores, unit: str = "") -> str:
    spread = format_spread(scores)
    return f"{scores.score:.1f}{unit}{f' ({spread})' * bool(spread)}"

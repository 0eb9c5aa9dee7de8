"""The main findings in words, computed, and never more than the tests and intervals support."""

from collections.abc import Callable, Mapping, Sequence

from decision_rnn.comparison.record import ComparedDataset, HeldOut, Target
from decision_rnn.comparison.report.parts import Findings
from decision_rnn.comparison.report.sections import MEASURES, NOTHING_SHARED, TITLES
from decision_rnn.comparison.report.words import capitalised, describe_targets, format_spread, listed
from decision_rnn.comparison.summary import VariantSummary, compared_targets
from decision_rnn.comparison.verdicts import Overall, differences, held_out_differences, reference
from decision_rnn.evaluation.report import format_number, format_scores
from decision_rnn.evaluation.statistics import FEWEST_FOR_INTERVAL, SeedScores, Verdict, summarise_seeds

Names = Mapping[str, str]
Summaries = Sequence[VariantSummary]


def conclusions(findings: Findings) -> list[tuple[str, list[str]]]:
    """A paragraph for each finding, under a title: over all datasets, if there are several, then on each."""
    datasets = findings.comparison.datasets
    found = [(of.data.name, _on_dataset(of, findings.on(of), findings.names)) for of in datasets]
    if len(datasets) > 1:
        over_all = [_over_datasets(of, findings.names) for of in findings.overall] or [NOTHING_SHARED]
        found.insert(0, ("Over all datasets", over_all))
    return found


def _on_dataset(dataset: ComparedDataset, found: Summaries, names: Names) -> list[str]:
    if not found:
        return [f"On {dataset.data.name} no run has a result."]
    if dataset.held_out is not None:
        return [_on_held_out(dataset.held_out, found, names)]
    paragraphs = [_at_target(targets, found, names) for targets in compared_targets(found)]
    best = float(dataset.data.normalised(dataset.data.return_max))
    paragraphs.append(f"An episode of the data scores {dataset.data.score_mean:.1f} on average and {best:.1f} at best.")
    errors = {of.variant: of.target_error for of in found if of.target_error is not None}
    if errors:
        least = min(errors, key=lambda label: errors[label].score)
        error = _with_spread(errors[least], "%")
        paragraphs.append(
            f"Inside the data's range the target error is lowest for {names[least]}: {error} of that range."
        )
    return paragraphs


def _at_target(targets: Sequence[Target], found: Summaries, names: Names) -> str:
    """Which variant scores highest at a target, and which differ from the reference."""
    results = {of.variant: of.of_target(targets[0]) for of in found}
    best = max(results, key=lambda label: results[label].scores.score)
    no_target = ", which has no target," * (results[best].target != targets[0])
    scores = _with_spread(results[best].scores)
    text = f"{capitalised(describe_targets(targets))}: {names[best]}{no_target} scores highest, {scores}."
    verdicts = {label: of.verdict for label, of in differences(found, targets[0]).items()}
    scored = {label: f"{names[label]} ({of.scores.score:.1f})" for label, of in results.items()}
    return text + _verdicts(reference(found), verdicts, scored)


def _on_held_out(held_out: HeldOut, found: Summaries, names: Names) -> str:
    """Which variant has the lowest loss on held-out episodes, and which differ from the reference."""
    losses = {of.variant: summarise_seeds(of.held_out_losses) for of in found}
    least = min(losses, key=lambda label: losses[label].score)
    loss = _with_spread(losses[least], number=format_number)
    text = f"On {held_out.dataset}, {names[least]} has the lowest {MEASURES[held_out.measure]}, {loss}."
    verdicts = {label: of.verdict for label, of in held_out_differences(found).items()}
    scored = {label: f"{names[label]} ({format_number(of.score)})" for label, of in losses.items()}
    return text + _verdicts(reference(found), verdicts, scored)


def _over_datasets(overall: Overall, names: Names) -> str:
    best = max(overall.aggregates, key=lambda label: overall.aggregates[label].score)
    mean = format_scores(overall.aggregates[best])
    text = f"{capitalised(TITLES[overall.role])}, {names[best]} has the highest interquartile mean, {mean}."
    verdicts = {label: overall.verdict(label) for label in overall.improvements}
    intervals = " These verdicts rest on the 95% intervals of the probability of improvement, each by itself."
    return text + _verdicts(overall.reference, verdicts, names) + intervals * any(verdicts.values())


def _verdicts(reference: str, verdicts: Mapping[str, Verdict | None], names: Names) -> str:
    """The verdicts in sentences, each of which begins with a space."""
    if not any(verdicts.values()):
        return f" With fewer than {FEWEST_FOR_INTERVAL} seeds a difference cannot be told from chance." * bool(verdicts)
    labels: dict[Verdict | None, list[str]] = {}
    for label, verdict in verdicts.items():
        labels.setdefault(verdict, []).append(names[label])
    kinds: tuple[Verdict, ...] = ("better", "worse", "no difference shown")
    parts = [f"{kind}: {listed(labels[kind])}" for kind in kinds if kind in labels]
    unknown = f" Too few seeds for a verdict: {listed(labels.get(None, ()))}." * (None in labels)
    return f" Compared with {names[reference]}, {'; '.join(parts)}.{unknown}"


def _with_spread(scores: SeedScores, unit: str = "", number: Callable[[float], str] = "{:.1f}".format) -> str:
    spread = format_spread(scores, number)
    return f"{number(scores.score)}{unit}{f' ({spread})' * bool(spread)}"

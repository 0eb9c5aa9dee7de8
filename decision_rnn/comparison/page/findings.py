"""The main findings in words, computed, and never more than the tests and intervals support."""

from collections.abc import Mapping, Sequence

from decision_rnn.comparison.page.words import best_in_data, describe_target, listed, main_targets, score_of
from decision_rnn.comparison.record import ComparedDataset, Target
from decision_rnn.comparison.summary import VariantSummary
from decision_rnn.evaluation.statistics import FEWEST_FOR_INTERVAL, SeedScores, VariantDifferences, compare_variants

MOST = 6
"""The most names in one list."""


def findings(dataset: ComparedDataset, found: Sequence[VariantSummary], controls: set[str]) -> list[str]:
    """The findings on a dataset, one paragraph each: on the targets for which higher is better (the data's best and
    those beyond the data), on the data's own scores, and on obedience."""
    if not found:
        return [f"On {dataset.data.name} no run has a result."]
    upward = [t for t in main_targets(dataset, found) if t is None or "best" in t.roles or not t.in_range]
    roles = [None if target is None else target.roles[-1] for target in upward]
    firsts = [target for i, target in enumerate(upward) if roles[i] not in roles[:i]]
    paragraphs = [_of_target(target, found, controls) for target in firsts]
    data, top = dataset.data, best_in_data(dataset)
    paragraphs.append(
        f"An episode of the data scores {data.score_mean:.1f} on average"
        + ("." if top is None else f" and {top:.1f} at best.")
    )
    if any(of.scores.spread == "95% interval" for summary in found for of in summary.targets):
        paragraphs[-1] += (
            " Scores differ where Welch's test of the seeds' means says so at the 5% level. By Holm's method that "
            "level holds over all pairs of variants on this dataset at one target, and not over several targets or "
            "datasets."
        )
    obedience = {summary.variant: summary.obedience for summary in found if summary.obedience is not None}
    if obedience:
        paragraphs.append(_obedience(obedience, controls))
    return paragraphs


def _of_target(target: Target | None, found: Sequence[VariantSummary], controls: set[str]) -> str:
    """Which variant scores highest, which it is tied with, and which it is better than."""
    results = {summary.variant: of for summary in found if (of := score_of(summary, target)) is not None}
    scores = {label: of.scores for label, of in results.items()}
    ranked = sorted(scores, key=lambda label: -scores[label].score)
    best, names = ranked[0], _named(scores, controls)
    what = "without a target" if target is None else f"at {describe_target(target)}"
    first = f"the control {best}" if best in controls else best
    if target is not None and results[best].target.target_return is None:
        first += ", which has no target,"
    highest = "scores highest," if len(ranked) > 1 else "scores"
    sentences = [f"{what[0].upper()}{what[1:]}, {first} {highest} {_with_spread(scores[best])}."]
    compared = compare_variants({label: of.per_seed for label, of in results.items()})
    if all(of.verdict is None for of in compared.differences.values()):
        return " ".join(sentences + _without_tests(ranked, scores, names, lower_is_better=False))
    return " ".join(sentences + _verdicts(compared, ranked, names))


def _verdicts(compared: VariantDifferences, ranked: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Which variants the reference of the tests is tied with, and which it is better than. The reference is named if it
    is not the variant with the highest score, which then has too few seeds for a test."""
    reference, subject, sentences = "it", "It", list[str]()
    if compared.reference != ranked[0]:
        reference = names[compared.reference]
        subject = f"T{reference[1:]}" if reference.startswith("the control ") else reference
        sentences += [
            "It has too few seeds for a test against the others.",
            f"Of those with at least {FEWEST_FOR_INTERVAL} seeds {reference} scores highest.",
        ]
    verdicts = {label: compared.differences[label].verdict for label in ranked[1:] if label in compared.differences}
    tied = [names[label] for label, verdict in verdicts.items() if verdict == "no difference shown"]
    worse = [names[label] for label, verdict in verdicts.items() if verdict == "worse"]
    unknown = [label for label, verdict in verdicts.items() if verdict is None]
    if tied:
        sentences.append(f"{subject} is tied with {listed(tied, MOST)}: no difference is shown.")
    if worse:
        every = len(worse) > 1 and not unknown and reference == "it"
        sentences.append(f"{subject} is better than {f'the other {len(worse)}' if every else listed(worse, MOST)}.")
    if unknown:
        sentences.append(f"Too few seeds tell {reference} from {listed(unknown)}.")
    return sentences


def _obedience(scores: Mapping[str, SeedScores], controls: set[str]) -> str:
    ranked = sorted(scores, key=lambda label: scores[label].score)
    best = scores[ranked[0]]
    spread = "" if best.spread is None else f" ({_spread(best)})"
    lowest = "has the lowest obedience error," if len(ranked) > 1 else "has an obedience error of"
    standing = _without_tests(ranked, scores, _named(scores, controls), lower_is_better=True)
    text = f"Inside the data's range {ranked[0]} {lowest} {best.score:.1f}%{spread} of that range."
    return " ".join([text, *standing])


def _without_tests(
    ranked: Sequence[str], scores: Mapping[str, SeedScores], names: Mapping[str, str], lower_is_better: bool
) -> list[str]:
    """How far the first variant can be told from the others by the spread of their seeds."""
    best, others = ranked[0], ranked[1:]
    if not others:
        return []
    if scores[best].spread is None or all(scores[label].spread is None for label in others):
        return ["With a single seed a difference cannot be told from chance, so no order is claimed."]
    tied = [
        label
        for label in others
        if not (apart(scores[label], scores[best]) if lower_is_better else apart(scores[best], scores[label]))
    ]
    intervals = all(scores[label].spread == "95% interval" for label in (best, *tied))
    kind = "intervals" if intervals else "ranges of their seeds"
    if tied:
        sentences = [f"It is tied with {listed((names[label] for label in tied), MOST)}: the {kind} overlap."]
    else:
        other = f"any of the other {len(others)}" if len(others) > 1 else f"that of {names[others[0]]}"
        sentences = [f"Its {'interval' if intervals else 'range of seeds'} does not overlap with {other}."]
    if not intervals:
        sentences.append(f"A range of fewer than {FEWEST_FOR_INTERVAL} seeds is no confidence interval.")
    return sentences


def apart(higher: SeedScores, lower: SeedScores) -> bool:
    """Whether the spread of the first is entirely above that of the second; single seeds are never apart."""
    return higher.low is not None and lower.high is not None and higher.low > lower.high


def _with_spread(scores: SeedScores) -> str:
    return f"{scores.score:.1f}" if scores.spread is None else f"{scores.score:.1f} ({_spread(scores)})"


def _spread(scores: SeedScores) -> str:
    kind = "95% interval" if scores.spread == "95% interval" else "range of seeds"
    return f"{kind} {scores.low:.1f} to {scores.high:.1f}"


def _named(scores: Mapping[str, SeedScores], controls: set[str]) -> dict[str, str]:
    """Labels with their scores, and controls marked as such."""
    return {
        label: f"{'the control ' if label in controls else ''}{label} ({of.score:.1f})" for label, of in scores.items()
    }

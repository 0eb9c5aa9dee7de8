"""The main finding in words, computed: never more than the intervals allow."""

from collections.abc import Sequence

from decision_rnn.comparison.page.words import asked_for, best_in_data, listed, main_targets, score_of
from decision_rnn.comparison.record import ComparedDataset, Target
from decision_rnn.comparison.summary import VariantSummary
from decision_rnn.evaluation.statistics import SeedScores

MOST = 6
"""Names in one list."""


def findings(dataset: ComparedDataset, found: Sequence[VariantSummary], controls: set[str]) -> list[str]:
    """What a dataset's scores come to, a paragraph each: of the targets where more is better, which are the data's best
    and those beyond it, of the data's own scores, and of obedience."""
    if not found:
        return [f"On {dataset.data.name} no run has a result."]
    upward = [t for t in main_targets(dataset, found) if t is None or t.role == "best" or not t.in_range]
    roles = [None if target is None else target.role for target in upward]
    firsts = [target for i, target in enumerate(upward) if roles[i] not in roles[:i]]
    paragraphs = [_of_target(target, found, controls) for target in firsts]
    data, top = dataset.data, best_in_data(dataset)
    paragraphs.append(
        f"An episode of the data scores {data.score_mean:.1f} on average"
        + ("." if top is None else f" and {top:.1f} at best.")
    )
    obedience = {summary.variant: summary.obedience for summary in found if summary.obedience is not None}
    if obedience:
        paragraphs.append(_obedience(obedience))
    return paragraphs


def _of_target(target: Target | None, found: Sequence[VariantSummary], controls: set[str]) -> str:
    scores = {summary.variant: of.scores for summary in found if (of := score_of(summary, target)) is not None}
    ranked = sorted(scores, key=lambda label: -scores[label].score)
    best = ranked[0]
    what = asked_for(target)[0].upper() + asked_for(target)[1:] if target is not None else "Asked for nothing"
    name = f"the control {best}" if best in controls else best
    sentences = [f"{what}, {name} scores {'highest, ' if len(ranked) > 1 else ''}{spoken(scores[best])}."]
    sentences += _standing(best, ranked, scores, lower_is_better=False)
    held = [label for label in ranked if label in controls and label != best]
    if held and best not in controls:
        below = [label for label in held if apart(scores[best], scores[label])]
        level = [label for label in held if label not in below]
        verdicts = [f"is above {_with_scores(below, scores)}"] if below else []
        verdicts += [f"cannot be told from {_with_scores(level, scores)}"] if level else []
        if scores[best].spread is not None:
            sentences.append(f"Of the controls, {best} {' and '.join(verdicts)}.")
    return " ".join(sentences)


def _obedience(scores: dict[str, SeedScores]) -> str:
    ranked = sorted(scores, key=lambda label: scores[label].score)
    best = ranked[0]
    error = scores[best]
    text = f"{error.score:.1f}%" + ("" if error.spread is None else f", {_spread(error)}")
    closest = "keeps closest to what is asked" if len(ranked) > 1 else "misses what is asked"
    sentences = [
        f"Inside the data's range {best} {closest}{', off' if len(ranked) > 1 else ''} by {text} of that range.",
        *_standing(best, ranked, scores, lower_is_better=True),
    ]
    return " ".join(sentences)


def _standing(best: str, ranked: Sequence[str], scores: dict[str, SeedScores], lower_is_better: bool) -> list[str]:
    """How far the first can be told from the others."""
    others = [label for label in ranked if label != best]
    if not others:
        return []
    if scores[best].spread is None or all(scores[label].spread is None for label in others):
        return ["With a single seed nobody knows how far luck decided it, so no order is claimed."]
    tied = [
        label
        for label in others
        if not (apart(scores[label], scores[best]) if lower_is_better else apart(scores[best], scores[label]))
    ]
    spreads = {scores[label].spread for label in (best, *tied)} - {None}
    kind = "intervals" if spreads == {"95% interval"} else "ranges of their seeds"
    if tied:
        sentences = [f"It is tied with {_with_scores(tied, scores)}: the {kind} overlap."]
    elif kind == "intervals":
        sentences = [f"Its interval overlaps with none of the other {len(others)}." if len(others) > 1
                     else f"Its interval does not overlap with that of {others[0]}."]  # fmt: skip
    else:
        better = "below" if lower_is_better else "above"
        sentences = [f"All of its seeds lie {better} all seeds of {'every other' if len(others) > 1 else others[0]}."]
    if kind != "intervals":
        sentences.append("A range of so few seeds is no confidence interval.")
    return sentences


def apart(higher: SeedScores, lower: SeedScores) -> bool:
    """Whether the first lies above the second with all that they are spread over; single seeds are never apart."""
    return higher.low is not None and lower.high is not None and higher.low > lower.high


def spoken(scores: SeedScores) -> str:
    """A score and its spread in words."""
    return f"{scores.score:.1f}" if scores.spread is None else f"{scores.score:.1f} ({_spread(scores)})"


def _spread(scores: SeedScores) -> str:
    kind = "95% interval" if scores.spread == "95% interval" else "range of seeds"
    return f"{kind} {scores.low:.1f} to {scores.high:.1f}"


def _with_scores(labels: Sequence[str], scores: dict[str, SeedScores]) -> str:
    return listed((f"{label} ({scores[label].score:.1f})" for label in labels), MOST)

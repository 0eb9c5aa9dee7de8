"""The scores of one dataset's seeds: what they come to, how far to believe it, and whether two variants differ.

Every interval here is chosen by the coverage it was measured to have: results/coverage, which
scripts/interval_coverage.py makes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from scipy import optimize, special

from decision_rnn.errors import InputError

FEWEST_FOR_INTERVAL = 5
"""Seeds below which no interval is given, but every seed's score, and no verdict."""

LEVEL = 0.95
"""Nominal coverage of every interval."""

Scores = Sequence[float] | np.ndarray
"""(seeds,) normalised scores, one of each seed's run."""

INTERVAL_NOTE = (
    "mean over seeds with Student's t 95% interval (which covered the mean of normal scores in 95%, 95% and 95% of "
    "cases at 5, 10 and 20 seeds, of two-humped ones in 82%, 91% and 93%: results/coverage)"
)
"""What `summarise_seeds` gives from five seeds on, to be printed beside it."""

DIFFERENCE_NOTE = (
    "difference of the means with Welch's 95% interval, each by itself (which covered in 95%, 96% and 95% of cases at "
    "5, 10 and 20 seeds for normal scores, and said that variants 10 points apart, of standard deviation 10, differ in "
    "27%, 55% and 87%: results/coverage); verdicts at 5% over the comparisons of one column of one dataset, by Holm's "
    "method"
)
"""What `compare_variants` gives, to be printed beside it."""

DEVIATION_NOTE = (
    "standard deviation of the seeds' scores, and in brackets of the agents' expected scores, without the noise of a "
    "finite number of episodes, by a two-way analysis of variance of seeds and episodes"
)
"""What `deviation_over_seeds` gives, to be printed beside it."""

Verdict = Literal["better", "worse", "no difference shown"]


@dataclass(frozen=True)
class SeedScores:
    """The scores of several seeds in few numbers.

    Attributes:
        score: The mean over seeds.
        score_is: `mean`; `score` of one seed.
        low: The lower end of `spread`; None for one seed.
        high: Its upper end; likewise.
        spread: What they are the ends of: the `range` of the scores where they are too few for a `95% interval`,
            which is one of the mean.
    """

    score: float
    score_is: Literal["score", "mean"]
    low: float | None
    high: float | None
    spread: Literal["range", "95% interval"] | None


@dataclass(frozen=True)
class SeedDeviation:
    """How far apart the seeds of a task are, in standard deviations of normalised scores.

    Attributes:
        of_scores: Of the seeds' scores, each a mean over some episodes.
        of_agents: Of what they would be over infinitely many episodes, as estimated; 0 where the luck of the episodes
            accounts for all of it.
    """

    of_scores: float
    of_agents: float


@dataclass(frozen=True)
class SeedDifference:
    """How one variant's scores differ from another's on a dataset.

    Attributes:
        difference: Its mean less the other's.
        low: The lower end of the difference's 95% interval, by itself, not adjusted for other comparisons; None where
            one of the two has fewer than `FEWEST_FOR_INTERVAL` seeds.
        high: Its upper end; likewise.
        p_value: Of Welch's test that the means are equal, adjusted for `comparisons`; likewise.
        comparisons: How many were made together, of one dataset and one return asked for.
        probability: That a run of it scores higher than a run of the other, ties counting half.
        probability_low: The lower end of its 95% interval; None as `low`.
        probability_high: Its upper end; likewise.
        verdict: Of it against the other, from `p_value`; None where there is none.
    """

    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    comparisons: int
    probability: float
    probability_low: float | None
    probability_high: float | None
    verdict: Verdict | None


@dataclass(frozen=True)
class VariantDifferences:
    """How variants differ from one of them.

    Attributes:
        reference: The label of the one that the others are compared with.
        chosen: Whether it was named beforehand; otherwise it is the one of the highest mean.
        differences: By label, of all others: its scores less the reference's.
    """

    reference: str
    chosen: Literal["beforehand", "highest mean"]
    differences: dict[str, SeedDifference]


def check_scores(scores: Scores, of: str = "seeds") -> np.ndarray:
    """Scores as float64 (runs,).

    Raises:
        InputError: If there are none, or one is not finite.
    """
    values = np.asarray(scores, np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"the scores of {of} have shape {values.shape}: give one score of each seed, and at least one")
    if not np.isfinite(values).all():
        raise InputError(f"the scores of {of} are {values.tolist()}: leave out the runs that have no finite score")
    return values


def summarise_seeds(scores: Scores) -> SeedScores:
    """The scores of a task's seeds in few numbers.

    Below five seeds: the mean and the range, which is no interval (of three scores it holds the mean in 3 of 4 cases).
    From five on: the mean with Student's t interval, exact for normal scores at every number of seeds. Measured at 5,
    10 and 20 seeds (results/coverage) it covers the mean in 95% of cases for normal scores; the percentile bootstrap
    covers it in 83%, 90% and 93%, BCa is no better. For scores of two humps t covers in 82%, 91% and 93%: with five
    seeds in one hump nothing tells of the other, and bootstrap-t, which comes to 2 points more there, is more than
    twice as long. The ends are not clipped: scores go below 0 and above 100.

    Raises:
        InputError: If there are no scores, or one is not finite.
    """
    values = check_scores(scores)
    mean = float(values.mean())
    if len(values) == 1:
        return SeedScores(mean, "score", None, None, None)
    if len(values) < FEWEST_FOR_INTERVAL:
        return SeedScores(mean, "mean", float(values.min()), float(values.max()), "range")
    half = float(special.stdtrit(len(values) - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(len(values)))
    return SeedScores(mean, "mean", mean - half, mean + half, "95% interval")


def deviation_over_seeds(per_episode: Sequence[Scores]) -> SeedDeviation | None:
    """How far apart the seeds are, and how much of that is left without the luck of their episodes.

    A two-way analysis of variance without replication: episode i of every seed begins alike, so what is common to the
    seeds in an episode sets no two of them apart. The mean square of what is left, over the number of episodes, is what
    luck adds to the variance of the seeds' means.

    Args:
        per_episode: For each seed the scores of its episodes, (episodes,), as many for all.

    Returns:
        None for one seed, or one episode each.
    """
    scores = np.asarray(per_episode, np.float64)
    if min(scores.shape) < 2:
        return None
    of_seeds = scores.mean(axis=1)
    left = scores - of_seeds[:, None] - scores.mean(axis=0) + scores.mean()
    luck = (left**2).sum() / ((scores.shape[0] - 1) * (scores.shape[1] - 1)) / scores.shape[1]
    variance = of_seeds.var(ddof=1)
    return SeedDeviation(float(np.sqrt(variance)), float(np.sqrt(max(variance - luck, 0.0))))


def probability_of_improvement(scores: Scores, others: Scores) -> float:
    """How often a run of the first scores higher than a run of the second, ties counting half: Mann and Whitney's U
    over its largest value (Agarwal et al., 2021, section 4.3)."""
    return float((1 + np.sign(np.subtract.outer(np.asarray(scores), np.asarray(others)))).mean() / 2)


def improvement_interval(probability: float, runs: int, others: int) -> tuple[float, float]:
    """Interval of one dataset's probability of improvement.

    Newcombe's (2006, method 5): the probabilities p whose distance from the one observed is at most t standard errors,
    with Hanley and McNeil's variance at p, and here t of runs + others - 2 degrees of freedom in place of the normal
    quantile. Where every run is higher than every other it still has a length, where a bootstrap has none: measured at
    five seeds and p = 0.98, it covers in 97% of cases, the percentile bootstrap in 22% (results/coverage).

    Args:
        probability: As `probability_of_improvement` gives it.
        runs: Of the first variant.
        others: Runs of the second.
    """
    t = special.stdtrit(runs + others - 2, (1 + LEVEL) / 2)
    more = (runs + others) / 2 - 1

    def excess(p: float) -> float:
        variance = p * (1 - p) * (1 + more * (1 - p) / (2 - p) + more * p / (1 + p)) / (runs * others)
        return (probability - p) ** 2 - t**2 * variance

    step = 1e-9  # off the observed end, where the variance is 0 as well
    low = 0.0 if probability < step else optimize.brentq(excess, 0.0, probability - step)
    high = 1.0 if probability > 1 - step else optimize.brentq(excess, probability + step, 1.0)
    return float(low), float(high)


def compare_seeds(scores: Scores, others: Scores) -> SeedDifference:
    """Whether one variant's seeds score better than another's on the same dataset.

    Means are compared by Welch's t test, which asks for no equal variances. Equal seeds are not taken as pairs: a seed
    decides the order of the data, and of weights whose number and shape differ from variant to variant, so that scores
    of one seed have nothing in common that is worth half the degrees of freedom. Without a difference in the scores,
    or with one no larger than rounding, the verdict is `no difference shown`, which isn't that there is none.

    Args:
        scores: Of the variant in question.
        others: Of the one that it is compared with.

    Raises:
        InputError: If one of them has no scores, or some that are not finite.
    """
    a, b = check_scores(scores), check_scores(others)
    probability = probability_of_improvement(a, b)
    difference = float(a.mean() - b.mean())
    if min(len(a), len(b)) < FEWEST_FOR_INTERVAL:
        return SeedDifference(difference, None, None, None, 1, probability, None, None, None)
    parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    error, rounding = float(np.sqrt(parts.sum())), 1e-9 * float(np.abs(np.concatenate([a, b])).max())
    if error <= rounding:
        low = high = difference
        p_value = float(abs(difference) <= rounding)
    else:
        degrees = parts.sum() ** 2 / (parts**2 / np.array([len(a) - 1, len(b) - 1])).sum()
        half = float(special.stdtrit(degrees, (1 + LEVEL) / 2)) * error
        low, high = difference - half, difference + half
        p_value = float(2 * special.stdtr(degrees, -abs(difference) / error))
    interval = improvement_interval(probability, len(a), len(b))
    return SeedDifference(difference, low, high, p_value, 1, probability, *interval, _verdict(difference, p_value))


def compare_variants(scores: Mapping[str, Scores], reference: str | None = None) -> VariantDifferences:
    """Which variants differ from one of them, on the same dataset.

    p-values are adjusted by Holm's (1979) method, so that in 95% of comparisons in which nothing differs no variant is
    said to differ. With a reference named beforehand they are adjusted for the number of other variants; without, the
    reference is the one of the highest mean, picked by the same scores, and they are adjusted for all pairs. So name
    the reference where there is one: pairs soon grow too many for five seeds to show anything. Variants of fewer than
    `FEWEST_FOR_INTERVAL` seeds are neither picked, where others have as many, nor counted.

    Args:
        scores: By label.
        reference: The label of the variant that the others are compared with.

    Raises:
        InputError: If there is no variant, none of the reference's label, or scores that are not finite.
    """
    values = {label: check_scores(of, f"{label}'s seeds") for label, of in scores.items()}
    if not values or (reference is not None and reference not in values):
        raise InputError(f"there is no variant {reference!r} to compare with: known are {', '.join(values) or 'none'}")
    named = reference is not None
    enough = [label for label, of in values.items() if len(of) >= FEWEST_FOR_INTERVAL] or list(values)
    best = reference if reference is not None else max(enough, key=lambda label: values[label].mean())
    pairs = [(label, best) for label in values if label != best]
    if not named:
        pairs += [pair for pair in combinations(values, 2) if best not in pair]
    compared = {pair: compare_seeds(values[pair[0]], values[pair[1]]) for pair in pairs}
    tested = {pair: of.p_value for pair, of in compared.items() if of.p_value is not None}
    adjusted, least = dict[tuple[str, str], float](), 0.0
    for rank, pair in enumerate(sorted(tested, key=lambda pair: tested[pair])):
        least = adjusted[pair] = max(least, min(1.0, (len(tested) - rank) * tested[pair]))
    differences = {
        pair[0]: replace(of, p_value=p, comparisons=len(tested), verdict=_verdict(of.difference, p))
        if (p := adjusted.get(pair)) is not None
        else of
        for pair, of in compared.items()
        if pair[1] == best
    }
    return VariantDifferences(best, "beforehand" if named else "highest mean", differences)


def _verdict(difference: float, p_value: float) -> Verdict:
    if p_value >= 1 - LEVEL:
        return "no difference shown"
    return "better" if difference > 0 else "worse"

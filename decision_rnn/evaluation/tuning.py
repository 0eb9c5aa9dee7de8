"""What choosing a target online is worth: the score of the choice over the episodes spent on it.

After Jackson et al., "A Clean Slate for Offline Reinforcement Learning" (2025, arXiv 2504.11453), whose evaluation is
called Unifloral: a bandit tries candidates an episode at a time, and the curve shows how good the one is that it would
deploy after each. So a method that scores high only with a target picked by many online episodes is seen to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from decision_rnn.errors import InputError
from decision_rnn.evaluation.statistics import summarise_seeds


@dataclass(frozen=True)
class TuningCurve:
    """The score of the candidate chosen, over the online episodes spent on choosing it.

    Attributes:
        budgets: (budgets,) episodes spent.
        scores: (budgets,) expected score of the choice, mean over seeds.
        per_seed: (seeds, budgets) of each seed.
        low: (budgets,) the lower end of `spread` at each budget; None for one seed.
        high: Its upper end; likewise.
        spread: Over seeds, as in `statistics.SeedScores`.
    """

    budgets: np.ndarray
    scores: np.ndarray
    per_seed: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    spread: Literal["range", "95% interval"] | None


def tuning_curve(
    scores: Sequence[np.ndarray],
    budgets: Sequence[int],
    exploration: float = 2.0,
    trials: int = 1000,
    seed: int = 0,
) -> TuningCurve:
    """Simulate the choice among candidates, such as target returns, by online episodes.

    Of every seed, UCB spends an episode at a time on the candidate of the largest mean + sqrt(exploration ln t / n),
    n of the t - 1 episodes so far being its own, each candidate once before any twice; then the one of the highest mean
    is deployed. Episodes are drawn from those played, with replacement.

    Three things differ from Unifloral's. A trial draws from one half of the episodes, and the choice is scored on the
    other half: scored on those it was chosen by, the best of equal candidates would seem to gain from tuning. The band
    is over seeds, five or more having an interval; theirs is over the simulation's repetitions, and shrinks with them.
    And a candidate that has had no episode is never chosen, where theirs counts it as of mean 0.

    Args:
        scores: Of every seed (candidates, episodes), where column i of all candidates may be of one starting state.
            Seeds may differ in their number of episodes.
        budgets: Episodes spent, at each of which the curve is wanted.
        exploration: UCB's coefficient, in squared points of score; on scores of 0 to 100, theirs is close to greedy.
        trials: Simulated choices of a seed.
        seed: Of the simulation.

    Raises:
        InputError: If there is no seed, one has other candidates, fewer than two episodes or a score that is not
            finite, or a budget is not positive.
    """
    values = [np.asarray(of, np.float64) for of in scores]
    for of in values:
        if of.ndim != 2 or of.shape[0] != values[0].shape[0] or not of.shape[0] or of.shape[1] < 2:
            raise InputError(
                f"a seed's scores have shape {of.shape}: give every seed the same candidates, with 2 episodes or more"
            )
        if not np.isfinite(of).all():
            raise InputError("an episode's score is not finite: evaluate that candidate again")
    if not values or not budgets or min(budgets) < 1:
        raise InputError(
            f"{len(values)} seeds and budgets {list(budgets)}: give a seed, and budgets of an episode or more"
        )
    generator = np.random.default_rng(seed)
    columns = np.array(budgets) - 1
    per_seed = np.array([_simulate(of, max(budgets), exploration, trials, generator)[columns] for of in values])
    summaries = [summarise_seeds(of) for of in per_seed.T]
    ends = [
        None if summaries[0].spread is None else np.array([getattr(of, end) for of in summaries], np.float64)
        for end in ("low", "high")
    ]
    means = np.array([of.score for of in summaries])
    return TuningCurve(columns + 1, means, per_seed, ends[0], ends[1], summaries[0].spread)


def _simulate(
    scores: np.ndarray, budget: int, exploration: float, trials: int, generator: np.random.Generator
) -> np.ndarray:
    """Expected score of the choice after each of `budget` episodes, (budget,), from scores (candidates, episodes)."""
    candidates, episodes = scores.shape
    rows = np.arange(trials)
    halves = generator.permuted(np.tile(np.arange(episodes), (trials, 1)), axis=1)
    drawn, held = np.split(halves, [episodes // 2], axis=1)
    weights = np.zeros((trials, episodes))
    np.put_along_axis(weights, held, 1 / held.shape[1], axis=1)
    order = generator.permuted(np.tile(np.arange(candidates), (trials, 1)), axis=1)  # ties go to the first in it
    worth = np.take_along_axis(weights @ scores.T, order, axis=1)
    totals, counts = np.zeros((2, trials, candidates))
    means = np.full((trials, candidates), -np.inf)
    expected = np.empty(budget)
    for spent in range(budget):
        if spent < candidates:
            arm = np.full(trials, spent)
        else:
            arm = (means + np.sqrt(exploration * np.log(spent + 1) / counts)).argmax(axis=1)
        episode = drawn[rows, generator.integers(drawn.shape[1], size=trials)]
        totals[rows, arm] += scores[order[rows, arm], episode]
        counts[rows, arm] += 1
        means[rows, arm] = totals[rows, arm] / counts[rows, arm]
        expected[spent] = worth[rows, means.argmax(axis=1)].mean()
    return expected

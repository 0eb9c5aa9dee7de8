"""The value of choosing a target return online: the score of the chosen target over the episodes spent on choosing.

After Jackson et al., "A Clean Slate for Offline Reinforcement Learning" (2025, arXiv 2504.11453), whose evaluation is
called Unifloral: a bandit tries one candidate per episode, and the curve shows the score of the candidate that it would
deploy after each episode. This reveals methods that score high only with a target chosen by many online episodes.
"""

from collections.abc import Sequence

import numpy as np


def tuning_curve(
    scores: Sequence[np.ndarray],
    budgets: Sequence[int],
    exploration: float = 2.0,
    trials: int = 1000,
    seed: int = 0,
) -> np.ndarray:
    """Simulate choosing among candidates, such as target returns, by online episodes.

    For every seed, UCB spends each episode on the candidate with the largest mean + sqrt(exploration ln t / n), where
    t - 1 episodes have been played so far, n of them with that candidate; every candidate is tried once first. Then the
    candidate with the highest mean is deployed. Episodes are drawn with replacement from those played.

    Three things differ from Unifloral. A trial draws from one half of the episodes, and the choice is scored on the
    other half: if the same episodes were used for both, tuning would appear to help even among equal candidates. Every
    seed has its own curve, so that a band shows the spread over seeds; theirs is over repetitions of the simulation and
    shrinks with their number. And a candidate without episodes is never chosen, whereas theirs gives it a mean of 0.

    Args:
        scores: Scores of every seed, (candidates, episodes), of two episodes or more; column i may be of the same
            starting state for all candidates. Seeds may differ in their number of episodes.
        budgets: Numbers of episodes spent, from 1, at which the curve is evaluated.
        exploration: UCB's coefficient, in squared points of score; on scores of 0 to 100, Unifloral's is close to
            greedy.
        trials: Number of simulated choices per seed.
        seed: Seed of the simulation.

    Returns:
        (seeds, budgets), the expected score of the choice.
    """
    generator = np.random.default_rng(seed)
    columns = np.array(budgets) - 1
    return np.array([_simulate(of, max(budgets), exploration, trials, generator)[columns] for of in scores])


def _simulate(
    scores: np.ndarray, budget: int, exploration: float, trials: int, generator: np.random.Generator
) -> np.ndarray:
    """Expected score of the chosen candidate after each of `budget` episodes, (budget,), for one seed's scores."""
    candidates, episodes = scores.shape
    rows = np.arange(trials)
    halves = generator.permuted(np.tile(np.arange(episodes), (trials, 1)), axis=1)
    drawn, held = np.split(halves, [episodes // 2], axis=1)
    order = generator.permuted(np.tile(np.arange(candidates), (trials, 1)), axis=1)  # breaks ties at random
    worth = np.take_along_axis(scores[:, held].mean(axis=2).T, order, axis=1)
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

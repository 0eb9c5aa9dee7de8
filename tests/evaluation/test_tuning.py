"""The tuning curve, against exact values and a bandit loop that plays one episode at a time."""

import math
from itertools import combinations

import numpy as np
import pytest

from decision_rnn.evaluation.tuning import tuning_curve


def test_tuning_curve_without_noise_is_the_expected_best_of_as_many_candidates() -> None:
    levels = [50.0, 20.0, 80.0, 70.0]
    curve = tuning_curve([np.repeat(np.array(levels)[:, None], 6, axis=1)], [1, 2, 3, 4, 40], trials=20_000)
    expected = [np.mean([max(some) for some in combinations(levels, count)]) for count in (1, 2, 3, 4)]
    assert curve[0] == pytest.approx([*expected, 80.0], abs=0.6)  # 4 standard errors
    assert curve[0, 3:] == pytest.approx([80.0, 80.0])


def test_tuning_curve_of_negative_scores_ignores_candidates_never_tried() -> None:
    curve = tuning_curve([np.array([[-10.0, -10.0], [-20.0, -20.0]])], [1, 2], trials=4000)
    assert curve[0] == pytest.approx([-15.0, -10.0], abs=0.4)


def test_tuning_curve_of_equal_candidates_gains_nothing() -> None:
    """Over 200 data sets; scored on the episodes it was chosen by, the best of six would seem to gain 4 points."""
    generator = np.random.default_rng(0)
    gains = []
    for i in range(200):
        ((one, many),) = tuning_curve([generator.normal(70, 20, (6, 40))], [1, 60], trials=50, seed=i)
        gains.append(many - one)
    assert abs(np.mean(gains)) < 4 * np.std(gains) / math.sqrt(200)
    assert np.std(gains) / math.sqrt(200) < 0.4


def naive(scores: np.ndarray, budget: int, exploration: float, generator: np.random.Generator) -> float:
    """One choice as the docstring describes it: half of the episodes to draw from, the other half to score on."""
    candidates, episodes = scores.shape
    shuffled = generator.permutation(episodes)
    drawn, held = shuffled[: episodes // 2], shuffled[episodes // 2 :]
    rewards: list[list[float]] = [[] for _ in range(candidates)]
    for t in range(1, budget + 1):
        bounds = [np.mean(of) + math.sqrt(exploration * math.log(t) / len(of)) if of else math.inf for of in rewards]
        best = [i for i in range(candidates) if bounds[i] == max(bounds)]
        arm = generator.choice(best)
        rewards[arm].append(scores[arm, generator.choice(drawn)])
    means = [np.mean(of) if of else -math.inf for of in rewards]
    return scores[int(np.argmax(means)), held].mean()


@pytest.mark.parametrize(("budget", "exploration"), [(3, 2.0), (12, 2.0), (20, 400.0)])
def test_tuning_curve_agrees_with_a_naive_bandit_loop(budget: int, exploration: float) -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(np.array([[60.0], [70.0], [75.0], [50.0]]), 15, (4, 21))
    looped = [naive(scores, budget, exploration, generator) for _ in range(500)]
    curve = tuning_curve([scores], [budget], exploration=exploration, trials=20_000)
    assert curve[0, 0] == pytest.approx(np.mean(looped), abs=4 * np.std(looped) / math.sqrt(500))


def test_tuning_curve_has_a_row_for_each_seed() -> None:
    seeds = [np.full((3, 10 + i), float(i)) for i in range(4)]  # with different numbers of episodes
    assert tuning_curve(seeds, [1, 10], trials=10) == pytest.approx(np.array([[i, i] for i in range(4)]))

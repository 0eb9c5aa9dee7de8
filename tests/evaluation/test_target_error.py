"""The target error, and the targets at which it is measured."""

import numpy as np
import pytest

from decision_rnn.comparison.plan import SPREAD
from decision_rnn.evaluation.target_error import spread_targets, target_error


def test_target_error_is_the_mean_distance_of_medians_in_percent_of_the_data_range() -> None:
    returns = [np.array([-100.0]), np.array([50, 20, 1000]), np.full(4, 280.0)]  # off by 0, 50 and 20 of 500
    assert target_error([-100.0, 0.0, 300.0], returns, (-200, 300)) == pytest.approx((0 + 10 + 4) / 3)


@pytest.mark.parametrize(("count", "error"), [(SPREAD, 20), (49, 25)])
def test_target_error_is_0_if_perfect_and_a_fifth_to_a_quarter_at_the_middle_of_the_range(
    count: int, error: float
) -> None:
    asked = spread_targets(0, 1000, count)
    assert target_error(asked, [np.array([target]) for target in asked], (0, 1000)) == 0.0
    assert target_error(asked, [np.array([500.0])] * count, (0, 1000)) == pytest.approx(error, abs=1)


def test_spread_targets_are_round_numbers_evenly_inside_the_range() -> None:
    assert spread_targets(316.4, 3222.3, 5) == (800.0, 1290.0, 1770.0, 2250.0, 2740.0)
    assert spread_targets(-1600, -0.5, 3) == (-1200.0, -800.0, -400.0)
    assert spread_targets(0, 1, 3) == (0.25, 0.5, 0.75)
    assert spread_targets(0, 0.003, 2) == (0.001, 0.002)
    generator = np.random.default_rng(0)
    for _ in range(500):
        low = float(generator.normal() * 10 ** generator.uniform(-3, 5))
        high = low + float(10 ** generator.uniform(-3, 5))
        count = int(generator.integers(1, 20))
        targets, distance = spread_targets(low, high, count), (high - low) / (count + 1)
        assert len(targets) == count
        assert all(low < target < high for target in targets)
        exact = [low + i * distance for i in range(1, count + 1)]
        assert np.abs(np.subtract(targets, exact)).max() <= distance / 20 * (1 + 1e-6)

"""The target error: how far an agent's returns are from its target returns inside the range of its data."""

import math
from collections.abc import Sequence

import numpy as np

from decision_rnn.errors import InputError


def target_error(asked: Sequence[float], achieved: Sequence[np.ndarray], data_range: tuple[float, float]) -> float:
    """Mean distance of the median return from the target, in % of the data's range of returns.

    0 is perfect. An agent that achieves the middle of the range for every target has about 20 for the five targets of a
    comparison, and 25 for very many. Distances are divided by the range rather than by the target, which may be 0 or
    negative. With several seeds, measure each by itself and summarise them by `statistics.summarise_seeds`.

    Args:
        asked: Target returns inside the data's range, such as those of `spread_targets`; beyond it, extrapolation
            would be measured instead.
        achieved: For every target the returns of its episodes, each (episodes,).
        data_range: The lowest and the highest return of an episode in the data.

    Raises:
        InputError: If a target is outside the range, its returns are missing or not all finite, or the range is empty.
    """
    low, high = _checked_range(data_range)
    if not asked or len(asked) != len(achieved):
        raise InputError(f"{len(asked)} targets and the returns of {len(achieved)}: give the returns of every target")
    for target, returns in zip(asked, achieved, strict=True):
        if not low <= target <= high:
            raise InputError(
                f"the target {target:g} lies outside the data's returns, {low:g} to {high:g}: the target error is "
                "measured inside of them"
            )
        if not np.size(returns) or not np.isfinite(returns).all():
            raise InputError(f"the target {target:g} has no returns or some that are not finite: evaluate it again")
    distances = [abs(np.median(returns) - target) for returns, target in zip(achieved, asked, strict=True)]
    return float(100 * np.mean(distances) / (high - low))


def spread_targets(return_min: float, return_max: float, count: int) -> tuple[float, ...]:
    """Target returns spread evenly inside a range, without its ends.

    Target i of `count` is min + i (max - min) / (count + 1), rounded to a decimal place of at most a tenth of the
    distance between two targets, so that it is easy to read and type.

    Raises:
        InputError: If the range is empty or `count` is not positive.
    """
    low, high = _checked_range((return_min, return_max))
    if count < 1:
        raise InputError(f"{count} targets cannot be spread over a range: give at least 1")
    distance = (high - low) / (count + 1)
    places = 1 - math.floor(math.log10(distance))
    return tuple(round(low + i * distance, places) for i in range(1, count + 1))


def _checked_range(data_range: tuple[float, float]) -> tuple[float, float]:
    low, high = map(float, data_range)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"the data's returns range from {low:g} to {high:g}: there is no range to spread targets over")
    return low, high

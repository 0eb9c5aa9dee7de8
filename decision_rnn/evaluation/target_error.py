"""Obedience: how closely an agent achieves its target returns inside the range of its data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decision_rnn.errors import InputError


@dataclass(frozen=True)
class Obedience:
    """How far the achieved returns of one run are from its target returns.

    Attributes:
        asked: (targets,) target returns.
        medians: (targets,) medians of the achieved returns.
        errors: (targets,) median minus target, in % of the data's range of returns.
        error: Mean absolute error: 0 is perfect obedience. An agent that achieves the middle of the range for every
            target has an error of about 20 for the five targets of a comparison, and of 25 for very many.
    """

    asked: tuple[float, ...]
    medians: tuple[float, ...]
    errors: tuple[float, ...]
    error: float


def obedience(asked: Sequence[float], achieved: Sequence[np.ndarray], data_range: tuple[float, float]) -> Obedience:
    """Measure how far the median returns of one run are from its target returns.

    Errors are divided by the data's range rather than by the target, which may be 0 or negative. With several seeds,
    measure each by itself and summarise their `error` by `statistics.summarise_seeds`.

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
                f"the target {target:g} lies outside the data's returns, {low:g} to {high:g}: obedience is measured "
                "inside of them"
            )
        if not np.size(returns) or not np.isfinite(returns).all():
            raise InputError(f"the target {target:g} has no returns or some that are not finite: evaluate it again")
    medians = [float(np.median(returns)) for returns in achieved]
    errors = [100 * (median - target) / (high - low) for median, target in zip(medians, asked, strict=True)]
    return Obedience(tuple(map(float, asked)), tuple(medians), tuple(errors), float(np.mean(np.abs(errors))))


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

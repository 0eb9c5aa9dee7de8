"""The target error: how far an agent's returns are from its target returns inside the range of its data."""

import math
from collections.abc import Sequence

import numpy as np


def target_error(asked: Sequence[float], achieved: Sequence[np.ndarray], data_range: tuple[float, float]) -> float:
    """Mean distance of the median return from the target, in % of the data's range of returns.

    0 is perfect. An agent that achieves the middle of the range for every target has about 20 for the five targets of a
    comparison, and 25 for very many. Distances are divided by the range rather than by the target, which may be 0 or
    negative. With several seeds, measure each by itself and summarise them by `statistics.summarise_seeds`.

    Args:
        asked: Target returns inside the data's range, such as those of `spread_targets`; beyond it, extrapolation
            would be measured instead.
        achieved: For every target the returns of its episodes, each (episodes,).
        data_range: The lowest and the highest return of an episode in the data, which differ.
    """
    distances = [abs(np.median(returns) - target) for returns, target in zip(achieved, asked, strict=True)]
    return float(100 * np.mean(distances) / (data_range[1] - data_range[0]))


def spread_targets(low: float, high: float, count: int) -> tuple[float, ...]:
    """Target returns spread evenly inside a range, without its ends, which differ.

    Target i of `count` is low + i (high - low) / (count + 1), rounded to a decimal place of at most a tenth of the
    distance between two targets, so that it is easy to read and type.
    """
    distance = (high - low) / (count + 1)
    places = 1 - math.floor(math.log10(distance))
    return tuple(round(low + i * distance, places) for i in range(1, count + 1))

"""Metrics of the episodes of an evaluation, besides their return: `success`, and those of the user's own modules."""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from decision_rnn.utils.registry import Registry


class Metric(ABC):
    """A number that is measured in every episode of an evaluation.

    Every episode has an instance of its own, made without arguments.

    Attributes:
        name: Its name in `evaluation.metrics`, in results and in tables.
    """

    name: ClassVar[str]

    @abstractmethod
    def step(
        self, action: Any, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> float:
        """The value of the episode so far; that after the last step is the episode's, and must be finite.

        Called after every step of the environment with the action that it took and with what it returned; `truncated`
        is also true where the evaluation cuts the episode.
        """


RESERVED = {
    *("return", "length", "cut"),
    *("dataset", "variant", "control", "target_return", "roles", "in_range", "seeds", "failed", "score", "low", "high"),
    *("spread", "reference", "difference", "difference_low", "difference_high", "p_value", "significant", "equivalent"),
    "cost",
}
"""What stands beside metrics under its own name: fields of an episode, columns and a table of a comparison."""
METRICS: Registry[type[Metric]] = Registry("metric")
"""All registered metrics, by name."""


def register_metric(metric: type[Metric]) -> type[Metric]:
    """Class decorator: register a metric under its `name`, for `evaluation.metrics`; ValueError if that is `RESERVED`,
    or as for `Registry.add`."""
    if metric.name in RESERVED:
        raise ValueError(f"results have a {metric.name!r} of their own. Give the metric another name.")
    METRICS.add(metric.name, metric, metric)
    return metric


def metrics_named(names: Iterable[str]) -> dict[str, type[Metric]]:
    """The metrics of those names; InputError if one is not registered."""
    return {name: METRICS.registered(name) for name in names}


@register_metric
class Success(Metric):
    """1 if the environment says at the episode's last step that it succeeded, in `info["success"]` or
    `info["is_success"]`, else 0; NaN, which is refused, if it does not say."""

    name = "success"

    def step(
        self, action: Any, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> float:
        value = np.asarray(info.get("success", info.get("is_success", math.nan if terminated or truncated else 0.0)))
        return float(value.item()) if value.size == 1 and value.dtype.kind in "fiub" else math.nan


@register_metric
class LastEpisodes(Metric):
    """The mean return of the last ten inner episodes, where an episode of the environment is a history of them and the
    info of the step that ends one has its `episode_return`, as in Dark Key-to-Door; 0 before the first has ended."""

    name = "last_episodes"

    def __init__(self) -> None:
        self.returns: deque[float] = deque(maxlen=10)

    def step(
        self, action: Any, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> float:
        self.returns.extend([info["episode_return"]] if "episode_return" in info else [])
        return sum(self.returns) / max(1, len(self.returns))

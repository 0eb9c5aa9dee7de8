"""Target returns of an evaluation, and how many episodes of the data reach them."""

import math
from collections.abc import Sequence

import numpy as np

from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import AUTO

ROUNDING = 1e-6
"""The relative difference up to which returns are the same: rewards are stored in float32, and 200 of 1/200 sum to
0.99999998."""


def paper_returns(settings: EvaluationConfig, data: DatasetSpec, configs: Sequence[RunConfig]) -> tuple[float, ...]:
    """The target returns that the user named, or else the paper's, which the dataset's spec holds. If all these agents
    see a limited return-to-go, `AUTO` replaces the paper's targets beyond the data; if no agent is conditioned on
    returns, `AUTO` is the only target. A target that differs from the data's best return by rounding alone becomes the
    best return.

    Raises:
        InputError: If the user named `AUTO`, and nothing limits what one of the agents sees.
    """
    conditioned = [config for config in configs if config.condition.takes_target]
    targets, best = settings.target_returns, data.return_max
    if targets is None:
        targets = tuple(data.target_returns)
        if conditioned and all(config.condition.limited for config in conditioned):
            inside = [target for target in targets if target < best]
            targets = (AUTO, *inside) if any(config.takes_return for config in configs) else (AUTO,)
    elif AUTO in targets:
        for config in conditioned:
            check_target(config, AUTO)
    return tuple(best if math.isclose(target, best, rel_tol=ROUNDING) else float(target) for target in targets)


def evaluated_returns(settings: EvaluationConfig, data: DatasetSpec, config: RunConfig) -> tuple[float, ...]:
    """The target returns of an evaluation, without duplicates: `paper_returns`, and the data's best return, unless the
    user named the targets or the agent sees a limited return-to-go.

    The paper's targets may exceed every return in the data, and then their scores measure extrapolation: the score at
    the data's best return shows how much of it is due to the target.
    """
    targets = paper_returns(settings, data, [config])
    complete = settings.target_returns or config.condition.limited
    return tuple(dict.fromkeys(targets if complete else (*targets, data.return_max)))


def default_return(config: RunConfig, data: DatasetSpec) -> float | None:
    """The target return if none is named: the first target of the evaluation; None in behaviour cloning."""
    return evaluated_returns(config.evaluation, data, config)[0] if config.condition.takes_target else None


def check_target(config: RunConfig, target: object = None, name: str = "the agent") -> None:
    """Raise InputError if an agent takes no target return, or if the target is `AUTO` and nothing limits it."""
    takes_target = config.condition.takes_target
    valid = takes_target and (target != AUTO or config.condition.limited)
    remedy = "set condition.rtg_quantile above 0" if takes_target else "it clones its data: leave it out"
    if not valid:
        raise InputError(f"{name} takes no target return{' auto' * takes_target}: {remedy}")


def spread_targets(low: float, high: float, count: int) -> tuple[float, ...]:
    """Target returns spread evenly inside a range, without its ends, which differ: low + i (high - low) / (count + 1),
    rounded to a decimal place of at most a tenth of the distance between two, so that they are easy to read and type.
    """
    distance = (high - low) / (count + 1)
    places = 1 - math.floor(math.log10(distance))
    return tuple(round(low + i * distance, places) for i in range(1, count + 1))


def describe_reach(targets: Sequence[float], returns: np.ndarray) -> str:
    """How many of the training episodes, with these returns, reach each target return, in one line."""
    reached = [(target, returns >= target) for target in targets if target != AUTO]
    return "; ".join(
        f"target {target:g}: {reach.sum():,} of {len(returns):,} episodes reach it ({100 * reach.mean():.3g}%)"
        for target, reach in reached
    )

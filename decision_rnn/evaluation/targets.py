"""Target returns of an evaluation, and how many episodes of the data reach them."""

import math
from collections.abc import Sequence

import numpy as np

from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import AUTO

MIN_SHARE, MIN_EPISODES, ENOUGH_SHARE = 0.01, 10, 0.1
"""The share of the episodes that has to reach a target return: below 1%, a batch of 128 segments holds about one
segment of such an episode. In a small dataset, 10 episodes, with fewer of which how the return is earned cannot be
distinguished from chance; in a very small one, which has few episodes of any return, a tenth."""
ROUNDING = 1e-6
"""The relative difference up to which returns are the same: rewards are stored in float32, and 200 of 1/200 sum to
0.99999998."""


def paper_returns(settings: EvaluationConfig, data: DatasetSpec, configs: Sequence[RunConfig]) -> tuple[float, ...]:
    """The target returns that the user named, or else those of the dataset's spec, which are the paper's; if all these
    agents see a limited return-to-go, `AUTO` in place of those beyond the data, and alone where none is conditioned on
    returns. One that rounding alone tells from the data's best is that.

    Raises:
        InputError: If the user named `AUTO`, and nothing limits what one of the agents sees.
    """
    conditioned = [config for config in configs if config.takes_target]
    targets, best = settings.target_returns, data.return_max
    if targets is None:
        targets = tuple(data.target_returns)
        if conditioned and all(config.condition_options.limited for config in conditioned):
            inside = [target for target in targets if target < best]
            targets = (AUTO, *inside) if any(config.takes_return for config in configs) else (AUTO,)
    elif AUTO in targets:
        for config in conditioned:
            check_target(config, AUTO)
    return tuple(best if math.isclose(target, best, rel_tol=ROUNDING) else float(target) for target in targets)


def evaluated_returns(settings: EvaluationConfig, data: DatasetSpec, config: RunConfig) -> tuple[float, ...]:
    """The target returns of an evaluation, without duplicates: those that the user named, or else the paper's and the
    data's best; of an agent that sees a limited return-to-go, `AUTO` and those of the paper's that are inside the data.

    The paper's targets may exceed every return in the data, and then their scores measure extrapolation: that at the
    data's best shows how much of the score is due to the target. With a limit both are seen as it, as is `AUTO`.
    """
    paper = paper_returns(settings, data, [config])
    capped = capped_as_best(max(paper, default=-math.inf), data, config)
    return tuple(dict.fromkeys(paper if settings.target_returns or capped else (*paper, data.return_max)))


def capped_as_best(target: float, data: DatasetSpec, config: RunConfig) -> bool:
    """Whether a target return is beyond the data and limited, so that an agent sees it as it sees the data's best."""
    return config.condition_options.limited and target > data.return_max


def default_return(config: RunConfig, data: DatasetSpec) -> float | None:
    """The target return if none is named: the first target of the evaluation; None in behaviour cloning."""
    return evaluated_returns(config.evaluation, data, config)[0] if config.takes_target else None


def check_target(config: RunConfig, target: object = None, name: str = "the agent") -> None:
    """Raise InputError if an agent takes no target return, or if the target is `AUTO` and nothing limits it."""
    valid = config.takes_target and (target != AUTO or config.condition_options.limited)
    remedy = "set condition.rtg_quantile above 0" if config.takes_target else "it clones its data: leave it out"
    if not valid:
        raise InputError(f"{name} takes no target return{' auto' * config.takes_target}: {remedy}")


def spread_targets(low: float, high: float, count: int) -> tuple[float, ...]:
    """Target returns spread evenly inside a range, without its ends, which differ: low + i (high - low) / (count + 1),
    rounded to a decimal place of at most a tenth of the distance between two, so that they are easy to read and type.
    """
    distance = (high - low) / (count + 1)
    places = 1 - math.floor(math.log10(distance))
    return tuple(round(low + i * distance, places) for i in range(1, count + 1))


def describe_reach(targets: Sequence[float], returns: np.ndarray) -> str:
    """How many of the training episodes, with these returns, reach each target return, in one line."""
    reached = {target: int((returns >= target).sum()) for target in targets if target != AUTO}
    return "; ".join(
        f"target {target:g}: {count:,} of {len(returns):,} episodes reach it ({100 * count / len(returns):.3g}%)"
        for target, count in reached.items()
    )


def describe_few(targets: Sequence[float], returns: np.ndarray) -> str | None:
    """A warning if too few of the training episodes, with these returns, reach some target returns; None otherwise."""
    enough = max(MIN_SHARE * len(returns), min(MIN_EPISODES, ENOUGH_SHARE * len(returns)))
    few = [f"{target:g}" for target in targets if target != AUTO and int((returns >= target).sum()) < enough]
    often = np.quantile(returns, 1 - ENOUGH_SHARE, method="lower")
    text = (
        f"scores at {', '.join(few)} would be based on little or nothing in the data: compare with that at the data's "
        f"best, or choose lower --evaluation.target_returns, such as [{often:g}]"
    )
    return text if few else None

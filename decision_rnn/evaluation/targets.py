"""Target returns of an evaluation, and how many episodes of the data reach them."""

import math
from collections.abc import Sequence

import numpy as np

from decision_rnn.agent import ConditionConfig
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
    agents see a limited return-to-go, `AUTO` in place of those beyond the data, and alone where none is asked for
    returns of the data. One that rounding alone tells from the data's best is that.

    Raises:
        InputError: If the user named `AUTO`, and nothing limits what one of the agents sees.
    """
    conditions = [config.condition_options for config in configs if config.takes_target]
    named, largest = settings.target_returns, data.return_max
    if named is None:
        named = tuple(data.target_returns)
        if conditions and all(condition.limited for condition in conditions):
            inside = [of for of in named if of < largest]
            named = (AUTO, *inside) if any(config.takes_return for config in configs) else (AUTO,)
    elif AUTO in named:
        for condition in conditions:
            check_limited(condition)
    return tuple(largest if math.isclose(of, largest, rel_tol=ROUNDING) else float(of) for of in named)


def check_limited(condition: ConditionConfig) -> None:
    """Raise InputError if nothing limits the return-to-go that an agent sees, so that `auto` has no meaning."""
    if not condition.limited:
        raise InputError("the target auto needs a limited condition, such as condition.rtg_quantile above 0")


def asked_returns(settings: EvaluationConfig, data: DatasetSpec, config: RunConfig) -> tuple[float, ...]:
    """The target returns of an evaluation, without duplicates: those that the user named, or else the paper's and the
    data's best; of an agent that sees a limited return-to-go, `AUTO` and those of the paper's that are inside the data.

    No single default suits every dataset: the paper's targets may exceed every return in the data, and then their
    scores measure extrapolation. The score at the data's best shows how much of the score is due to the target. An
    agent that sees a limited return-to-go sees both as the limit, as it does `AUTO`.

    Args:
        settings: Settings of the evaluation.
        data: The data of the agent.
        config: Its configuration.
    """
    paper = paper_returns(settings, data, [config])
    capped = capped_as_best(max(paper, default=-math.inf), data, config)
    return tuple(dict.fromkeys(paper if settings.target_returns or capped else (*paper, data.return_max)))


def capped_as_best(target: float, data: DatasetSpec, config: RunConfig) -> bool:
    """Whether a target return is beyond the data and limited, so that an agent sees it as it sees the data's best."""
    return config.condition_options.limited and target > data.return_max


def default_return(config: RunConfig, data: DatasetSpec) -> float | None:
    """The target return if none is named: the first target of the evaluation; None in behaviour cloning."""
    return asked_returns(config.evaluation, data, config)[0] if config.takes_target else None


def check_conditioned(config: RunConfig, name: str = "the agent") -> None:
    """Raise InputError, naming the agent, if it is trained by behaviour cloning and so cannot take a target return."""
    if not config.takes_target:
        raise InputError(f"{name} clones its data and takes no target return: leave it out")


def describe_reach(asked: Sequence[float], returns: np.ndarray) -> str:
    """How many episodes reach each target return, in one line; empty if none is a number.

    Args:
        asked: Target returns.
        returns: (episodes,) returns of the training episodes.
    """
    return "; ".join(_reach(target, returns) for target in asked if target != AUTO)


def describe_few(asked: Sequence[float], returns: np.ndarray) -> str | None:
    """A warning if too few episodes reach some target returns, with advice on what to do; None otherwise.

    Args:
        asked: Target returns, without those that few episodes reach by definition, such as the data's best.
        returns: (episodes,) returns of the training episodes.
    """
    count = len(returns)
    enough = max(MIN_SHARE * count, min(MIN_EPISODES, ENOUGH_SHARE * count))
    few = [target for target in asked if target != AUTO and int((returns >= target).sum()) < enough]
    if not few:
        return None
    scores = "a score at" if len(few) == 1 else "scores at"
    often = np.quantile(returns, 1 - ENOUGH_SHARE, method="lower")
    return (
        f"{scores} {', '.join(f'{target:g}' for target in few)} would be based on little or nothing in the data: "
        "compare with that at the data's best, or choose lower targets with "
        f"--evaluation.target_returns, such as [{often:g}], which {np.mean(returns >= often):.0%} of the episodes reach"
    )


def _reach(target: float, returns: np.ndarray) -> str:
    count, reach, best = len(returns), int((returns >= target).sum()), float(returns.max())
    if not reach:
        return f"target {target:g}: no episode of {count:,} reaches it (best {best:g})"
    what = f"target {target:g}, the data's best" if target == best else f"target {target:g}"
    verb = "reaches" if reach == 1 else "reach"
    return f"{what}: {reach:,} of {count:,} episodes {verb} it ({100 * reach / count:.3g}%)"

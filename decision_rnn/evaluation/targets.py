"""What an agent is asked for, and how many episodes of its data reach that."""

from collections.abc import Sequence

import numpy as np

from decision_rnn.checkpoint import Provenance
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.errors import InputError

FEW_SHARE = 0.01
"""Of the episodes. Below it a training batch of 128 slices holds about one, or none, of an episode that reaches it."""
FEW_EPISODES = 10
"""What FEW_SHARE is of the smallest of the usual sets of a million steps, 1,000 episodes: in a smaller set, too, fewer
are too few to tell how such a return is earned from how those few happened to go,"""
MANY_SHARE = 0.1
"""unless they are this share of it: a set so small has few episodes of any return."""


def paper_returns(settings: EvaluationConfig, spec: DatasetSpec) -> tuple[float, ...]:
    """The returns that the user named, else those of the dataset's spec, which are the paper's of the task."""
    return tuple(float(target) for target in settings.target_returns or spec.target_returns)


def asked_returns(settings: EvaluationConfig, spec: DatasetSpec, return_max: float | None) -> tuple[float, ...]:
    """What an agent is asked for, each return once: what the user named and that alone, else the paper's returns and
    the data's best.

    No default is good everywhere: the paper's may be more than anything in the data, and then their score measures
    extrapolation. That at the data's best tells, beside it, how much of the score is owed to what was asked.

    Args:
        settings: Of the evaluation.
        spec: The dataset's.
        return_max: The highest return of an episode in the data; None where it is not known.
    """
    best = () if settings.target_returns is not None or return_max is None else (return_max,)
    return tuple(dict.fromkeys((*paper_returns(settings, spec), *best)))


def default_return(config: RunConfig, provenance: Provenance) -> float | None:
    """What an agent is asked for where nobody names a return: the first that its evaluation asks for; None in
    behaviour cloning."""
    if not config.agent.return_conditioning:
        return None
    return next(iter(asked_returns(config.evaluation, provenance.spec, provenance.return_max)), None)


def check_conditioned(config: RunConfig, name: str = "the agent") -> None:
    """InputError, calling the agent by that name, where a return was named and it clones its data."""
    if not config.agent.return_conditioning:
        raise InputError(f"{name} clones its data and takes no target return: leave it out")


def is_best(target_return: float | None, return_max: float | None) -> bool:
    """Whether a return is that of the data's best episode; None: none was asked for, or it is not known."""
    return target_return is not None and target_return == return_max


def describe_reach(asked: Sequence[float], returns: np.ndarray) -> str:
    """How many episodes reach each of the returns asked for, in one line.

    Args:
        asked: Returns.
        returns: (episodes,) those of the episodes that are trained on.
    """
    return "; ".join(_reach(target, returns) for target in asked)


def describe_few(asked: Sequence[float], returns: np.ndarray) -> str | None:
    """A warning if too few episodes reach some of the returns asked for: what their scores are then, and what to do.

    Args:
        asked: Returns, without those that are asked because few reach them, such as the data's best.
        returns: (episodes,) those of the episodes that are trained on.
    """
    count = len(returns)
    enough = max(FEW_SHARE * count, min(FEW_EPISODES, MANY_SHARE * count))
    few = {target: reach for target in asked if (reach := int((returns >= target).sum())) < enough}
    if not few:
        return None
    reached = ", ".join(f"{reach or 'none'} {'reaches' if reach < 2 else 'reach'} {t:g}" for t, reach in few.items())
    often = np.quantile(returns, 1 - MANY_SHARE, method="lower")
    return (
        f"of {count:,} episodes {reached}: a score there rests on little or nothing in the data, so read it beside the "
        "score at the data's best, or choose lower targets with "
        f"--evaluation.target_returns, such as [{often:g}], which {np.mean(returns >= often):.0%} of the episodes reach"
    )


def _reach(target: float, returns: np.ndarray) -> str:
    count, reach, best = len(returns), int((returns >= target).sum()), float(returns.max())
    if not reach:
        return f"target {target:g}: no episode of {count:,} reaches it (best {best:g})"
    what = f"target {target:g}, the data's best" if target == best else f"target {target:g}"
    verb = "reaches" if reach == 1 else "reach"
    return f"{what}: {reach:,} of {count:,} episodes {verb} it ({100 * reach / count:.3g}%)"

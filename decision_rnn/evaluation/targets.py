"""Target returns of an evaluation, how many episodes of the data reach them, and remarks on scores easily misread."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from decision_rnn.backbones.time_scales import memory_exceeds
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.environments.registry import registered
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
    conditioned = [config for config in configs if config.takes_target]
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
    """The target returns of an evaluation, without duplicates: the targets that the user named, or else the paper's and
    the data's best return; for an agent that sees a limited return-to-go, `AUTO` and the paper's targets inside the
    data.

    The paper's targets may exceed every return in the data, and then their scores measure extrapolation: the score at
    the data's best return shows how much of it is due to the target. An agent with a limit sees the limit for either.
    """
    targets = paper_returns(settings, data, [config])
    complete = settings.target_returns or config.condition.limited
    return tuple(dict.fromkeys(targets if complete else (*targets, data.return_max)))


def default_return(config: RunConfig, data: DatasetSpec) -> float | None:
    """The target return if none is named: the first target of the evaluation; None in behaviour cloning."""
    return evaluated_returns(config.evaluation, data, config)[0] if config.takes_target else None


def check_target(config: RunConfig, target: object = None, name: str = "the agent") -> None:
    """Raise InputError if an agent takes no target return, or if the target is `AUTO` and nothing limits it."""
    valid = config.takes_target and (target != AUTO or config.condition.limited)
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
    reached = [(target, returns >= target) for target in targets if target != AUTO]
    return "; ".join(
        f"target {target:g}: {reach.sum():,} of {len(returns):,} episodes reach it ({100 * reach.mean():.3g}%)"
        for target, reach in reached
    )


def remarks(
    config: RunConfig,
    data: DatasetSpec,
    settings: EvaluationConfig,
    targets: Sequence[float | None],
    episodes: np.ndarray,
) -> Iterator[str]:
    """Warnings about the scores of an evaluation at these targets, of which `episodes` is the rollout."""
    numbers = [target for target in targets if target not in (None, AUTO)] if config.takes_return else []
    quantile = getattr(config.condition, "rtg_quantile", 0.0)
    limit = f", though condition.rtg_quantile {quantile:g} limits the return-to-go" if quantile else ""
    if above := ", ".join(f"{target:g}" for target in numbers if target > data.return_max):
        yield f"scores at {above}, beyond the data's best {data.return_max:g}, measure extrapolation{limit}"
    if below := ", ".join(f"{target:g}" for target in numbers if target < data.return_min):
        yield f"scores at {below}, beyond the data's worst {data.return_min:g}, measure extrapolation"
    if difference := remark_on_time_limit(data, settings):
        yield difference
    if config.top_fraction < 1 and config.takes_target:
        yield (
            f"only the best {config.top_fraction:g} of the episodes were trained on: lower returns, though within the "
            "data's range, were never seen"
        )
    long = memory_exceeds(config.backbone, config.training.context)
    if long and config.tbptt_segments == 1 and settings.inference == "recurrent":
        yield (
            f"the state of {config.backbone.name} outlasts the segments it was trained on, which each start from the "
            "initial state: carried over whole episodes it may score far below --inference window, and below training "
            "with --training.tbptt_segments 50"
        )
    if episodes["cut"].any():
        steps = int(episodes["length"][episodes["cut"]].max())
        longest = settings.max_episode_steps is None and steps == data.longest_episode
        yield (
            f"{episodes['cut'].sum()} of {episodes.size} episodes were cut off after {steps:,} steps"
            f"{' (the longest in the data)' * longest}, so their returns are incomplete: evaluation.max_episode_steps "
            "sets the limit"
        )


def remark_on_time_limit(data: DatasetSpec, settings: EvaluationConfig) -> str:
    """A warning if the data's episodes were recorded under another time limit than they are evaluated under."""
    spec = registered(settings.environment_id or data.environment_id)
    limits = [settings.max_episode_steps, None if spec is None else spec.max_episode_steps]
    limit = min((steps for steps in limits if steps is not None), default=data.time_limit)
    if data.time_limit is None or limit == data.time_limit:
        return ""
    return (
        f"the data's episodes were truncated after {data.time_limit:,} steps, those of the evaluation after "
        f"{limit:,}: their returns are not comparable. Set evaluation.max_episode_steps, or register the environment "
        "with the data's limit"
    )

"""Results formatted for the terminal, with remarks on scores that are easily misread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from decision_rnn.backbones.time_scales import memory_exceeds
from decision_rnn.environments.environments import registered
from decision_rnn.utils.messages import counted
from decision_rnn.utils.parsing import AUTO, format_target

if TYPE_CHECKING:
    from decision_rnn.config import EvaluationConfig, RunConfig
    from decision_rnn.data.spec import DatasetSpec
    from decision_rnn.evaluation.results import Protocol, Result, TargetResult
    from decision_rnn.evaluation.rollout import RolloutResult
    from decision_rnn.evaluation.statistics import SeedDeviation, SeedScores


def describe_range(in_range: bool | None, best: bool = False) -> str:
    """Whether a target return is inside the data's range, beyond it, or the data's best; empty if unknown. Inside the
    range, scores measure the target error; beyond it, extrapolation."""
    if best:
        return "the data's best"
    return "" if in_range is None else "inside the data" if in_range else "beyond the data"


def format_scores(scores: SeedScores, unit: str = "", number: Callable[[float], str] = "{:.1f}".format) -> str:
    """A score with its spread: `81.2 [78.0, 84.1]` for an interval, `81.2 (78.0 to 84.1)` for a range."""
    text = f"{number(scores.score)}{unit}"
    if scores.low is None or scores.high is None:
        return text
    low, high = number(scores.low), number(scores.high)
    return f"{text} [{low}, {high}]" if scores.spread == "95% interval" else f"{text} ({low} to {high})"


def format_number(value: float) -> str:
    """A value of a metric, whose size is not known: with four digits, or as a whole number if it is larger."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def format_return(value: float, data: DatasetSpec, least: int = 0) -> str:
    """A return with as many decimals as the range of the data's returns asks for, at least `least`: none for returns in
    the thousands, two between 0 and 1."""
    spread = data.return_max - data.return_min
    places = max(least, 2 - math.floor(math.log10(spread))) if spread > 0 else least
    return f"{value:.{places}f}"


def format_deviation(deviation: SeedDeviation | None) -> str:
    """Standard deviation of the seeds' scores, in brackets of the agents' true scores: `4.0 (3.2)`; empty for None."""
    return "" if deviation is None else f"{deviation.of_scores:.1f} ({deviation.of_agents:.1f})"


def format_result(result: Result) -> str:
    """The result as a table for a terminal."""
    data, protocol = result.dataset, result.protocol
    several, cloning = protocol.episodes > 1, protocol.target_returns == (None,)
    widths = [max(len(name), 17) for name in protocol.metrics]
    measured = "".join(f"  {name:>{width}}" for name, width in zip(protocol.metrics, widths, strict=True))

    def row(name: str, mean: float, sd: float, scores: str, spread: bool = True) -> str:
        returns = f"{format_return(mean, data, least=1):>8}"
        returns += f" ± {format_return(sd, data, least=1):>6}" if spread else f"{'':9}"
        return f"{name:>12}  {returns}  {scores}".rstrip()

    def target_row(target: TargetResult) -> str:
        score = f"{target.score_mean:>8.1f}" + (f" ± {target.score_sd:>6.1f}" if several else f"{'':9}")
        where = describe_range(target.in_range, target.target_return == data.return_max)
        scores = f"{score}  {target.length_mean:>6.0f}"
        for metric, width in zip(target.metrics.values(), widths, strict=True):
            text = format_number(metric.mean) + f" ± {format_number(metric.sd):>6}" * several
            scores += f"  {text:>{width}}"
        scores += f"  {where}"
        return row(_named(target), target.return_mean, target.return_sd, scores, several)

    lines = [
        f"{result.config.backbone.name} on {data.name}, step {result.step}, {counted(protocol.episodes, 'episode')}"
        f"{' of cloning' if cloning else ' per target'}, {protocol}, {protocol.environment_id or data.environment_id}",
        f"{'' if cloning else 'target':>12}  {'return':>17}  {'normalised score':>17}  {'length':>6}{measured}",
        *map(target_row, result.targets),
        row("(the data)", data.return_mean, data.return_sd, f"{data.score_mean:>8.1f}"),
        f"± is one standard deviation over episodes; score {data.score_meaning}",
        *filter(None, map(describe_tasks, result.targets)),
        *filter(None, (describe_share(target, data) for target in result.targets)),
        *filter(None, (*map(describe_limit, result.targets), data.comparable, *data.notes, *result.remarks)),
    ]
    return "\n".join(lines)


def _named(target: TargetResult) -> str:
    return "cloning" if target.target_return is None else format_target(target.target_return)


def describe_tasks(target: TargetResult) -> str:
    """The scores of the environment's tasks: `best: tasks 1 to 5 score 82.0, 84.0, ...`; empty where it has one."""
    if not target.task_scores:
        return ""
    scores = ", ".join(f"{score:.1f}" for score in target.task_scores)
    return f"{_named(target)}: tasks 1 to {len(target.task_scores)} score {scores}"


def describe_share(target: TargetResult, data: DatasetSpec) -> str:
    """How many episodes score 100, with Wilson's interval, where all others score 0, as where a goal is reached or not;
    empty elsewhere."""
    count, ends = len(target.returns), {data.reference_min, data.reference_max}
    if count == 1 or not ends.issuperset(target.returns):
        return ""
    from decision_rnn.evaluation.statistics import share_interval  # here: slow, and rarely needed

    reached = target.returns.count(data.reference_max)
    low, high = share_interval(reached / count, count)
    return (
        f"{_named(target)}: {reached} of {count} episodes score 100, the others 0: 95% interval {100 * low:.1f} to "
        f"{100 * high:.1f}, of this agent; those of other seeds differ by more"
    )


def describe_limit(target: TargetResult) -> str:
    """How often an agent saw less than its target, and what it saw at first; empty if nothing was limited."""
    if not target.limited or target.target_return is None:
        return ""
    name, at_first = format_target(target.target_return), f"{target.asked_mean:,.4g}"
    if target.target_return == AUTO:
        return f"{name}: at every step the limit, at first {at_first} on average"
    return f"{name}: limited in {target.limited:.0%} of the steps, at first to {at_first} on average"


def remarks(config: RunConfig, dataset: DatasetSpec, protocol: Protocol) -> Iterator[str]:
    """What a reader has to know before trusting the scores of an evaluation, in one sentence each."""
    low, high = dataset.return_min, dataset.return_max
    returns = protocol.target_returns if config.takes_return else ()
    targets = [target for target in returns if target not in (None, AUTO)]
    above, below = [target for target in targets if target > high], [target for target in targets if target < low]
    for beyond, side in ((above, f"best {high:g}"), (below, f"worst {low:g}")):
        if not beyond:
            continue
        verb, whose = ("is", "its score measures") if len(beyond) == 1 else ("are", "their scores measure")
        text = f"{', '.join(f'{target:g}' for target in beyond)} {verb} beyond the data's {side}: {whose} extrapolation"
        quantile = getattr(config.condition_options, "rtg_quantile", 0.0)
        if beyond is above and quantile:
            share = f"the {quantile:g} quantile" if quantile < 1 else "the largest"
            text += f", though the agent sees at most {share} of the data's returns-to-go (condition.rtg_quantile)"
        yield text
    if limits := remark_on_limits(dataset, protocol):
        yield limits
    if config.top_fraction < 1 and config.takes_target:
        yield (
            f"the best {config.top_fraction:g} of the episodes alone were trained on: returns below theirs, though "
            "within the data's range, were never seen"
        )
    outlasting = memory_exceeds(config.backbone, config.training.context)
    if outlasting and config.tbptt_segments == 1 and protocol.inference == "recurrent":
        yield (
            f"the state of {config.backbone.name} outlasts the segments it was trained on, which each start from the "
            "initial state: carried over whole episodes it may score far below --inference window, and below training "
            "with --training.tbptt_segments 50"
        )


def remark_on_limits(dataset: DatasetSpec, evaluation: EvaluationConfig | Protocol) -> str | None:
    """A sentence if the data's episodes were recorded under another time limit than they are evaluated under."""
    spec = registered(evaluation.environment_id or dataset.environment_id)
    own = None if spec is None else spec.max_episode_steps
    limits = [limit for limit in (evaluation.max_episode_steps, own) if limit is not None]
    if dataset.time_limit is None or not limits or min(limits) == dataset.time_limit:
        return None
    return (
        f"the data's episodes were truncated after {counted(dataset.time_limit, 'step')}, those of an evaluation after "
        f"{min(limits):,}: returns of the two are not alike, and evaluation.max_episode_steps or the limit with which "
        "the environment is registered sets the latter"
    )


def remark_on_cuts(data: DatasetSpec, protocol: Protocol, played: Sequence[RolloutResult]) -> Iterator[str]:
    """A sentence on the episodes that did not end within the largest number of steps, if there are any."""
    cut, lengths = (np.concatenate([getattr(of, name) for of in played]) for name in ("cut", "lengths"))
    if cut.any():
        steps = int(lengths[cut].max())
        longest = protocol.max_episode_steps is None and steps == data.longest_episode
        number = f"{steps:,} steps{', the longest in the data' * longest}"
        yield (
            f"{cut.sum()} of {len(cut)} episodes were cut after {number}, before the environment ended them, and their "
            "returns lack what follows: evaluation.max_episode_steps sets the number"
        )

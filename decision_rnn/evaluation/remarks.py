"""Remarks on scores that are easily misread, stored with a result."""

from collections.abc import Iterator, Sequence

import numpy as np

from decision_rnn.backbones.time_scales import memory_exceeds
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.environments.registry import registered
from decision_rnn.evaluation.results import Protocol
from decision_rnn.evaluation.rollout import RolloutResult
from decision_rnn.utils.messages import counted
from decision_rnn.utils.parsing import AUTO


def remarks(
    config: RunConfig, dataset: DatasetSpec, protocol: Protocol, episodes: Sequence[RolloutResult]
) -> tuple[str, ...]:
    """Warnings about the scores of an evaluation."""
    lines = (
        *_remark_on_targets(config, dataset, protocol),
        remark_on_time_limit(dataset, protocol),
        _remark_on_selection(config),
        _remark_on_state(config, protocol),
        _remark_on_cuts(dataset, protocol, episodes),
    )
    return tuple(filter(None, lines))


def _remark_on_targets(config: RunConfig, dataset: DatasetSpec, protocol: Protocol) -> Iterator[str]:
    targets = (
        [target for target in protocol.target_returns if target not in (None, AUTO)] if config.takes_return else ()
    )
    above = [target for target in targets if target > dataset.return_max]
    below = [target for target in targets if target < dataset.return_min]
    for beyond, end in ((above, f"best {dataset.return_max:g}"), (below, f"worst {dataset.return_min:g}")):
        if not beyond:
            continue
        verb, scores = ("is", "its score measures") if len(beyond) == 1 else ("are", "their scores measure")
        text = f"{', '.join(f'{target:g}' for target in beyond)} {verb} beyond the data's {end}: {scores} extrapolation"
        quantile = getattr(config.condition_options, "rtg_quantile", 0.0)
        if beyond is above and quantile:
            text += f", though condition.rtg_quantile {quantile:g} limits the return-to-go"
        yield text


def remark_on_time_limit(dataset: DatasetSpec, evaluation: EvaluationConfig | Protocol) -> str:
    """A warning if the data's episodes were recorded under another time limit than they are evaluated under."""
    spec = registered(evaluation.environment_id or dataset.environment_id)
    limits = [evaluation.max_episode_steps, None if spec is None else spec.max_episode_steps]
    limit = min((steps for steps in limits if steps is not None), default=dataset.time_limit)
    if dataset.time_limit is None or limit == dataset.time_limit:
        return ""
    return (
        f"the data's episodes were truncated after {counted(dataset.time_limit, 'step')}, those of the evaluation "
        f"after {limit:,}: their returns are not comparable. Set evaluation.max_episode_steps, or register the "
        "environment with the data's limit"
    )


def _remark_on_selection(config: RunConfig) -> str:
    if config.top_fraction == 1 or not config.takes_target:
        return ""
    return (
        f"only the best {config.top_fraction:g} of the episodes were trained on: lower returns, though within the "
        "data's range, were never seen"
    )


def _remark_on_state(config: RunConfig, protocol: Protocol) -> str:
    long = memory_exceeds(config.backbone, config.training.context)
    if not long or config.tbptt_segments != 1 or protocol.inference != "recurrent":
        return ""
    return (
        f"the state of {config.backbone.name} outlasts the segments it was trained on, which each start from the "
        "initial state: carried over whole episodes it may score far below --inference window, and below training with "
        "--training.tbptt_segments 50"
    )


def _remark_on_cuts(dataset: DatasetSpec, protocol: Protocol, episodes: Sequence[RolloutResult]) -> str:
    cut, lengths = (np.concatenate([getattr(target, name) for target in episodes]) for name in ("cut", "lengths"))
    if not cut.any():
        return ""
    steps = int(lengths[cut].max())
    longest = protocol.max_episode_steps is None and steps == dataset.longest_episode
    source = " (the longest in the data)" if longest else ""
    return (
        f"{cut.sum()} of {len(cut)} episodes were cut off after {steps:,} steps{source}, "
        "so their returns are incomplete: evaluation.max_episode_steps sets the limit"
    )

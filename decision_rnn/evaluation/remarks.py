"""Remarks on scores that are easily misread, stored with a result."""

from collections.abc import Iterator

import numpy as np

from decision_rnn.backbones.time_scales import memory_exceeds
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.environments.registry import registered
from decision_rnn.evaluation.results import Protocol
from decision_rnn.utils.parsing import AUTO


def remarks(config: RunConfig, dataset: DatasetSpec, protocol: Protocol, episodes: np.ndarray) -> Iterator[str]:
    """Warnings about the scores of an evaluation, of which `episodes` is the rollout."""
    numbers = (
        [target for target in protocol.target_returns if target not in (None, AUTO)] if config.takes_return else []
    )
    ends = {
        f"best {dataset.return_max:g}": [target for target in numbers if target > dataset.return_max],
        f"worst {dataset.return_min:g}": [target for target in numbers if target < dataset.return_min],
    }
    for end, targets in ends.items():
        if targets:
            quantile = getattr(config.condition_options, "rtg_quantile", 0.0) * end.startswith("best")
            limit = f", though condition.rtg_quantile {quantile:g} limits the return-to-go" if quantile else ""
            names = ", ".join(f"{target:g}" for target in targets)
            yield f"scores at {names}, beyond the data's {end}, measure extrapolation{limit}"
    if difference := remark_on_time_limit(dataset, protocol):
        yield difference
    if config.top_fraction < 1 and config.takes_target:
        yield (
            f"only the best {config.top_fraction:g} of the episodes were trained on: lower returns, though within the "
            "data's range, were never seen"
        )
    long = memory_exceeds(config.backbone, config.training.context)
    if long and config.tbptt_segments == 1 and protocol.inference == "recurrent":
        yield (
            f"the state of {config.backbone.name} outlasts the segments it was trained on, which each start from the "
            "initial state: carried over whole episodes it may score far below --inference window, and below training "
            "with --training.tbptt_segments 50"
        )
    if episodes["cut"].any():
        steps = int(episodes["length"][episodes["cut"]].max())
        longest = protocol.max_episode_steps is None and steps == dataset.longest_episode
        yield (
            f"{episodes['cut'].sum()} of {episodes.size} episodes were cut off after {steps:,} steps"
            f"{' (the longest in the data)' * longest}, so their returns are incomplete: evaluation.max_episode_steps "
            "sets the limit"
        )


def remark_on_time_limit(dataset: DatasetSpec, evaluation: EvaluationConfig | Protocol) -> str:
    """A warning if the data's episodes were recorded under another time limit than they are evaluated under."""
    spec = registered(evaluation.environment_id or dataset.environment_id)
    limits = [evaluation.max_episode_steps, None if spec is None else spec.max_episode_steps]
    limit = min((steps for steps in limits if steps is not None), default=dataset.time_limit)
    if dataset.time_limit is None or limit == dataset.time_limit:
        return ""
    return (
        f"the data's episodes were truncated after {dataset.time_limit:,} steps, those of the evaluation after "
        f"{limit:,}: their returns are not comparable. Set evaluation.max_episode_steps, or register the environment "
        "with the data's limit"
    )

"""What `train` prints before the first step: sizes, and warnings about data and options that do not fit together."""

from collections.abc import Iterator

import numpy as np

from decision_rnn.agent import DecisionAgent
from decision_rnn.backbones import count_parameters, memory_exceeds
from decision_rnn.config import RunConfig
from decision_rnn.data.spec import DatasetSpec, observation_index
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.warnings import warn_of_observations, warn_of_returns
from decision_rnn.evaluation.remarks import remark_on_time_limit
from decision_rnn.evaluation.targets import asked_returns, describe_few, describe_reach
from decision_rnn.utils.messages import counted


def describe_run(config: RunConfig, agent: DecisionAgent, store: EpisodeStore, episodes: EpisodeStore) -> Iterator[str]:
    """Lines with the agent's size, its steps, warm-up and segments, and its episodes if not all are trained on."""
    backbone, training, objective = config.backbone, config.training_options, config.objective_options.name
    yield (
        f"{backbone.name}, {counted(backbone.layers, 'layer')} of width {backbone.width}: "
        f"{count_parameters(agent):,} parameters, {count_parameters(agent.backbone):,} of them in the backbone"
    )
    yield (
        f"{counted(training.steps, 'training step')} of {training.optimizer}, objective {objective}; "
        f"the learning rate warms up over the first {training.warmup:,}"
    )
    yield describe_segments(config, episodes, remembers=bool(agent.backbone.initial_state(1)))
    if episodes is not store:
        yield (
            f"of {counted(store.num_episodes, 'episode')} the best {len(episodes):,} are trained on, "
            f"{episodes.steps:,} of {counted(store.steps, 'step')}; their returns are "
            f"{episodes.episode_returns.min():g} and above"
        )


def describe_segments(config: RunConfig, episodes: EpisodeStore, remembers: bool) -> str:
    """What a segment is, and whether an agent that `remembers` can learn longer dependencies."""
    training, median = config.training, np.median(episodes.episode_lengths)
    start = "with an episode" if training.segment_start == "episode" else "anywhere"
    text = f"segments of {training.context} steps, each beginning {start}"
    if config.tbptt_segments > 1:
        return f"{text} and going on with its state in later batches, {config.tbptt_segments} segments on average"
    if not remembers or median <= training.context:
        return text
    return (
        f"{text}; training.context ({training.context}) is shorter than the median episode ({median:,.0f} steps): "
        "longer dependencies cannot be learnt"
    )


def run_warnings(config: RunConfig, spec: DatasetSpec, episodes: EpisodeStore) -> Iterator[str]:
    """Sentences on data and options with which agents act badly although every value is valid."""
    yield from warn_of_observations(episodes, observation_index(config.observation.mask, episodes.environment_id))
    if config.takes_return:
        yield from warn_of_returns(episodes)
    yield from segment_warnings(config, episodes)
    if limits := remark_on_time_limit(spec, config.evaluation):
        yield limits
    if config.takes_return:
        targets = list(asked_returns(config.evaluation, spec, config))
        if config.evaluation.target_returns is None:
            # The data's best return is a target too, for reference: that few episodes reach it needs no warning.
            targets = [target for target in targets if target != spec.return_max]
        if few := describe_few(targets, episodes.episode_returns):
            yield few


def describe_targets(config: RunConfig, spec: DatasetSpec, episodes: EpisodeStore) -> str | None:
    """How many of the episodes reach the target returns; None for an agent that is given none."""
    if not config.takes_return:
        return None
    return describe_reach(asked_returns(config.evaluation, spec, config), episodes.episode_returns)


def segment_warnings(config: RunConfig, episodes: EpisodeStore) -> Iterator[str]:
    """Sentences on steps that are in no segment, and on a state that is carried further in acting than in training."""
    context, lengths = config.training.context, episodes.episode_lengths
    if config.tbptt_segments > 1:
        return
    unused = np.maximum(lengths - context, 0).sum() / episodes.steps
    if config.training.segment_start == "episode" and unused > 0:
        yield (
            f"{unused:.1%} of the steps are never trained on, those after an episode's first {context}. Set "
            f"training.context to {lengths.max()}, training.tbptt_segments above 1, or training.segment_start anywhere."
        )
    long = np.median(lengths) > context
    if long and memory_exceeds(config.backbone, context) and config.evaluation.inference == "recurrent":
        yield (
            f"the memory of {config.backbone.name} is longer than training.context ({context}), but training resets "
            "the state at every segment: in long episodes the state will be out of distribution. Leave "
            "training.tbptt_segments out, or set evaluation.inference window."
        )

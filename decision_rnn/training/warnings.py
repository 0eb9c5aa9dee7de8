"""What `train` prints before the first step: sizes, and warnings about data and options that do not fit together."""

from collections.abc import Iterator, Sequence

import numpy as np
from gymnasium.spaces import Box

from decision_rnn.agent import DecisionAgent
from decision_rnn.backbones import count_parameters
from decision_rnn.config import RunConfig
from decision_rnn.data.info import (
    warn_of_actions,
    warn_of_choices,
    warn_of_copies,
    warn_of_observations,
    warn_of_returns,
    warn_of_shift,
)
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.spaces import share_outside
from decision_rnn.environments.tasks import observation_index
from decision_rnn.evaluation.targets import describe_few, describe_reach, evaluated_returns, remark_on_time_limit
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.messages import counted, tell, warn


def describe_run(
    config: RunConfig,
    agent: DecisionAgent,
    store: EpisodeStore,
    episodes: EpisodeStore,
    validated: EpisodeStore | None,
) -> Iterator[str]:
    """Lines with the agent's size, its steps, warm-up and segments, and its episodes if not all are trained on."""
    backbone, training, objective = config.backbone, config.training, config.objective.name
    yield (
        f"{backbone.name}, {counted(backbone.layers, 'layer')} of width {backbone.width}: "
        f"{count_parameters(agent):,} parameters, {count_parameters(agent.backbone):,} of them in the backbone"
    )
    yield (
        f"{counted(training.steps, 'training step')} of {training.optimizer}, objective {objective}; "
        f"the learning rate warms up over the first {training.warmup:,}"
    )
    start = "with an episode" if training.segment_start == "episode" else "anywhere"
    segments = f"segments of {training.context} steps, each beginning {start}"
    median = np.median(episodes.episode_lengths)
    if config.tbptt_segments > 1:
        segments += f" and going on with its state in later batches, {config.tbptt_segments} segments on average"
    elif agent.backbone.initial_state(1) and median > training.context:
        segments += (
            f"; training.context ({training.context}) is shorter than the median episode ({median:,.0f} steps): "
            "longer dependencies cannot be learnt"
        )
    yield segments
    if episodes is not store:
        yield (
            f"of {counted(store.num_episodes, 'episode')} the best {len(episodes):,} are trained on, "
            f"{episodes.steps:,} of {counted(store.steps, 'step')}; their returns are "
            f"{episodes.episode_returns.min():g} and above"
        )
    if validated is not None:
        sizes = f"{counted(len(validated), 'episode')}, {counted(validated.steps, 'step')}"
        yield f"validated on {sizes} of {config.validation}"


def describe_start(config: RunConfig, store: EpisodeStore, initial: TrainedAgent | None) -> Iterator[str]:
    """What a user should know about the action box and the weights that a new run starts from."""
    if initial is None:
        yield from warn_of_actions(store)
        return
    box = initial.agent.action_space
    outside = share_outside(store.actions, box) if isinstance(box, Box) else 0.0
    clipped = f"; in {outside:.1%} of the steps an action is outside it and is clipped" if outside else ""
    yield (
        f"starts from {config.init_from}, step {initial.step:,}: its weights, its normalisation of observations and "
        f"returns, and its action box{clipped}"
    )


def warn_of_run(config: RunConfig, spec: DatasetSpec, episodes: EpisodeStore, validated: EpisodeStore | None) -> None:
    """Warn of data and options with which agents act badly although every value is valid, and of held-out episodes that
    lie outside the data; tell how many episodes reach the target returns."""
    targets = evaluated_returns(config.evaluation, spec, config) if config.takes_return else ()
    for warning in filter(None, _warnings(config, spec, episodes, targets)):
        warn(f"warning: {warning}")
    for warning in () if validated is None else warn_of_shift(episodes, validated):
        warn(f"warning: {config.validation}: {warning}")
    for kind, sentence in warn_of_copies(episodes, config.agent.delta_actions):
        warn(f"{kind}: {sentence}")
    if reach := describe_reach(targets, episodes.episode_returns):
        tell(reach)


def _warnings(
    config: RunConfig, spec: DatasetSpec, episodes: EpisodeStore, targets: Sequence[float]
) -> Iterator[str | None]:
    yield from warn_of_choices(episodes)
    yield from warn_of_observations(episodes, observation_index(config.observation.mask, episodes.environment_id))
    if config.takes_return:
        yield from warn_of_returns(episodes)
    context, lengths = config.training.context, episodes.episode_lengths
    unused = np.maximum(lengths - context, 0).sum() / episodes.steps
    if config.tbptt_segments == 1 and config.training.segment_start == "episode" and unused > 0:
        yield (
            f"{unused:.1%} of the steps are never trained on, those after an episode's first {context}. Set "
            f"training.context to {lengths.max()}, training.tbptt_segments above 1, or training.segment_start anywhere."
        )
    yield remark_on_time_limit(spec, config.evaluation)
    if config.evaluation.target_returns is None:
        # The data's best return is a target too, for reference: that few episodes reach it needs no warning.
        targets = [target for target in targets if target != spec.return_max]
    yield describe_few(targets, episodes.episode_returns)

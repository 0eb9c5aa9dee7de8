"""The segments of the data that a run is trained on: what they contain, compared with how long its agent remembers."""

from collections.abc import Iterator

import gymnasium
import numpy as np
import torch

from decision_rnn.backbones import memory_exceeds
from decision_rnn.config import RunConfig
from decision_rnn.data.hindsight import GoalEntries
from decision_rnn.data.spec import observation_index
from decision_rnn.data.store import EpisodeStore, top_episodes
from decision_rnn.data.stream import StepStream
from decision_rnn.training.ranks import ALONE, Ranks
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted


def goals_of(config: RunConfig, observations: gymnasium.Space | None) -> GoalEntries | None:
    """The entries of goals in observations of this space, None without relabeling; InputError if there are none."""
    if config.training.goal_relabeling == "none":
        return None
    return GoalEntries.of_space(observations, config.dataset)


def slices_of(
    config: RunConfig,
    store: EpisodeStore,
    goals: GoalEntries | None,
    seed: int,
    device: torch.device,
    ranks: Ranks = ALONE,
) -> StepStream:
    """The segments of a store, drawn as a run is configured, with goals in hindsight if there are entries for them, and
    of every batch the rows of this process."""
    settings = config.training
    return StepStream(
        store,
        settings.context,
        settings.batch_size,
        seed,
        device,
        tbptt_segments=config.tbptt_segments,
        return_weighting=settings.return_weighting,
        segment_start=settings.segment_start,
        goals=goals,
        goal_discount=config.goal_discount,
        p_randomgoal=settings.p_randomgoal,
        own_rows=ranks.rows(settings.batch_size),
    )


def select_episodes(config: RunConfig, store: EpisodeStore) -> EpisodeStore:
    """The episodes of a dataset that a run is trained on; InputError if it cannot be, as it is configured."""
    observation_index(config.observation.mask, store.environment_id)
    seen = top_episodes(store, config.top_fraction)
    context, steps = config.training.context, counted(seen.steps, "step")
    if seen.steps < context:
        raise InputError(
            f"top_fraction {config.top_fraction} leaves {len(seen)} of {counted(len(store), 'episode')} of "
            f"{config.dataset} with {steps} in all, fewer than training.context {context}: "
            "raise top_fraction or lower training.context"
            if seen is not store
            else f"{store.path} has {steps}, fewer than training.context {context}: lower it"
        )
    return seen


def describe_slices(config: RunConfig, store: EpisodeStore, remembers: bool) -> str:
    """What a segment is, and whether an agent that `remembers` can learn from what it saw longer ago."""
    training, middle = config.training, np.median(store.episode_lengths)
    begins = "with an episode" if _from_beginnings(config) else "anywhere"
    text = f"segments of {training.context} steps, each beginning {begins}"
    if _carried(config):
        return f"{text} and going on with its state in later batches, {config.tbptt_segments} slices on average"
    if not remembers or middle <= training.context:
        return text
    return (
        f"{text}: half of the episodes have {middle:,.0f} steps or more, but the agent learns to use only what it saw "
        f"in the last {training.context}"
    )


def odd_slices(config: RunConfig, store: EpisodeStore) -> Iterator[str]:
    """Sentences on steps that are in no segment, and on a state that is carried further in acting than in training."""
    training, lengths = config.training, store.episode_lengths
    if _carried(config):
        return
    unseen = np.maximum(lengths - training.context, 0).sum() / store.steps
    if _from_beginnings(config) and unseen > 0:
        yield (
            f"{unseen:.1%} of the steps are never trained on, those after an episode's first {training.context}: set "
            f"training.context to the longest episode's {lengths.max()} steps, or training.tbptt_segments above 1, or "
            "leave training.segment_start out"
        )
    long = np.median(lengths) > training.context
    if long and memory_exceeds(config.backbone, training.context) and config.evaluation.inference == "recurrent":
        yield (
            f"the state of {config.backbone.name} outlasts a segment of {training.context} steps, and every segment "
            "starts from the initial state: carried over an episode, the state leaves what it was trained on, so leave "
            "training.tbptt_segments out, or set evaluation.inference to window"
        )


def _carried(config: RunConfig) -> bool:
    return config.tbptt_segments > 1


def _from_beginnings(config: RunConfig) -> bool:
    return config.training.segment_start == "episode"

"""Checks whether an agent, whose actions are within [-1, 1], can learn a dataset's actions."""

import contextlib
from typing import Literal

import gymnasium

from decision_rnn.data.environments import MissingEnvironmentError, describe_alteration, environment_spaces
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError

TOLERATED = 1.01  # some data exceed 1 by rounding errors
RESCALE = "rescale them, and wrap their environment in gymnasium's RescaleAction, registered under an id of its own"


def check_actions(store: EpisodeStore, actions: Literal["keep", "clip"]) -> None:
    """Raise InputError, with a remedy, if an agent cannot be trained on a store's actions as configured.

    Clipping is right if the environment clips too: samples from a Gaussian policy leave the box [-1, 1], and MuJoCo's
    environments then execute the nearest action inside. If the action space is another box, clipping would change the
    actions that were executed. If the environment cannot be made here, its box is unknown and `clip` is trusted.

    Args:
        store: The episodes.
        actions: `keep` to train on them unchanged, `clip` to clip them to [-1, 1] (`StepStream(clip_actions=True)`).
    """
    if actions == "keep" and store.largest_action <= TOLERATED:
        return
    space = None
    if not describe_alteration(store.environment_id, store.manifest["source"].get("environment_settings")):
        with contextlib.suppress(MissingEnvironmentError):
            space = environment_spaces(store.environment_id)[1]
    box = space if isinstance(space, gymnasium.spaces.Box) else None
    clips = box is not None and bool((box.low == -1).all() and (box.high == 1).all())
    if actions == "clip" and (box is None or clips):
        return
    if clips:
        advice = "its environment clips to the same box, as MuJoCo's do: train with --actions clip"
    elif box is None:
        advice = f"where its box, unknown here, is -1 to 1, train with --actions clip; where it is larger, {RESCALE}"
    else:
        advice = f"the box of {store.environment_id} is {box.low.min():g} to {box.high.max():g}: {RESCALE}"
    raise InputError(
        f"{store.path} has actions as large as {store.largest_action:.3g}, and the agent's lie between -1 and 1; "
        f"{advice}"
    )

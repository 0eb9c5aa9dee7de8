"""The box that a dataset's actions lie in, to which an agent scales its own."""

import contextlib

import numpy as np
from gymnasium.spaces import Box
from minari.serialization import deserialize_space

from decision_rnn.data.environments import MissingEnvironmentError, describe_alteration, environment_spaces
from decision_rnn.data.store.episode_store import EpisodeStore

UNIT = 1.01
"""Actions up to here, of an unknown environment, are taken to be within [-1, 1]: some data exceed 1 by rounding."""


def action_box(store: EpisodeStore) -> Box:
    """The box of a store's actions, with all bounds finite.

    It is the action space of the environment that the data were collected in. Entries without bounds there, or all if
    the environment cannot be made here, have the range of the data, or [-1, 1] if all data of an unknown environment
    are within it.
    """
    known, size = _environment_box(store), store.action_dim
    if known is None and store.largest_action <= UNIT:
        return Box(-1.0, 1.0, (size,))
    bounds = np.array([np.full(size, -np.inf), np.full(size, np.inf)] if known is None else [known.low, known.high])
    if not np.isfinite(bounds).all():
        ranges = np.array([store.actions.min(0), store.actions.max(0)])
        ranges += np.where(ranges[0] < ranges[1], 0, [[-1.0], [1.0]])  # around an entry that never changes
        bounds = np.where(np.isfinite(bounds), bounds, ranges)
    low, high = bounds.astype(np.float32)
    return Box(low, high)


def describe_box(store: EpisodeStore, box: Box) -> str | None:
    """A sentence on a store's box and on the actions outside it; None if it is [-1, 1] and holds all of them."""
    outside = share_outside(store, box)
    if (box.low == -1).all() and (box.high == 1).all() and not outside:
        return None
    known, environment = _environment_box(store), store.environment_id or "the data"
    if known is not None and np.isfinite([known.low, known.high]).all():
        origin = f"the box of {environment}"
    elif store.environment_id is None:
        origin = "their range in the data, which name no environment"
    else:
        why = "cannot be asked here" if known is None else "has no bounds"
        origin = f"their range in the data, since the box of {environment} {why}"
    return f"actions are scaled to {box.low.min():.3g} to {box.high.max():.3g}, {origin}{describe_clipped(outside)}"


def share_outside(store: EpisodeStore, box: Box) -> float:
    """The share of a store's steps whose action is outside a box."""
    return float(((store.actions < box.low) | (store.actions > box.high)).any(1).mean())


def describe_clipped(outside: float) -> str:
    """An addition to a sentence on a box: in which share of the steps actions are outside it; empty for none."""
    return f"; in {outside:.1%} of the steps an action is outside it and is clipped" if outside else ""


def _environment_box(store: EpisodeStore) -> Box | None:
    """The action space of the environment that the data were collected in; None if it is unknown or another space."""
    source = store.manifest["source"]
    if source.get("action_space") is not None:
        space = deserialize_space(source["action_space"])
        return space if isinstance(space, Box) and space.shape == (store.action_dim,) else None
    if store.environment_id is None or describe_alteration(store.environment_id, source.get("environment_settings")):
        return None
    with contextlib.suppress(MissingEnvironmentError):
        space = environment_spaces(store.environment_id)[1]
        return space if isinstance(space, Box) and space.shape == (store.action_dim,) else None
    return None

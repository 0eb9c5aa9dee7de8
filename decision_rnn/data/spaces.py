"""The spaces of a dataset's observations and actions, and the box to which an agent scales its actions."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from decision_rnn.data.layouts import Layout
from decision_rnn.data.spec import column_names, read_spaces
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.warnings import named_entries
from decision_rnn.environments.environments import known_spaces

UNIT = 1.01
"""Actions up to here, of an unknown environment, are taken to be within [-1, 1]: some data exceed 1 by rounding."""


def spaces_of(store: EpisodeStore) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """The spaces of a store's observations and actions: those recorded with it, else those of the environment that the
    data were collected in, else boxes. A box of actions has finite bounds, see `_bounded_box`."""
    observations, actions = _known_spaces(store)
    if observations is None or Layout.of_space(observations, "observations").flat:
        observations = Box(-np.inf, np.inf, (store.observation_dim,))
    return observations, _bounded_box(store, actions) if actions is None or isinstance(actions, Box) else actions


def _bounded_box(store: EpisodeStore, known: Box | None) -> Box:
    """The box of a store's actions, with all bounds finite, given the known action space.

    Entries without bounds there, or all if it is None, have the range of the data; those that change have [-1, 1]
    if all data of an unknown environment are within it. A box of whole numbers stays one, which agents refuse.
    """
    size = store.action_dim
    if known is not None and np.issubdtype(known.dtype, np.integer):
        return known
    bounds = np.array([[-np.inf], [np.inf]]) if known is None else np.array([known.low.ravel(), known.high.ravel()])
    if not np.isfinite(bounds).all():
        ranges = np.array([store.actions.min(0), store.actions.max(0)])
        if known is None and store.largest_action <= UNIT:
            ranges = np.where(ranges[0] < ranges[1], [[-1.0], [1.0]], ranges)
        bounds = np.where(np.isfinite(bounds), bounds, ranges)
    shape = (size,) if known is None else known.shape
    low, high = bounds.astype(np.float32).reshape(2, *shape)
    return Box(low, high, shape)


def describe_actions(store: EpisodeStore, space: gymnasium.Space[Any]) -> str | None:
    """A sentence on a store's box and on the actions outside it; None if it is [-1, 1] and holds all of them, and for
    discrete actions."""
    if not isinstance(space, Box):
        return None
    box, outside = space, share_outside(store, space)
    if (box.low == -1).all() and (box.high == 1).all() and not outside:
        return None
    known, environment = _known_spaces(store)[1], store.environment_id or "the data"
    if isinstance(known, Box) and np.isfinite([known.low, known.high]).all():
        origin = f"the box of {environment}"
    elif known is None and store.largest_action <= UNIT:
        origin = "since all in the data are that small"
    elif store.environment_id is None:
        origin = "their range in the data, which name no environment"
    else:
        why = "cannot be asked here" if known is None else "has no bounds"
        origin = f"their range in the data, since the box of {environment} {why}"
    held = np.flatnonzero(box.low.ravel() == box.high.ravel())
    names = column_names(store, "actions")
    alone = f"; {named_entries(held, names)} has a single value and is held at it" if len(held) else ""
    scaled = f"actions are scaled to {box.low.min():.3g} to {box.high.max():.3g}"
    return f"{scaled}, {origin}{alone}{describe_clipped(outside)}"


def share_outside(store: EpisodeStore, box: Box) -> float:
    """The share of a store's steps whose action is outside a box."""
    return float(((store.actions < box.low.ravel()) | (store.actions > box.high.ravel())).any(1).mean())


def describe_clipped(outside: float) -> str:
    """An addition to a sentence on a box: in which share of the steps actions are outside it; empty for none."""
    return f"; in {outside:.1%} of the steps an action is outside it and is clipped" if outside else ""


def _known_spaces(
    store: EpisodeStore,
) -> tuple[gymnasium.Space[Any] | None, gymnasium.Space[Any] | None]:
    """The spaces recorded with a store, else those of its environment; None for those that are not known, or whose
    values have another size than the store's."""
    source = store.manifest["source"]
    recorded = read_spaces(source.get("spaces"))
    kinds = {"observation": store.observation_dim, "action": store.action_dim}
    if kinds.keys() - recorded.keys():
        known = known_spaces(store.environment_id, source.get("environment_settings"))
        recorded = dict(zip(kinds, known or (), strict=False)) | recorded
    found = (recorded.get(kind) for kind in kinds)
    observations, actions = (
        space if space is not None and Layout.of_space(space, kind).size == size else None
        for space, (kind, size) in zip(found, kinds.items(), strict=True)
    )
    return observations, actions

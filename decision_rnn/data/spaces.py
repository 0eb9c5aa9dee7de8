"""The spaces of observations and actions: as JSON, as layouts of rows, and with bounds for every action."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Text, Tuple
from minari.serialization import deserialize_space, serialize_space

from decision_rnn.data.layouts import TEXT, Layout
from decision_rnn.utils.errors import InputError

Spaces = tuple[gymnasium.Space[Any], gymnasium.Space[Any]]
"""The spaces of an observation and of an action."""
KINDS = ("observation", "action")
UNIT = 1.01
"""Actions up to here, of an unknown space, are taken to be within [-1, 1]: some data exceed 1 by rounding."""


def described_spaces(observations: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> dict[str, str]:
    """Two spaces in Minari's JSON, by kind."""
    return {
        kind: serialize_space(_described(space)) for kind, space in zip(KINDS, (observations, actions), strict=True)
    }


def read_spaces(described: Mapping[str, str]) -> Spaces:
    """The spaces that `described_spaces` describes."""
    observations, actions = (read_space(described[kind]) for kind in KINDS)
    return observations, actions


def read_space(described: str) -> gymnasium.Space[Any]:
    """The space that Minari's JSON describes; the entries of a Dict have the order in which they are written there,
    which is that of the columns in which its values are stored."""
    return _read(json.loads(described))


def _described(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    """A space that Minari's JSON can describe: with plain text in place of Minigrid's, which agents do not read."""
    if isinstance(space, Dict):
        return _dict_in_order((key, _described(entry)) for key, entry in space.spaces.items())
    if isinstance(space, Tuple):
        return Tuple([_described(entry) for entry in space.spaces])
    return Text(1) if type(space).__name__ in TEXT else space


def _read(described: dict[str, Any]) -> gymnasium.Space[Any]:
    if described["type"] == "Dict":
        return _dict_in_order((key, _read(entry)) for key, entry in described["subspaces"].items())
    if described["type"] == "Tuple":
        return Tuple([_read(entry) for entry in described["subspaces"]])
    return deserialize_space(described)


def _dict_in_order(entries: Iterable[tuple[str, gymnasium.Space[Any]]]) -> Dict:
    return Dict(OrderedDict(entries))  # Gymnasium sorts the keys of a plain dictionary


def layouts_of(spaces: Sequence[gymnasium.Space[Any] | None], where: str) -> tuple[Layout | None, Layout | None]:
    """How observations and actions of these spaces become rows, None where a space is not known.

    Raises InputError, with `where` for the environment, if agents cannot read or act in one.
    """
    try:
        observations = None if spaces[0] is None else Layout.of_space(spaces[0], "observations")
        actions = None if spaces[1] is None else Layout.of_actions(spaces[1])
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return observations, actions


def bounded_spaces(
    spaces: Sequence[gymnasium.Space[Any] | None], observation_dim: int, low: np.ndarray, high: np.ndarray
) -> Spaces:
    """Spaces of both kinds, with finite bounds for every action.

    Args:
        spaces: The spaces of an observation and an action, None where one is not known.
        observation_dim: The numbers of an observation.
        low: (A,) the least action in the data.
        high: (A,) the largest one. Entries without bounds in the space, or all if it is None, have the range of the
            data; those that change have [-1, 1] if all actions of an unknown space are within it.
    """
    observations, actions = spaces
    if observations is None or Layout.of_space(observations, "observations").flat:
        observations = Box(-np.inf, np.inf, (observation_dim,))
    if actions is not None and not (isinstance(actions, Box) and np.issubdtype(actions.dtype, np.floating)):
        return observations, actions
    bounds = np.array([np.full_like(low, -np.inf), np.full_like(high, np.inf)])
    if actions is not None:
        bounds = np.array([actions.low.ravel(), actions.high.ravel()])
    ranges = np.array([low, high])
    if actions is None and np.abs(ranges).max() <= UNIT:
        ranges = np.where(low < high, [[-1.0], [1.0]], ranges)
    shape = low.shape if actions is None else actions.shape
    least, most = np.where(np.isfinite(bounds), bounds, ranges).astype(np.float32).reshape(2, *shape)
    return observations, Box(least, most, shape)


def share_outside(actions: np.ndarray, box: Box) -> float:
    """The share of steps whose action, of (steps, A), is outside a box."""
    return float(((actions < box.low.ravel()) | (actions > box.high.ravel())).any(1).mean())

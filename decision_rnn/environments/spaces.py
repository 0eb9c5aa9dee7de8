"""The spaces of observations and actions: as JSON, as layouts of rows, and with bounds for every action."""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Text, Tuple
from minari.serialization import deserialize_space, serialize_space

from decision_rnn.environments.layouts import TEXT, Layout

Spaces = tuple[gymnasium.Space[Any], gymnasium.Space[Any]]
"""The spaces of an observation and of an action."""
OptionalSpaces = Sequence[gymnasium.Space[Any] | None]
"""The spaces of an observation and of an action; None for a space that is not known."""
SPACE_KEYS = ("observation", "action")


def described_spaces(observations: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> dict[str, str]:
    """Two spaces in Minari's JSON, by kind."""
    return {"observation": serialize_space(_plain(observations)), "action": serialize_space(_plain(actions))}


def read_spaces(described: Mapping[str, str]) -> Spaces:
    """The spaces that `described_spaces` describes."""
    return read_space(json.loads(described["observation"])), read_space(json.loads(described["action"]))


def read_space(described: dict[str, Any]) -> gymnasium.Space[Any]:
    """The space that Minari's JSON describes. The entries of a Dict keep the order in which the JSON lists them, since
    the columns of rows have that order: Gymnasium sorts the keys of a plain dictionary."""
    if described["type"] == "Dict":
        return Dict(OrderedDict((key, read_space(entry)) for key, entry in described["subspaces"].items()))
    if described["type"] == "Tuple":
        return Tuple([read_space(entry) for entry in described["subspaces"]])
    return deserialize_space(described)


def _plain(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    """A space that Minari's JSON can describe: with plain text in place of Minigrid's, which agents do not read."""
    if isinstance(space, Dict):
        return Dict(OrderedDict((key, _plain(entry)) for key, entry in space.spaces.items()))
    if isinstance(space, Tuple):
        return Tuple([_plain(entry) for entry in space.spaces])
    return Text(1) if type(space).__name__ in TEXT else space


def layouts_of(spaces: OptionalSpaces, where: str) -> tuple[Layout | None, Layout | None]:
    """How observations and actions of these spaces become rows, None where a space is not known.

    Raises InputError, with `where` for the environment, if agents cannot read or act in one.
    """
    observations, actions = spaces
    return (
        None if observations is None else Layout.of_space(observations, f"observations of {where}"),
        None if actions is None else Layout.of_space(actions, f"actions of {where}", acted=True),
    )


def bounded_spaces(spaces: OptionalSpaces, observation_dim: int, low: np.ndarray, high: np.ndarray) -> Spaces:
    """Spaces of both kinds, with finite bounds for every action: entries without bounds in the space, or all if it is
    None, have the range of the data, `low` to `high` (A,)."""
    observations, actions = spaces
    if observations is None or Layout.of_space(observations, "observations").flat:
        observations = Box(-np.inf, np.inf, (observation_dim,))
    if actions is not None and not isinstance(actions, Box):
        return observations, actions
    ranges = np.array([low, high])
    if actions is not None:
        bounds = np.array([actions.low.ravel(), actions.high.ravel()])
        ranges = np.where(np.isfinite(bounds), bounds, ranges)
    shape = low.shape if actions is None else actions.shape
    least, most = ranges.astype(np.float32).reshape(2, *shape)
    return observations, Box(least, most, shape)

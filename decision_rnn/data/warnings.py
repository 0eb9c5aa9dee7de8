"""What in a dataset makes agents act badly although every number is valid."""

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict

from decision_rnn.data.layouts import Layout, numbered
from decision_rnn.data.spec import ASKED, REACHED, column_names
from decision_rnn.data.store import EpisodeStore

SHOWN = 5
"""The most entries that a sentence names."""
UNRESOLVED = 2.0**20
"""Around a value this large, such as a Unix time, float32 holds no changes of a sixteenth and less."""
LEVELS = 8
"""An entry whose standard deviation is below this many steps of float32 is taken to have lost its changes."""


def odd_entries(
    store: EpisodeStore, seen: np.ndarray | None = None, observations: gymnasium.Space[Any] | None = None
) -> Iterator[str]:
    """A sentence on the observation entries that never change, and one on those whose changes float32 does not hold.

    Args:
        store: The dataset.
        seen: The indices of the observation entries that the agent sees; None for all.
        observations: The space of the observations, if it is not a vector of numbers.
    """
    entries = np.arange(store.observation_dim) if seen is None else seen
    layout = Layout.of_size(store.observation_dim)
    if observations is not None:
        layout = Layout.of_space(observations, "observations")
    entries = entries[~layout.categorical[entries]]  # a choice may well never be made
    names = column_names(store, "observations") or layout.names
    mean, std = np.abs(store.observation_mean[entries]), store.observation_std[entries]
    lost = (mean >= UNRESOLVED) & (std < LEVELS * np.spacing(mean.astype(np.float32)))
    known = store.manifest["source"].get("constant_entries", ())  # to the source, and the same in the environment
    constant = (std == 0) & ~lost & ~np.isin(entries, known)
    if constant.any():
        yield (
            f"{named_entries(entries[constant], names)} of the observations never changes in the data, and an agent "
            "that meets another value there acts unpredictably: leave it out of the observations if it can differ"
        )
    if lost.any():
        yield (
            f"{named_entries(entries[lost], names)} of the observations is around {mean[lost].max():.3g}, where "
            "float32 loses its changes: subtract its first value, as from a Unix time"
        )


def equal_returns(store: EpisodeStore, observations: gymnasium.Space[Any] | None = None) -> Iterator[str]:
    """A sentence if all episodes have the same return; `observations` as in `odd_entries`."""
    returns = store.episode_returns
    goals = isinstance(observations, Dict) and {REACHED, ASKED} <= set(observations.spaces)
    remedy = "--training.goal_relabeling hindsight" if goals else "--condition none, or add other episodes"
    if len(returns) > 1 and np.ptp(returns) <= 1e-6 * np.abs(returns).max():
        yield (
            f"all {len(returns):,} episodes have the return {returns[0]:g}, so a target return tells the agent "
            f"nothing: train with {remedy}"
        )


def named_entries(entries: np.ndarray, names: Sequence[str | None]) -> str:
    """`entry 3 (velocity)`, or `each of the entries 3, 5 (angle) and 12 more`; `names` are those of all entries."""
    listed = [numbered(entry, names) for entry in entries[:SHOWN]]
    if len(entries) == 1:
        return f"entry {listed[0]}"
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return f"each of the entries {', '.join(listed)}{more}"

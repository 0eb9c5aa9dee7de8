"""Warnings about valid but harmful data: constant entries, precision lost in float32, identical returns."""

from collections.abc import Iterator, Sequence

import numpy as np
from gymnasium.spaces import Box, Dict

from decision_rnn.data.layouts import Layout, numbered
from decision_rnn.data.spaces import share_outside
from decision_rnn.data.spec import ASKED, REACHED
from decision_rnn.data.store import EpisodeStore

SHOWN = 5
"""The most entries that a sentence names."""
UNRESOLVED = 2.0**20
"""Around a value this large, such as a Unix time, float32 holds no changes of a sixteenth and less."""
LEVELS = 8
"""An entry whose standard deviation is below this many steps of float32 is taken to have lost its changes."""


def warn_of_observations(store: EpisodeStore, visible: np.ndarray | None = None) -> Iterator[str]:
    """Sentences on the observation entries that never change, and on those whose changes float32 does not hold.

    Args:
        store: The dataset.
        visible: The indices of the observation entries that the agent sees; None for all.
    """
    layout = Layout.of_space(store.observation_space, "observations")
    entries = np.arange(store.observation_dim) if visible is None else visible
    entries = entries[~layout.categorical[entries]]  # a choice may well never be made
    names = store.entry_names("observations") or layout.names
    mean, std = np.abs(store.observation_mean[entries]), store.observation_std[entries]
    lost = (mean >= UNRESOLVED) & (std < LEVELS * np.spacing(mean.astype(np.float32)))
    expected = store.source.get("constant_entries", ())  # constant in the environment too
    constant = (std == 0) & ~lost & ~np.isin(entries, expected)
    if constant.any():
        yield (
            f"{_named(entries[constant], names)} of the observations never changes in the data; the agent has never "
            "seen another value, so drop this entry if it can change when the agent acts"
        )
    if lost.any():
        yield (
            f"{_named(entries[lost], names)} of the observations is around {mean[lost].max():.3g}, where float32 loses "
            "its changes; subtract the first value, as from a Unix time"
        )


def warn_of_returns(store: EpisodeStore) -> Iterator[str]:
    """A sentence if all episodes have the same return."""
    returns, space = store.episode_returns, store.observation_space
    goals = isinstance(space, Dict) and {REACHED, ASKED} <= set(space.spaces)
    remedy = "--training.goal_relabeling hindsight" if goals else "--condition none, or add other episodes"
    if len(returns) > 1 and np.ptp(returns) <= 1e-6 * np.abs(returns).max():
        yield (
            f"all {len(returns):,} episodes have the return {returns[0]:g}, so a target return carries no information; "
            f"train with {remedy}"
        )


def warn_of_actions(store: EpisodeStore) -> Iterator[str]:
    """A sentence on the box to which actions are scaled, unless it is [-1, 1] and holds all of them."""
    box = store.action_space
    if not isinstance(box, Box):
        return
    outside = share_outside(store.actions, box)
    if (box.low == -1).all() and (box.high == 1).all() and not outside:
        return
    fixed = np.flatnonzero(box.low.ravel() == box.high.ravel())
    origin = ", their range in the data" if store.stated_spaces[1] is None else ""
    alone = (
        f"; {_named(fixed, store.entry_names('actions'))} has a single value and is held at it" if len(fixed) else ""
    )
    clipped = f"; in {outside:.1%} of the steps an action is outside and is clipped" if outside else ""
    yield f"actions are scaled from {box.low.min():.3g} to {box.high.max():.3g}{origin}{alone}{clipped}"


def _named(entries: np.ndarray, names: Sequence[str | None]) -> str:
    """`entry 3 (velocity)`, or `each of the entries 3, 5 (angle) and 12 more`; `names` are those of all entries."""
    listed = [numbered(entry, names) for entry in entries[:SHOWN]]
    if len(entries) == 1:
        return f"entry {listed[0]}"
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return f"each of the entries {', '.join(listed)}{more}"

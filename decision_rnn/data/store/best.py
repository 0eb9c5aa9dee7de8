"""The best episodes of a dataset by return: a store of their own, trained on in place of the whole."""

from fractions import Fraction
from itertools import compress
from pathlib import Path

import numpy as np

from decision_rnn.data.store.cache import BEST, bytes_per_step, check_room, open_or_make
from decision_rnn.data.store.episode_store import EpisodeStore


def best_episodes(name: str, store: EpisodeStore, fraction: float) -> EpisodeStore:
    """The store of that share of the episodes of the dataset `name` that have the highest undiscounted returns.

    A share of the episodes, rounded down, but at least one; of equal returns those that come first. They keep their
    order. With a fraction of 1 it is `store` itself, else one that is made on first use.

    Behaviour cloning on it is filtered behaviour cloning: %BC of Chen et al., "Decision Transformer" (2021), section
    5.1, and `any_percent_bc.py` of CORL. %BC takes a share of the steps, counted along the episodes from the best on,
    so that long episodes make it fewer; CORL takes a share of the episodes as here, but ranks them by the discounted
    return and leaves out a partial one at the end. Here observations are normalised by what is trained on.

    Args:
        name: Of the dataset, its source included.
        store: All of its episodes.
        fraction: Above 0, at most 1.
    """
    if fraction == 1:
        return store
    # By the decimal number that was written: 0.29 * 100 is less than 29 in floating point.
    count = max(1, int(Fraction(repr(float(fraction))) * store.episodes))
    kept = np.zeros(store.episodes, bool)
    kept[np.argsort(-store.episode_returns, kind="stable")[:count]] = True
    source = {"all_episodes": store.fingerprint, "best_fraction": fraction}

    def make(folder: Path) -> EpisodeStore:
        steps = int(store.episode_lengths[kept].sum())
        check_room(folder, steps * bytes_per_step(store.observation_dim, store.action_dim))
        episodes = compress(store.read_episodes(), kept)
        return EpisodeStore.write(folder, episodes, environment_id=store.environment_id, source=source)

    return open_or_make(f"{BEST}/{name}/{store.fingerprint[:16]}-{float(fraction)}", source, make)

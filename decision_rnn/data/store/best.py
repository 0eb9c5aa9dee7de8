"""The best episodes of a dataset by return, as a separate store to train on."""

from fractions import Fraction
from itertools import compress
from pathlib import Path

import numpy as np

from decision_rnn.data.store.cache import BEST, bytes_per_step, check_room, open_or_make
from decision_rnn.data.store.episode_store import EpisodeStore


def best_episodes(name: str, store: EpisodeStore, fraction: float) -> EpisodeStore:
    """The store of the given fraction of a dataset's episodes with the highest undiscounted returns.

    Their number is rounded down, but at least one; of equal returns, earlier episodes are preferred. They keep their
    order. With a fraction of 1 this is `store` itself, otherwise a store that is made on first use.

    Behaviour cloning on it is filtered behaviour cloning: %BC of Chen et al., "Decision Transformer" (2021), section
    5.1, and `any_percent_bc.py` of CORL. %BC takes a fraction of the steps, from the best episode on, so fewer episodes
    if they are long; CORL takes a fraction of the episodes as here, but ranks them by discounted return and leaves out
    a partial last one. Here observations are normalised with the statistics of the selected episodes.

    Args:
        name: The dataset's full name, including its source.
        store: All of its episodes.
        fraction: Above 0, at most 1.
    """
    if fraction == 1:
        return store
    # Exact decimal arithmetic: 0.29 * 100 is less than 29 in floating point.
    count = max(1, int(Fraction(repr(float(fraction))) * store.episodes))
    kept = np.zeros(store.episodes, bool)
    kept[np.argsort(-store.episode_returns, kind="stable")[:count]] = True
    source = {"all_episodes": store.fingerprint, "top_fraction": fraction}

    def make(folder: Path) -> EpisodeStore:
        steps = int(store.episode_lengths[kept].sum())
        check_room(folder, steps * bytes_per_step(store.observation_dim, store.action_dim))
        episodes = compress(store.read_episodes(), kept)
        return EpisodeStore.write(folder, episodes, environment_id=store.environment_id, source=source)

    return open_or_make(f"{BEST}/{name}/{store.fingerprint[:16]}-{float(fraction)}", source, make)

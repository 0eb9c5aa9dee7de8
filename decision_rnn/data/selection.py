"""Some of a store's episodes, as a view of its files: the best ones by return, or the complete ones."""

import hashlib
import io
from fractions import Fraction
from functools import cached_property

import numpy as np

from decision_rnn.data.store import EpisodeStore, fingerprint_of
from decision_rnn.data.writing import FINAL, TABLE, RowSummary, npy_header, summarise
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted


class Selection(EpisodeStore):
    """Some episodes of a store, in its order, end to end; nothing is written.

    Steps, statistics and fingerprint are those of a store written from these episodes; the fingerprint is computed when
    it is first used. `path` and `file` are those of the whole store.
    """

    def __init__(self, store: EpisodeStore, chosen: np.ndarray, note: str | None = None) -> None:
        """Select the episodes where `chosen` (episodes,) bool is true; `note` says which, for readers of scores."""
        self.path, self.file, self.columns = store.path, store.file, store.columns
        self.name = None
        self.environment_id = store.environment_id
        self.observation_dim, self.action_dim = store.observation_dim, store.action_dim
        lengths = store.episode_lengths[chosen]
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.first_rows = store.first_rows[chosen]
        self.terminated, self.truncated = store.terminated[chosen], store.truncated[chosen]
        self.final_observations = store.final_observations[chosen]
        self.episode_returns = store.episode_returns[chosen]
        source = store.manifest["source"]
        notes = [*source.get("notes", []), *([note] if note else [])]
        statistics = summarise(self.episode_returns, lengths, self.terminated, self.truncated)
        self.manifest = {**store.manifest, "source": {**source, "notes": notes}, "statistics": statistics}
        summary = RowSummary(self.columns)
        for rows in self.episode_rows():
            summary.add(self.file[rows])
        self.observation_mean, self.observation_std, self.largest_action = summary.finish()

    @cached_property
    def table(self) -> np.ndarray:
        return np.concatenate([self.file[rows] for rows in self.episode_rows()])

    @cached_property
    def fingerprint(self) -> str:
        header = npy_header(np.float32, (self.steps, self.file.shape[1]))
        table = hashlib.sha256(header)
        for rows in self.episode_rows():
            table.update(self.file[rows])
        size = len(header) + self.steps * self.file.shape[1] * self.file.itemsize
        files = {TABLE: {"bytes": size, "sha256": table.hexdigest()}}
        ends = {"terminated.npy": self.terminated, "truncated.npy": self.truncated}
        for name, array in {"offsets.npy": self.offsets, **ends, FINAL: self.final_observations}.items():
            buffer = io.BytesIO()
            np.save(buffer, array)
            files[name] = {"bytes": buffer.tell(), "sha256": hashlib.sha256(buffer.getvalue()).hexdigest()}
        return fingerprint_of(files)


def top_episodes(store: EpisodeStore, fraction: float) -> EpisodeStore:
    """The given fraction of a store's episodes with the highest undiscounted returns; for 1, `store` itself.

    Their number is rounded down, but at least one; of equal returns, earlier episodes are preferred. They keep their
    order.

    Behaviour cloning on it is filtered behaviour cloning: %BC of Chen et al., "Decision Transformer" (2021), section
    5.1, and `any_percent_bc.py` of CORL. %BC takes a fraction of the steps, from the best episode on, so fewer episodes
    if they are long; CORL takes a fraction of the episodes as here, but ranks them by discounted return and leaves out
    a partial last one. Here observations are normalised with the statistics of the selected episodes.

    Args:
        store: All of the episodes.
        fraction: Above 0, at most 1.
    """
    if fraction == 1:
        return store
    # Exact decimal arithmetic: 0.29 * 100 is less than 29 in floating point.
    count = max(1, int(Fraction(repr(float(fraction))) * store.episodes))
    chosen = np.zeros(store.episodes, bool)
    chosen[np.argsort(-store.episode_returns, kind="stable")[:count]] = True
    return Selection(store, chosen)


def complete_episodes(name: str, store: EpisodeStore) -> EpisodeStore:
    """The episodes of the dataset `name` that terminated or were truncated; if all did, `store` itself.

    Raises InputError if all episodes are partial.
    """
    complete = store.terminated | store.truncated
    if complete.all():
        return store
    if not complete.any():
        raise InputError(
            f"{name} has {counted(store.episodes, 'partial episode')} and no other: --partial drop would leave none"
        )
    dropped, steps = (~complete).sum(), store.episode_lengths[~complete].sum()
    note = f"{dropped} of {counted(store.episodes, 'episode')} ({counted(steps, 'step')}) were partial and are dropped"
    return Selection(store, complete, note)

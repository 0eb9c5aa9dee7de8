"""Replaces hopper-medium by the small shared store, so that no benchmark test collects a million steps."""

import pytest

from decision_rnn.data.catalog import Dataset
from decision_rnn.data.store.episode_store import EpisodeStore


@pytest.fixture
def small_store(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> EpisodeStore:
    """The store that the benchmarks open as hopper-medium."""
    monkeypatch.setattr(Dataset, "open", lambda dataset: store)
    return store

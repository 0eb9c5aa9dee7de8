"""The shared small store in place of hopper-medium, so that no benchmark's test collects a million steps."""

import pytest

from decision_rnn.bench import data, rollout, train
from decision_rnn.data.store.episodes import EpisodeStore


@pytest.fixture
def small_store(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> EpisodeStore:
    """What the benchmarks open as hopper-medium."""
    for module in (data, rollout, train):
        monkeypatch.setattr(module, "open_store", lambda name: store)
    return store

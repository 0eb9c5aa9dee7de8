"""Selections of episodes: the same numbers as a store that is written from these episodes."""

from itertools import compress, pairwise
from pathlib import Path

import numpy as np
import pytest
from batches import assert_same

from decision_rnn.data import stream, writing
from decision_rnn.data.episode import Episode
from decision_rnn.data.selection import Selection, complete_episodes, top_episodes
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.utils.errors import InputError


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics are accumulated over many chunks."""
    monkeypatch.setattr(writing, "CHUNK", 50)


def written(path: Path, episodes: list[Episode]) -> EpisodeStore:
    return EpisodeStore.write(path, episodes, environment_id="Toy-v0", source={"notes": ["one"]})


def made_of(rewards: list[list[float]], path: Path) -> EpisodeStore:
    return written(
        path,
        [
            Episode(np.full((len(r) + 1, 2), i), np.zeros((len(r), 1), np.float32), np.array(r), True, False)
            for i, r in enumerate(rewards)
        ],
    )


def best_by_hand(store: EpisodeStore, count: int) -> list[int]:
    """The episodes with the highest returns, the earliest of equals."""
    returns = [store.rewards[a:b].astype(np.float64).sum() for a, b in pairwise(store.offsets)]
    return sorted(sorted(range(len(returns)), key=lambda i: (-returns[i], i))[:count])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("chosen", [[0, 1, 0, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 1, 0, 1]])
def test_selection_equals_a_store_written_from_its_episodes_bit_for_bit(
    episodes: list[Episode], tmp_path: Path, chosen: list[int]
) -> None:
    whole = written(tmp_path / "whole", [*episodes, *episodes])
    mask = np.array([*chosen, *reversed(chosen)], bool)
    selection, copy = Selection(whole, mask), written(tmp_path / "copy", list(compress([*episodes, *episodes], mask)))
    assert selection.fingerprint == copy.fingerprint != whole.fingerprint
    assert selection.manifest["statistics"] == copy.manifest["statistics"]
    assert (selection.episodes, selection.steps) == (copy.episodes, copy.steps)
    assert selection.largest_action == copy.largest_action
    for name in ("observation_mean", "observation_std", "table", "offsets", "episode_returns"):
        assert np.array_equal(getattr(selection, name), getattr(copy, name)), name
    assert np.array_equal(selection.returns_to_go(), copy.returns_to_go())
    for mine, other in zip(selection.read_episodes(), copy.read_episodes(), strict=True):
        for name in ("observations", "actions", "rewards", "terminated", "truncated"):
            assert np.array_equal(getattr(mine, name), getattr(other, name)), name
    within = Selection(selection, np.arange(selection.episodes) % 2 == 0)
    again = Selection(copy, np.arange(copy.episodes) % 2 == 0)
    assert within.fingerprint == again.fingerprint


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize(("tbptt_segments", "weighting"), [(1, 0.0), (3, 2.0)])
def test_batches_of_a_selection_are_those_of_a_store_written_from_its_episodes(
    episodes: list[Episode],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mapped: bool,
    tbptt_segments: int,
    weighting: float,
) -> None:
    if not mapped:
        monkeypatch.setattr(stream, "MAPPED_BYTES", 100)
    mask = np.array([1, 0, 1, 0, 1], bool)
    whole, copy = written(tmp_path / "whole", episodes), written(tmp_path / "copy", list(compress(episodes, mask)))
    options = {"tbptt_segments": tbptt_segments, "return_weighting": weighting}
    viewed, stored = (StepStream(store, 10, 16, 0, **options) for store in (Selection(whole, mask), copy))
    for _ in range(20):
        assert_same(viewed.sample(), stored.sample())


@pytest.mark.parametrize(("fraction", "count"), [(0.1, 3), (0.99, 29), (0.001, 1), (0.3, 9), (0.7, 21)])
def test_top_episodes_are_those_of_highest_return_whole_and_in_order(
    store: EpisodeStore, fraction: float, count: int
) -> None:
    top, expected = top_episodes(store, fraction), best_by_hand(store, count)
    rows = np.concatenate([store.table[store.offsets[i] : store.offsets[i + 1]] for i in expected])
    assert np.array_equal(top.table, rows)
    assert top.episodes == count
    np.testing.assert_allclose(top.observation_mean, rows[:, top.columns["observation"]].mean(0, np.float64))


def test_top_fraction_counts_episodes_not_steps_and_keeps_the_earlier_of_equal_returns(tmp_path: Path) -> None:
    whole = made_of([[1, 1], [2], [0.5] * 4, [3], [2], [0]], tmp_path / "store")
    top = top_episodes(whole, 0.5)
    assert top.observations[top.offsets[:-1], 0].tolist() == [0, 1, 3]
    hundred = made_of([[float(i)] for i in range(100)], tmp_path / "hundred")
    assert top_episodes(hundred, 0.29).episodes == 29  # 0.29 * 100 is 28.999999999999996 in floating point
    assert top_episodes(hundred, 1.0) is hundred


def test_complete_episodes_leaves_out_partial_ones_and_says_so(episodes: list[Episode], tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", episodes)
    complete = complete_episodes("local/x", whole)
    assert complete.fingerprint == written(tmp_path / "complete", episodes[:-1]).fingerprint
    assert complete.manifest["source"]["notes"] == [
        "one",
        "1 of 5 episodes (25 steps) were partial and are dropped",
    ]
    assert complete_episodes("local/x", complete) is complete
    with pytest.raises(InputError, match="local/x has 1 partial episode and no other"):
        complete_episodes("local/x", written(tmp_path / "partial", episodes[-1:]))

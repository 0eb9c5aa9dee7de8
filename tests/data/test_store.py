"""EpisodeStore: its table, statistics, selections, and the checks of its files."""

from dataclasses import replace
from itertools import compress, pairwise
from pathlib import Path

import numpy as np
import pytest
from batches import assert_same

from decision_rnn.data import stream, writing
from decision_rnn.data.episode import Episode
from decision_rnn.data.store import EpisodeStore, complete_episodes, top_episodes
from decision_rnn.data.stream import StepStream
from decision_rnn.utils.errors import InputError


@pytest.fixture
def store(episodes: list[Episode], tmp_path: Path) -> EpisodeStore:
    return EpisodeStore.write(tmp_path / "store", episodes, environment_id="Toy-v0", source={"from": "noise"})


def test_table_rows_hold_the_columns_of_each_step(store: EpisodeStore, episodes: list[Episode]) -> None:
    row = 0
    for episode in episodes:
        for t in range(len(episode.rewards)):
            expected = np.concatenate(
                [
                    [sum(float(r) for r in episode.rewards[t:])],
                    episode.observations[t],
                    episode.actions[t - 1] if t > 0 else np.zeros(2),
                    episode.actions[t],
                    [episode.rewards[t], t, t == 0],
                ]
            )
            np.testing.assert_allclose(store.table[row], expected, rtol=1e-6, atol=1e-6)
            row += 1
    assert store.steps == row == 85
    assert store.table.dtype == np.float32


def test_returns_to_go_are_summed_in_float64(tmp_path: Path) -> None:
    length = 1000
    rewards = np.random.default_rng(1).uniform(2, 4, length)
    episode = Episode(np.zeros((length + 1, 1)), np.zeros((length, 1)), rewards, False, True)
    store = EpisodeStore.write(tmp_path / "store", [episode], environment_id="Toy-v0", source={})
    exact = [sum(rewards[t:].tolist()) for t in range(length)]
    np.testing.assert_array_equal(store.table[:, 0], np.array(exact).astype(np.float32))


def test_store_views_offsets_ends_and_final_observations(store: EpisodeStore, episodes: list[Episode]) -> None:
    assert len(store) == store.num_episodes == len(episodes)
    np.testing.assert_array_equal(store[-1].rewards, episodes[-1].rewards)
    with pytest.raises(IndexError):
        store[5]
    assert store.offsets.tolist() == [0, 1, 8, 48, 60, 85]
    assert store.episode_lengths.tolist() == [1, 7, 40, 12, 25]
    assert store.terminated.tolist() == [True, True, False, True, False]
    assert store.truncated.tolist() == [False, False, True, True, False]
    assert (store.observation_dim, store.action_dim) == (4, 2)
    assert store.environment_id == "Toy-v0"
    assert store.source == {"from": "noise"}
    np.testing.assert_allclose(store.final_observations, [e.observations[-1] for e in episodes], rtol=1e-6)
    np.testing.assert_allclose(store.observations, np.concatenate([e.observations[:-1] for e in episodes]), rtol=1e-6)
    np.testing.assert_array_equal(store.actions, np.concatenate([e.actions for e in episodes]))
    np.testing.assert_allclose(store.rewards, np.concatenate([e.rewards for e in episodes]), rtol=1e-6)
    np.testing.assert_allclose(store.episode_returns, [e.rewards.sum() for e in episodes], rtol=1e-5)
    assert store.episode_returns.dtype == np.float64
    store.table[:] = 0
    assert EpisodeStore.open(store.path).table.any()  # the file is unchanged


def test_store_statistics_equal_those_of_numpy(store: EpisodeStore, episodes: list[Episode]) -> None:
    observations = np.concatenate([e.observations[:-1] for e in episodes])
    np.testing.assert_allclose(store.observation_mean, observations.mean(0), rtol=1e-6)
    np.testing.assert_allclose(store.observation_std, observations.std(0), rtol=1e-6)
    returns = [e.rewards.sum() for e in episodes]
    statistics = store.statistics
    assert statistics["return_mean"] == pytest.approx(np.mean(returns), rel=1e-5)
    assert statistics["return_sd"] == pytest.approx(np.std(returns), rel=1e-5)
    assert statistics["return_p90"] == pytest.approx(np.percentile(returns, 90), rel=1e-5)
    assert (statistics["length_mean"], statistics["length_min"]) == (17, 1)


def test_store_fingerprint_depends_only_on_the_contents(episodes: list[Episode], tmp_path: Path) -> None:
    def fingerprint(name: str, content: list[Episode]) -> str:
        return EpisodeStore.write(tmp_path / name, content, environment_id="Toy-v0", source={"name": name}).fingerprint

    assert fingerprint("a", episodes) == fingerprint("b", episodes)
    assert fingerprint("c", episodes[:-1]) != fingerprint("b", episodes)
    ended = [*episodes[:-1], replace(episodes[-1], truncated=True)]
    assert fingerprint("d", ended) != fingerprint("b", episodes)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rewards": np.zeros(0)}, r"rewards.*\(0,\)"),
        ({"actions": np.zeros((6, 2))}, r"actions.*\(6, 2\)"),
        ({"observations": np.zeros((7, 4))}, r"observations.*\(7, 4\)"),
        ({"rewards": np.zeros((7, 1))}, r"rewards.*\(7, 1\)"),
        ({"observations": np.full((8, 4), np.nan)}, "observations"),
        ({"rewards": np.full(7, 1e39)}, "rewards"),
        ({"actions": np.zeros((7, 3))}, r"\(7, 3\)"),
    ],
)
def test_invalid_episode_raises_naming_its_index(
    episodes: list[Episode], tmp_path: Path, change: dict[str, np.ndarray], complaint: str
) -> None:
    episodes[1] = replace(episodes[1], **change)
    with pytest.raises(InputError, match=f"episode 1 .*{complaint}"):
        EpisodeStore.write(tmp_path / "store", episodes, environment_id="Toy-v0", source={})
    with pytest.raises(InputError, match="no episodes"):
        EpisodeStore.write(tmp_path / "store", [], environment_id="Toy-v0", source={})
    assert list(tmp_path.iterdir()) == []


def test_store_written_from_a_store_has_the_same_fingerprint(
    store: EpisodeStore, episodes: list[Episode], tmp_path: Path
) -> None:
    for ours, given in zip(store, episodes, strict=True):
        np.testing.assert_array_equal(ours.rewards, given.rewards)
        np.testing.assert_array_equal(ours.observations, given.observations.astype(np.float32))
        np.testing.assert_array_equal(ours.actions, given.actions)
        assert (ours.terminated, ours.truncated) == (given.terminated, given.truncated)
    again = EpisodeStore.write(tmp_path / "again", store, environment_id="Toy-v0", source={})
    assert again.fingerprint == store.fingerprint


@pytest.mark.parametrize("name", ["steps.npy", "rewards.npy", "manifest.json"])
def test_open_detects_a_truncated_and_a_missing_file(store: EpisodeStore, name: str) -> None:
    file = store.path / name
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InputError, match=name):
        EpisodeStore.open(store.path)
    file.unlink()
    with pytest.raises(InputError, match=name):
        EpisodeStore.open(store.path)


def test_verify_detects_a_flipped_bit_in_every_file(store: EpisodeStore) -> None:
    store.verify()
    for name in store.manifest["files"]:
        file = store.path / name
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(InputError, match=name):
            store.verify()
        file.write_bytes(whole)
    assert len(store.manifest["files"]) == 7


def test_manifest_of_another_format_or_kind_raises(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decision_rnn.data.store.FORMAT", 99)
    with pytest.raises(InputError, match=r"manifest\.json .*99"):
        EpisodeStore.open(store.path)
    for text in ("", "[]", "7", "{}", "\x00\xff"):
        (store.path / "manifest.json").write_text(text)
        with pytest.raises(InputError, match=r"manifest\.json"):
            EpisodeStore.open(store.path)


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


@pytest.mark.parametrize("chosen", [[0, 1, 0, 1, 1], [0, 0, 1, 0, 0]])
def test_selection_equals_a_store_written_from_its_episodes(
    episodes: list[Episode], tmp_path: Path, chosen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "CHUNK", 50)  # statistics are accumulated over many chunks
    whole = written(tmp_path / "whole", [*episodes, *episodes])
    mask = np.array([*chosen, *reversed(chosen)], bool)
    selection, copy = whole.select(mask), written(tmp_path / "copy", list(compress([*episodes, *episodes], mask)))
    assert len({selection.fingerprint, copy.fingerprint, whole.fingerprint, whole.select(~mask).fingerprint}) == 4
    assert whole.select(mask).fingerprint == selection.fingerprint
    assert selection.statistics == copy.statistics
    assert (len(selection), selection.steps) == (len(copy), copy.steps)
    for name in ("observation_mean", "observation_std", "table", "offsets", "episode_returns"):
        assert np.array_equal(getattr(selection, name), getattr(copy, name)), name
    for mine, other in zip(selection, copy, strict=True):
        for name in ("observations", "actions", "rewards", "terminated", "truncated"):
            assert np.array_equal(getattr(mine, name), getattr(other, name)), name
    within, again = (store.select(np.arange(len(store)) % 2 == 0) for store in (selection, copy))
    assert np.array_equal(within.table, again.table)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize(("tbptt_segments", "weighting"), [(1, 0.0), (3, 2.0)])
def test_batches_of_a_selection_are_those_of_a_written_store(
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
    viewed, stored = (StepStream(store, 10, 16, 0, **options) for store in (whole.select(mask), copy))
    for _ in range(20):
        assert_same(viewed.sample(), stored.sample())


@pytest.mark.parametrize(("fraction", "count"), [(0.4, 2), (0.99, 4), (0.001, 1), (0.6, 3)])
def test_top_episodes_have_the_highest_returns_in_order(store: EpisodeStore, fraction: float, count: int) -> None:
    top, expected = top_episodes(store, fraction), best_by_hand(store, count)
    rows = np.concatenate([store.table[store.offsets[i] : store.offsets[i + 1]] for i in expected])
    assert np.array_equal(top.table, rows)
    assert len(top) == count
    np.testing.assert_allclose(top.observation_mean, rows[:, top.columns["observation"]].mean(0, np.float64))


def test_top_fraction_counts_episodes_not_steps(tmp_path: Path) -> None:
    whole = made_of([[1, 1], [2], [0.5] * 4, [3], [2], [0]], tmp_path / "store")
    top = top_episodes(whole, 0.5)
    assert top.observations[top.offsets[:-1], 0].tolist() == [0, 1, 3]
    hundred = made_of([[float(i)] for i in range(100)], tmp_path / "hundred")
    assert len(top_episodes(hundred, 0.29)) == 29  # 0.29 * 100 is 28.999999999999996 in floating point
    assert top_episodes(hundred, 1.0) is hundred


def test_complete_episodes_leave_out_partial_ones(episodes: list[Episode], tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", episodes)
    complete = complete_episodes(whole)
    assert np.array_equal(complete.table, written(tmp_path / "complete", episodes[:-1]).table)
    assert complete.source["notes"] == [
        "one",
        "1 of 5 episodes (25 steps) were partial and are dropped",
    ]
    assert complete_episodes(complete) is complete
    with pytest.raises(InputError, match="partial"):
        complete_episodes(written(tmp_path / "partial", episodes[-1:]))

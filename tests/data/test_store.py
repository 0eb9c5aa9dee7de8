"""EpisodeStore: its table, statistics, selections, and the checks of its files."""

import errno
import json
import pickle
from copy import deepcopy
from dataclasses import replace
from itertools import compress
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from data_files import Payload, assert_equal, assert_same, written

from decision_rnn.data import stream, writing
from decision_rnn.data.cache import sha256_of
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.sources.local import write_store
from decision_rnn.data.store import EpisodeStore, complete_episodes, open_or_make, top_episodes
from decision_rnn.data.stream import StepStream
from decision_rnn.environments.episode import Episode
from decision_rnn.utils.errors import InputError


@pytest.fixture
def store(episodes: list[Episode], tmp_path: Path) -> EpisodeStore:
    return written(tmp_path / "store", episodes)


def test_returns_to_go_are_summed_in_float64(tmp_path: Path) -> None:
    rewards = np.random.default_rng(1).uniform(2, 4, 1000)
    store = written(tmp_path / "store", [Episode(np.zeros((1001, 1)), np.zeros((1000, 1)), rewards, False, True)])
    exact = [sum(rewards[t:].tolist()) for t in range(1000)]
    np.testing.assert_array_equal(store.table[:, 0], np.array(exact).astype(np.float32))


def test_store_reads_back_as_its_episodes(store: EpisodeStore, episodes: list[Episode], tmp_path: Path) -> None:
    assert_equal(store, episodes)
    assert len(store) == store.num_episodes == len(episodes)
    np.testing.assert_array_equal(store[-1].rewards, episodes[-1].rewards)
    with pytest.raises(IndexError):
        store[5]
    assert store.offsets.tolist() == [0, 1, 8, 48, 60, 85]
    assert (store.observation_dim, store.action_dim, store.environment_id) == (4, 2, "Hopper-v5")
    np.testing.assert_array_equal(store.observations, np.concatenate([e.observations[:-1] for e in episodes]))
    np.testing.assert_array_equal(store.actions, np.concatenate([e.actions for e in episodes]))
    np.testing.assert_allclose(store.episode_returns, [e.rewards.sum() for e in episodes], rtol=1e-5)
    assert written(tmp_path / "again", list(store)).fingerprint == store.fingerprint
    store.table[:] = 0
    assert_equal(EpisodeStore.open(store.path), episodes)  # the file is unchanged
    for number, content in enumerate((episodes[:-1], [*episodes[:-1], replace(episodes[-1], truncated=True)])):
        assert written(tmp_path / str(number), content).fingerprint != store.fingerprint


def test_store_can_be_pickled_and_copied(store: EpisodeStore, episodes: list[Episode]) -> None:
    for again in (pickle.loads(pickle.dumps(store)), deepcopy(store)):
        assert_equal(again, episodes)
        np.testing.assert_array_equal(again.map_file(), store.table)


def test_store_statistics_equal_those_of_numpy(store: EpisodeStore, episodes: list[Episode]) -> None:
    observations = np.concatenate([e.observations[:-1] for e in episodes])
    np.testing.assert_allclose(store.observation_mean, observations.mean(0), rtol=1e-6)
    np.testing.assert_allclose(store.observation_std, observations.std(0), rtol=1e-6)
    returns, statistics = [e.rewards.sum() for e in episodes], store.statistics
    assert statistics["return_mean"] == pytest.approx(np.mean(returns), rel=1e-5)
    assert statistics["return_sd"] == pytest.approx(np.std(returns), rel=1e-5)
    assert (statistics["length_mean"], statistics["length_min"]) == (17, 1)


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
        ({"rewards": np.array([None] * 7)}, "rewards"),
        ({"observations": {"a": 1}}, "observations"),
        ({"observations": np.zeros((8, 4), complex)}, "complex"),
        ({"observations": [[0.0, 1.0], [0.0]]}, "Episode"),
        ({"terminated": []}, "Episode"),
    ],
)
def test_invalid_episode_raises_naming_its_index(
    episodes: list[Episode], tmp_path: Path, change: dict[str, np.ndarray], complaint: str
) -> None:
    episodes[1] = replace(episodes[1], **change)
    with pytest.raises(InputError, match=f"episode 1 .*{complaint}"):
        written(tmp_path / "store", episodes)
    assert list(tmp_path.iterdir()) == []


def test_open_detects_damaged_files(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(store.manifest["files"]) == 7
    for name in store.manifest["files"]:
        file = store.path / name
        content = file.read_bytes()
        file.write_bytes(content[:-5])
        with pytest.raises(InputError, match=name):
            EpisodeStore.open(store.path)
        file.write_bytes(content)
    monkeypatch.setattr("decision_rnn.data.store.FORMAT", 99)
    with pytest.raises(InputError, match=r"manifest\.json .*99"):
        EpisodeStore.open(store.path)
    for text in ("", "[]", "{}", "\x00\xff"):
        (store.path / "manifest.json").write_text(text)
        with pytest.raises(InputError, match=r"manifest\.json"):
            EpisodeStore.open(store.path)


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "files"), PermissionError(errno.EACCES, "a"), MemoryError()])
def test_cached_store_that_cannot_be_opened_now_is_kept(
    folders: Path, episodes: list[Episode], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    made = open_or_make("toy", lambda source: True, lambda path: written(path, episodes))
    make = Mock(side_effect=AssertionError)
    for reader in ("numpy.load", "pathlib.Path.read_bytes"):
        with monkeypatch.context() as patch, pytest.raises((InputError, type(error))):
            patch.setattr(reader, Mock(side_effect=error))
            open_or_make("toy", lambda source: True, make)
    assert_equal(open_or_make("toy", lambda source: True, make), made)


@pytest.mark.parametrize("name", ["manifest.json", "steps.npy"])
@pytest.mark.parametrize("content", [b"", None], ids=["empty", "missing"])
def test_damaged_cached_store_is_made_again(
    folders: Path, episodes: list[Episode], name: str, content: bytes | None, capfd: pytest.CaptureFixture[str]
) -> None:
    file = open_or_make("toy", lambda source: True, lambda path: written(path, episodes)).path / name
    file.unlink() if content is None else file.write_bytes(content)
    assert_equal(open_or_make("toy", lambda source: True, lambda path: written(path, episodes)), episodes)
    assert name in capfd.readouterr().err


def test_forged_store_raises_and_no_pickle_is_loaded(folders: Path, episodes: list[Episode]) -> None:
    """Its manifest has the sizes and hashes of the forged files, or lacks a key."""
    path, payload = write_store("local/forged", episodes).path, Payload(folders / "mark")
    manifest, file = json.loads((path / "manifest.json").read_text()), path / "manifest.json"
    for key in ("environment_id", "observation_dim", "spaces", "files", "format"):
        file.write_text(json.dumps({name: value for name, value in manifest.items() if name != key}))
        with pytest.raises(InputError, match="local/forged"):
            open_dataset("local/forged")
    for name in manifest["files"]:
        np.save(path / name, np.array([payload], object), allow_pickle=True)
        forged = {"bytes": (path / name).stat().st_size, "sha256": sha256_of(path / name)}
        file.write_text(json.dumps(manifest | {"files": manifest["files"] | {name: forged}}))
        with pytest.raises(InputError, match="local/forged"):
            list(open_dataset("local/forged").store)
    assert not payload.mark.exists()


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
    for name in ("observation_mean", "observation_std", "table", "offsets", "episode_returns", "steps"):
        assert np.array_equal(getattr(selection, name), getattr(copy, name)), name
    np.testing.assert_array_equal(selection.returns_to_go(), copy.returns_to_go())
    assert_equal(selection, copy)
    within, again = (store.select(np.arange(len(store)) % 2 == 0) for store in (selection, copy))
    assert np.array_equal(within.table, again.table)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("tbptt_segments", [1, 3])
def test_batches_of_a_selection_are_those_of_a_written_store(
    episodes: list[Episode],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mapped: bool,
    tbptt_segments: int,
) -> None:
    mask = np.array([1, 0, 1, 0, 1], bool)
    whole, copy = written(tmp_path / "whole", episodes), written(tmp_path / "copy", list(compress(episodes, mask)))
    options = {"tbptt_segments": tbptt_segments}
    stored = StepStream(copy, 10, 16, 0, **options)
    if not mapped:
        monkeypatch.setattr(stream, "MAPPED_BYTES", 100)
    viewed = StepStream(whole.select(mask), 10, 16, 0, **options)
    again = StepStream(copy, 10, 16, 0, **options)
    for _ in range(20):
        batch = stored.sample()
        assert_same(viewed.sample(), batch)
        assert_same(again.sample(), batch)


def made_of(rewards: list[list[float]], path: Path) -> EpisodeStore:
    return written(
        path,
        [
            Episode(np.full((len(r) + 1, 2), i), np.zeros((len(r), 1), np.float32), np.array(r), True, False)
            for i, r in enumerate(rewards)
        ],
    )


def test_top_episodes_have_the_highest_returns_in_order(tmp_path: Path) -> None:
    """A fraction of the episodes, not of the steps; the earliest of equals."""
    store = made_of([[1, 1], [2], [0.5] * 4, [3], [2], [0]], tmp_path / "store")
    for fraction, expected in ((0.5, [0, 1, 3]), (0.99, [0, 1, 2, 3, 4]), (0.001, [3]), (0.35, [0, 3])):
        top = top_episodes(store, fraction)
        assert top.observations[top.offsets[:-1], 0].tolist() == expected
        rows = np.concatenate([store.table[store.offsets[i] : store.offsets[i + 1]] for i in expected])
        np.testing.assert_array_equal(top.table, rows)
        np.testing.assert_allclose(top.observation_mean, rows[:, top.columns["observation"]].mean(0, np.float64))
    hundred = made_of([[float(i)] for i in range(100)], tmp_path / "hundred")
    assert len(top_episodes(hundred, 0.29)) == 29  # 0.29 * 100 is 28.999999999999996 in floating point
    assert top_episodes(hundred, 1.0) is hundred


def test_complete_episodes_leave_out_partial_ones(store: EpisodeStore, episodes: list[Episode], tmp_path: Path) -> None:
    complete = complete_episodes(store)
    assert_equal(complete, episodes[:-1])
    assert complete.source["notes"] == ["one", "1 of 5 episodes (25 steps) were partial and are dropped"]
    assert complete_episodes(complete) is complete
    with pytest.raises(InputError, match="none"):
        complete_episodes(written(tmp_path / "partial", episodes[-1:]))

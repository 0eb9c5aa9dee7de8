from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decision_rnn.data.episode import Episode
from decision_rnn.data.store import EpisodeStore, cache_root
from decision_rnn.utils.errors import InputError


@pytest.fixture
def store(episodes: list[Episode], tmp_path: Path) -> EpisodeStore:
    return EpisodeStore.write(tmp_path / "store", episodes, environment_id="Toy-v0", source={"from": "noise"})


def test_store_table_rows_hold_the_columns_of_each_step(store: EpisodeStore, episodes: list[Episode]) -> None:
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
    assert store.num_episodes == len(episodes)
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
    assert (statistics["terminated"], statistics["truncated"], statistics["episodes"]) == (3, 2, 5)
    assert (statistics["steps"], statistics["length_mean"]) == (85, 17)


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
        ({"rewards": np.zeros(0)}, r"rewards \(0,\).*at least one step"),
        ({"actions": np.zeros((6, 2))}, r"actions \(6, 2\)"),
        ({"observations": np.zeros((7, 4))}, r"observations of shape \(7, 4\)"),
        ({"rewards": np.zeros((7, 1))}, r"rewards \(7, 1\)"),
        ({"observations": np.full((8, 4), np.nan)}, "observations that are not finite"),
        ({"rewards": np.full(7, 1e39)}, "rewards that are not finite"),
        ({"actions": np.zeros((7, 3))}, "from one environment"),
    ],
)
def test_store_write_with_invalid_episode_raises_naming_its_index(
    episodes: list[Episode], tmp_path: Path, change: dict[str, np.ndarray], complaint: str
) -> None:
    episodes[1] = replace(episodes[1], **change)
    with pytest.raises(InputError, match=f"episode 1 .*{complaint}"):
        EpisodeStore.write(tmp_path / "store", episodes, environment_id="Toy-v0", source={})
    with pytest.raises(InputError, match="no episodes"):
        EpisodeStore.write(tmp_path / "store", [], environment_id="Toy-v0", source={})
    assert list(tmp_path.iterdir()) == []


def test_store_written_from_its_own_episodes_has_the_same_fingerprint(
    store: EpisodeStore, episodes: list[Episode], tmp_path: Path
) -> None:
    for ours, given in zip(store, episodes, strict=True):
        np.testing.assert_array_equal(ours.rewards, given.rewards)
        np.testing.assert_array_equal(ours.observations, given.observations.astype(np.float32))
        np.testing.assert_array_equal(ours.actions, given.actions)
        assert (ours.terminated, ours.truncated) == (given.terminated, given.truncated)
    again = EpisodeStore.write(tmp_path / "again", store, environment_id="Toy-v0", source={})
    assert again.fingerprint == store.fingerprint


COLUMNS = ["offsets", "terminated", "truncated", "final_observations", "rewards", "returns"]
FILES = ["steps.npy", *(f"{name}.npy" for name in COLUMNS)]


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_store_open_detects_a_flipped_bit_a_truncated_and_a_missing_file(store: EpisodeStore, name: str) -> None:
    file = store.path / name
    whole = file.read_bytes()
    damaged = [whole[:-5]]
    for position in (0, len(whole) // 3, len(whole) - 2):
        damaged.append(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
    for content in damaged:
        file.write_bytes(content)
        with pytest.raises(InputError, match=f"{name}.*delete the folder"):
            EpisodeStore.open(store.path)
    file.unlink()
    with pytest.raises(InputError, match=f"{name} does not exist"):
        EpisodeStore.open(store.path)


def test_store_open_with_another_manifest_raises(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decision_rnn.data.store.FORMAT", 99)
    with pytest.raises(InputError, match="format 3, not 99"):
        EpisodeStore.open(store.path)
    for text in ("", "[]", "7", "null", "{}", "\x00\xff"):
        (store.path / "manifest.json").write_text(text)
        with pytest.raises(InputError, match=r"manifest\.json is not the manifest"):
            EpisodeStore.open(store.path)


def test_cache_root_follows_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECISION_RNN_CACHE", "/somewhere/else")
    assert cache_root() == Path("/somewhere/else")
    monkeypatch.delenv("DECISION_RNN_CACHE")
    assert cache_root() == Path.home() / ".cache" / "decision_rnn"

"""Held-out episodes outside the range of the training data: faults planted in a log of flights are named, and splits
of one source are not reported."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import gymnasium
import numpy as np
import pytest

from decision_rnn import write_store
from decision_rnn.data.info import warn_of_shift
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.episode import Episode

NAMES = {"observations": ["height", "q_w", "q_z", "battery"], "actions": ["thrust", "yaw"]}


def flight(generator: np.random.Generator) -> Episode:
    """A flight that hardly turns, with saturated thrust, and a battery that is never changed."""
    height, turn = np.cumsum(generator.normal(size=101)), 0.02 * generator.normal(size=101)
    observations = np.stack([height, np.cos(turn), np.sin(turn), np.full(101, 11.1)], axis=1)
    actions = np.stack([np.clip(-height[:-1], -1, 1), np.clip(generator.normal(size=100), -1, 1)], axis=1)
    return Episode(observations, actions, np.zeros(100), False, True)


def hopping(generator: np.random.Generator) -> Episode:
    """An episode of Hopper under a noisy policy."""
    environment = gymnasium.make("Hopper-v5").unwrapped
    observations, actions = [environment.reset(seed=int(generator.integers(1 << 30)))[0]], []
    done = False
    while not done and len(actions) < 100:
        actions.append(np.clip(generator.normal(0.2, 0.5, 3), -1, 1))
        observation, _, done, _, _ = environment.step(actions[-1])
        observations.append(observation)
    return Episode(np.stack(observations), np.stack(actions), np.zeros(len(actions)), done, not done)


Split = Callable[..., tuple[EpisodeStore, EpisodeStore]]


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Writes 20 training and 5 held-out episodes of a source; `plant` changes the held-out ones."""

    def stores(source: Callable[..., Episode], seed: int = 0, plant: Any = None) -> Any:
        generator = np.random.default_rng(seed)
        episodes = [source(generator) for _ in range(25)]
        if plant:
            plant(episodes[20:])
        options = {"environment_id": None, "source": {"columns": NAMES}}
        where = tmp_path / f"{source.__name__}-{seed}"
        return [EpisodeStore.write(where / k, e, **options) for k, e in (("a", episodes[:20]), ("b", episodes[20:]))]

    return stores


@pytest.mark.parametrize("source", [flight, hopping])
def test_splits_of_one_source_are_not_reported(split: Split, source: Callable[..., Episode]) -> None:
    for seed in range(3):
        assert list(warn_of_shift(*split(source, seed))) == []


def test_quaternion_of_the_other_sign(split: Split) -> None:
    def flip(episodes: list[Episode]) -> None:
        episodes[3].observations[:, 1:3] *= -1

    store, held_out = split(flight, plant=flip)
    (sentence,) = warn_of_shift(store, held_out)
    low, std = store.observations[:, 1].min(), store.observations[:, 1].std(dtype=np.float64)
    expected = (low - held_out.observations[:, 1].min()) / std
    assert expected > 1000
    assert all(word in sentence for word in ("1 (q_w)", "20.0%", f"{expected:,.1f}", "episodes 3"))


def test_constant_that_changes(split: Split) -> None:
    def change(episodes: list[Episode]) -> None:
        episodes[0].observations[:, 3] = 11.2

    (sentence,) = warn_of_shift(*split(flight, plant=change))
    assert "3 (battery)" in sentence
    assert "11.1" in sentence


def test_five_entries_have_a_sentence_each_and_one_names_the_rest(tmp_path: Path) -> None:
    random, parts = np.random.default_rng(0), []
    for name, shift in (("a", 0), ("b", 50)):
        observations = random.normal(size=(51, 8)) + shift
        episode = Episode(observations, random.uniform(-1, 1, (50, 1)).round(1), np.zeros(50), False, True)
        parts.append(EpisodeStore.write(tmp_path / name, [episode], environment_id=None, source={}))
    sentences = [sentence for sentence in warn_of_shift(*parts) if "observations" in sentence]
    assert [sentence.partition(" is ")[0].count(",") for sentence in sentences] == [0, 0, 0, 0, 0, 2]


def test_actions_beyond_the_box(split: Split) -> None:
    def strengthen(episodes: list[Episode]) -> None:
        for episode in episodes[1:3]:
            episode.actions[:, 1] *= 1.6

    store, held_out = split(flight, plant=strengthen)
    (sentence,) = warn_of_shift(store, held_out)
    assert f"{np.mean(np.abs(held_out.actions[:, 1]) > 1):.1%}" in sentence
    assert "--action_high" in sentence


def test_actions_in_another_unit(split: Split) -> None:
    def in_radians(episodes: list[Episode]) -> None:
        for episode in episodes:
            episode.actions[:] = np.radians(episode.actions)

    (sentence,) = warn_of_shift(*split(flight, plant=in_radians))
    assert all(word in sentence for word in ("0 (thrust), 1 (yaw)", "unit"))


def test_commands_report_shifts(inline_cli: Callable[..., "CompletedProcess[str]"], folders: Path) -> None:
    generator = np.random.default_rng(0)
    episodes = [flight(generator) for _ in range(25)]
    episodes[22].observations[:, 1:3] *= -1
    for name, part in (("log", episodes[:20]), ("held-out", episodes[20:]), ("alike", episodes[:5])):
        write_store(f"local/{name}", part, columns=NAMES)
    small = ("--backbone.width", "8", "--training.steps", "1")
    held_out, alike = ("--validation", "local/held-out"), ("--validation", "local/alike")
    printed = inline_cli("data", "info", "local/log", *held_out).stdout
    assert "1 (q_w)" in printed
    assert "episodes 2" in printed
    assert "1 (q_w)" not in inline_cli("data", "info", "local/log", *alike).stdout
    assert "1 (q_w)" in inline_cli("train", "local/log", *held_out, *small, "--output", "run").stderr
    assert "1 (q_w)" not in inline_cli("train", "local/log", *alike, *small, "--output", "other").stderr
    runs = ("--backbones", "mlp", "--controls", "none", "--seeds", "1", "--print_commands")
    assert "1 (q_w)" in inline_cli("compare", "local/log", *held_out, *small, *runs, "--output", "compared").stderr


def test_episodes_that_are_trained_on_too_are_reported(tmp_path: Path) -> None:
    episodes = [flight(np.random.default_rng(seed)) for seed in range(10)]
    options: Any = {"environment_id": None, "source": {}}
    store = EpisodeStore.write(tmp_path / "all", episodes, **options)
    held_out = EpisodeStore.write(tmp_path / "held-out", [*episodes[6:9], flight(np.random.default_rng(10))], **options)
    assert "3 of 4 held-out episodes" in next(warn_of_shift(store, held_out))
    assert not any("held-out episodes" in sentence for sentence in warn_of_shift(store.select(slice(6)), held_out))

"""Collecting a recipe's dataset: on any number of processes, after a kill, and in two processes at once."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box

import decision_rnn
from decision_rnn.data.collect import collect, open_or_collect
from decision_rnn.data.episode import Episode
from decision_rnn.data.store import FORMAT, EpisodeStore
from decision_rnn.environments.recipe import Recipe
from decision_rnn.utils.errors import EnvironmentFailure


@dataclass(frozen=True, kw_only=True)
class ToyRecipe(Recipe):
    """Episodes of random lengths, each of which leaves a mark in the working folder when it is played."""

    chunk = 4
    pause: float = 0.0

    def player(self) -> Callable[[int], Episode]:
        def play(index: int) -> Episode:
            time.sleep(self.pause)
            with Path("played").open("a") as file:
                file.write(f"{index}\n")
            generator = np.random.default_rng(index)
            length = int(generator.integers(1, 9))
            values = generator.normal(size=(length + 1, 3))
            return Episode(values, np.tanh(values[1:, :2]).astype(np.float32), values[1:, 2], index % 2 == 0, False)

        return play


SPACES = Box(-np.inf, np.inf, (3,)), Box(-1.0, 1.0, (2,))
TOY = ToyRecipe(name="toy/1", environment_id="CartPole-v1", episodes=22)


def assert_same(one: Episode, other: Episode) -> None:
    for key, value in vars(one).items():
        np.testing.assert_array_equal(value, getattr(other, key))
        assert getattr(value, "dtype", None) == getattr(getattr(other, key), "dtype", None)


@pytest.mark.parametrize(
    ("recipe", "count"),
    [(TOY, 22), (replace(TOY, episodes=3, first_episode=7), 3), (replace(TOY, episodes=None, steps=50), None)],
)
def test_episodes_are_the_same_for_any_number_of_processes(
    recipe: ToyRecipe, count: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (one := tmp_path / "one").mkdir()
    (two := tmp_path / "two").mkdir()
    episodes = list(collect(recipe, one, False, 1))
    play = recipe.player()
    for index, episode in enumerate(episodes):
        assert_same(episode, play(recipe.first_episode + index))
    (tmp_path / "played").write_text("")
    loaded = list(collect(recipe, one, False, 2))
    assert recipe.episodes is None or (tmp_path / "played").read_text() == ""  # all were saved
    for others in (list(collect(recipe, two, False, 2)), loaded):
        for episode, other in zip(episodes, others, strict=True):
            assert_same(episode, other)
    lengths = [len(episode.rewards) for episode in episodes]
    assert len(episodes) == count if count else sum(lengths[:-1]) < 50 <= sum(lengths)


def test_worker_that_fails_or_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(KeyError, match="no such player"):
        patch.setattr(ToyRecipe, "player", lambda recipe: {}["no such player"])
        list(collect(TOY, tmp_path, False, 1))
    episodes = collect(replace(TOY, episodes=10**6), tmp_path, False, 1)
    next(episodes)
    (worker,) = multiprocessing.active_children()
    worker.kill()
    with pytest.raises(EnvironmentFailure, match="a process that collects episodes has died"):
        list(episodes)


def test_store_is_made_again_only_by_another_recipe(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folders)
    for recipe, made in [(TOY, 22), (replace(TOY), 0), (replace(TOY, version=2), 22), (replace(TOY, episodes=5), 5)]:
        (folders / "played").write_text("")
        store = open_or_collect(recipe, SPACES)
        assert len((folders / "played").read_text().split()) == made
        assert ("making it again" in capfd.readouterr().err) == (made and recipe != TOY)
        assert store.num_episodes == recipe.episodes
        assert store.source["recipe"] == recipe.describe()
        assert store.source["versions"]["numpy"] == np.__version__


# Opens a dataset in a process of its own; each episode takes a while and leaves a mark.
SCRIPT = """
import sys
from dataclasses import replace
from decision_rnn.data.collect import open_or_collect
from test_collect import SPACES, TOY
print(open_or_collect(replace(TOY, episodes=40, pause=0.05), SPACES).fingerprint)
"""


def start(folder: Path, code: str = SCRIPT) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    settings = {"DECISION_RNN_CACHE": str(folder / "cache"), "HOME": str(folder)}
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(decision_rnn.__file__).parents[1]), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **settings, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_killed_process_is_gone_on_from(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process, unfinished = start(killed), killed / "cache" / "unfinished" / "toy" / "1"
    while len(list(unfinished.glob("*/*.npz"))) < 3:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    time.sleep(1)  # its workers end with it
    chunks = list(unfinished.glob("*/*.npz"))
    assert 3 <= len(chunks) < 10
    assert not (killed / "cache" / f"stores-{FORMAT}" / "toy" / "1").exists()
    chunks[0].write_bytes(chunks[0].read_bytes()[:-100])  # as on a file system that loses the end of a file
    (killed / "played").write_text("")

    again, uninterrupted = start(killed), start(whole)
    outputs = [process.communicate() for process in (again, uninterrupted)]
    assert ["interrupted" in error for _, error in outputs] == [True, False]
    assert outputs[0][0] == outputs[1][0] != ""
    assert len((killed / "played").read_text().split()) == 40 - 4 * (len(chunks) - 1)
    assert EpisodeStore.open(killed / "cache" / f"stores-{FORMAT}" / "toy" / "1").num_episodes == 40
    assert not unfinished.exists()


def test_two_processes_make_a_dataset_once(tmp_path: Path) -> None:
    processes = [start(tmp_path) for _ in range(2)]
    outputs = [process.communicate() for process in processes]
    assert outputs[0][0] == outputs[1][0] != ""
    assert [error for _, error in outputs] == ["", ""]
    assert sorted(map(int, (tmp_path / "played").read_text().split())) == list(range(40))


# Opens a stand-in, of two parts or of one of them, whose episodes leave a mark.
STANDIN = """
import sys
from dataclasses import replace
from decision_rnn import open_dataset
from decision_rnn.data import collect
from decision_rnn.data.sources.standin import RECIPES, StandinRecipe

for name in RECIPES:
    RECIPES[name] = replace(RECIPES[name], steps=2000)
StandinRecipe.start_method = "fork"
player = StandinRecipe.player
def marking(recipe):
    play = player(recipe)
    def marked(index):
        with open("played", "a") as file:
            file.write(f"{recipe.name} {index}\\n")
        return play(index)
    return marked
StandinRecipe.player = marking
collect.available_cores = lambda: 1
print(open_dataset(NAME).store.num_episodes)
"""


def test_two_processes_make_the_parts_of_a_standin_once(tmp_path: Path) -> None:
    names = ("hopper-medium-expert", "hopper-medium", "hopper-expert")
    processes = [start(tmp_path, f"NAME = {name!r}\n{STANDIN}") for name in names]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    both, medium, expert = (int(output) for output, _ in outputs)
    assert both == medium + expert
    played = (tmp_path / "played").read_text().split("\n")
    assert len(played) == len(set(played))
    assert not any("interrupted" in error for _, error in outputs)

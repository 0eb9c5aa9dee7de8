"""Collecting a recipe's dataset: on any number of processes, after a kill, and in two processes at once."""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from decision_rnn.data.collect import collect, open_or_collect
from decision_rnn.data.store import FORMAT
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.recipe import Recipe
from decision_rnn.utils.errors import MachineError

pytestmark = [pytest.mark.usefixtures("inside"), pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")]


@pytest.fixture
def inside(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)


def mark(recipe: Recipe, index: int) -> None:
    with Path("played").open("a") as file:
        file.write(f"{recipe.name}:{index}\n")


@dataclass(frozen=True, kw_only=True)
class ToyRecipe(Recipe):
    """Episodes of random lengths, each of which leaves a mark in the working folder when it is played."""

    chunk = 4
    pause: float = 0.0

    def player(self) -> Callable[[int], Episode]:
        def play(index: int) -> Episode:
            time.sleep(self.pause)
            mark(self, index)
            generator = np.random.default_rng(index)
            values = generator.normal(size=(int(generator.integers(1, 9)) + 1, 4))
            pushes = np.eye(2, dtype=np.float32)[(values[1:, 0] > 0).astype(int)]
            return Episode(values, pushes, values[1:, 2], index % 2 == 0, False)

        return play


TOY = ToyRecipe(name="toy/1", environment_id="CartPole-v1", episodes=22)
SLOW = replace(TOY, episodes=40, pause=0.02)


def marks() -> list[str]:
    return Path("played").read_text().split() if Path("played").exists() else []


@pytest.mark.parametrize(
    ("recipe", "count"),
    [(TOY, 22), (replace(TOY, episodes=3, first_episode=7), 3), (replace(TOY, episodes=None, steps=50), None)],
)
def test_episodes_are_the_same_for_any_number_of_processes(
    recipe: ToyRecipe, count: int | None, tmp_path: Path
) -> None:
    (one := tmp_path / "one").mkdir()
    (two := tmp_path / "two").mkdir()
    episodes, play = list(collect(recipe, one, 1)), recipe.player()
    for index, episode in enumerate(episodes):
        np.testing.assert_equal(vars(episode), vars(play(recipe.first_episode + index)))
    Path("played").unlink()
    loaded = list(collect(recipe, one, 2))
    assert recipe.episodes is None or not marks()  # all were saved
    for again in (list(collect(recipe, two, 2)), loaded):
        np.testing.assert_equal([vars(episode) for episode in again], [vars(episode) for episode in episodes])
    lengths = [len(episode.rewards) for episode in episodes]
    assert len(episodes) == count if count else sum(lengths[:-1]) < 50 <= sum(lengths)


def test_worker_that_fails_or_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyError, match="no such player"):
        patch.setattr(ToyRecipe, "player", lambda recipe: {}["no such player"])
        list(collect(TOY, tmp_path, 1))
    episodes = collect(replace(TOY, episodes=10**6), tmp_path, 1)
    next(episodes)
    (worker,) = multiprocessing.active_children()
    worker.kill()
    with pytest.raises(MachineError, match="collects episodes"):
        list(episodes)


def test_store_is_made_again_only_by_another_recipe() -> None:
    for recipe, count in [(TOY, 22), (replace(TOY), 0), (replace(TOY, version=2), 22), (replace(TOY, episodes=5), 5)]:
        Path("played").unlink(missing_ok=True)
        store = open_or_collect(recipe)
        assert (len(marks()), store.num_episodes) == (count, recipe.episodes)
        assert store.source["recipe"] == recipe.describe()
        assert store.source["versions"]["numpy"] == np.__version__


def start(opened: Callable[[], object]) -> multiprocessing.Process:
    """Call a function in a process of its own, whose messages and result go into a file of its number."""

    def work() -> None:
        with Path(f"{os.getpid()}.log").open("w", buffering=1) as log, contextlib.redirect_stderr(log):
            print(opened(), file=log)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    return process


def outputs(*processes: multiprocessing.Process) -> list[list[str]]:
    """The lines that processes have printed until they ended without an error."""
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return [Path(f"{process.pid}.log").read_text().splitlines() for process in processes]


def test_killed_process_is_gone_on_from(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprint = open_or_collect(SLOW).fingerprint
    monkeypatch.setenv("DECISION_RNN_CACHE", str(folders / "killed"))
    process, unfinished = start(lambda: open_or_collect(SLOW)), folders / "killed" / "unfinished" / "toy" / "1"
    while len(list(unfinished.glob("*/*.npz"))) < 3:
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    time.sleep(0.5)  # its workers end with it
    chunks = list(unfinished.glob("*/*.npz"))
    assert 3 <= len(chunks) < 10
    assert not (folders / "killed" / f"stores-{FORMAT}" / "toy" / "1").exists()
    chunks[0].write_bytes(chunks[0].read_bytes()[:-100])  # as on a file system that loses the end of a file
    Path("played").unlink()
    assert open_or_collect(SLOW).fingerprint == fingerprint
    assert len(marks()) == 40 - 4 * (len(chunks) - 1)
    assert not unfinished.exists()


def test_two_processes_make_a_dataset_once() -> None:
    one, other = outputs(*(start(lambda: open_or_collect(SLOW).fingerprint) for _ in range(2)))
    assert one == other
    assert len(one) == 1  # the fingerprint, and no message
    assert sorted(marks()) == sorted(f"toy/1:{index}" for index in range(40))

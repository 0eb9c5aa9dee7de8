"""Making a dataset goes on from the episodes that a killed process has finished."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from decision_rnn.data.episode import Episode
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.unfinished import kept, unfinished

NAME, EPISODES = "ogbench/pointmaze-medium-stitch-v0", 40

# Makes a dataset of a few episodes, each of which takes a while and leaves a mark when it is played.
SCRIPT = f"""
import os, sys, time
from decision_rnn.cli.main import main
from decision_rnn.environments.ogbench.mazes import MazeRecipe

player = MazeRecipe.player
def slow_player(recipe):
    play = player(recipe)
    def slow_play():
        with open("played", "a") as file:
            file.write(".")
        time.sleep(float(os.environ["PAUSE"]))
        return play()
    return slow_play
MazeRecipe.player, MazeRecipe.episodes = slow_player, {EPISODES}

if __name__ == "__main__":
    sys.exit(main(["data", "make", {NAME!r}]))
"""


def start(folder: Path, pause: float) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    (folder / "played").write_text("")
    (folder / "make.py").write_text(SCRIPT)
    settings = {"DECISION_RNN_CACHE": str(folder / "cache"), "DECISION_RNN_DATA": str(folder), "HOME": str(folder)}
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    return subprocess.Popen(
        [sys.executable, "make.py"],
        cwd=folder,
        env={**os.environ, **settings, "PYTHONPATH": path, "PAUSE": str(pause)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_killed_ogbench_recipe_goes_on_to_the_same_store(tmp_path: Path) -> None:
    pytest.importorskip("ogbench")
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process, unfinished_there = start(killed, 0.1), killed / "cache" / "unfinished" / NAME
    while len(list(unfinished_there.glob("*/*.npz"))) < 3:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    time.sleep(1)  # its workers end with it
    done = list(unfinished_there.glob("*/*.npz"))
    assert 3 <= len(done) < EPISODES / 4
    assert not (killed / "cache" / "stores" / NAME).exists()
    done[0].write_bytes(done[0].read_bytes()[:-100])  # as on a file system that loses the end of a file

    again, uninterrupted = start(killed, 0), start(whole, 0)
    assert "going on from the episodes of an interrupted process" in again.communicate()[1]
    assert "going on" not in uninterrupted.communicate()[1]
    assert (again.returncode, uninterrupted.returncode) == (0, 0)
    assert len((killed / "played").read_text()) == EPISODES - 4 * (len(done) - 1)
    one, other = (EpisodeStore.open(folder / "cache" / "stores" / NAME) for folder in (killed, whole))
    assert one.fingerprint == other.fingerprint
    assert one.episodes == EPISODES
    assert not unfinished_there.exists()


def test_unfinished_episodes_are_those_of_the_same_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECISION_RNN_CACHE", str(tmp_path))
    episode = Episode(np.ones((3, 1)), np.ones((2, 1), np.float32), np.ones(2), True, False, seed=5)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), unfinished("toy/1", {"version": 1}) as folder:
            (read,) = kept(folder, lambda first: [episode], 0)
            assert (read.seed, read.terminated, read.truncated) == (5, True, False)
            raise KeyboardInterrupt
    with unfinished("toy/1", {"version": 2}) as folder:
        assert kept(folder, lambda first: [], 0) == []
    assert not list((tmp_path / "unfinished").rglob("*.npz"))

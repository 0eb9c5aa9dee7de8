"""OGBench: files in its layout, its recipes and its environments, against the package itself."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from file_server import serving
from gymnasium.spaces import flatten

from decision_rnn import InputError, open_dataset
from decision_rnn.data.sources import ogbench as ogbench_source
from decision_rnn.data.sources.ogbench import RECIPES
from decision_rnn.environments import reuse
from decision_rnn.environments.ogbench import TASKS
from decision_rnn.environments.ogbench.recipes import MazeOracle
from decision_rnn.environments.registry import episodes_at_once, make_environment
from decision_rnn.evaluation.video import watched_environment

pytestmark = pytest.mark.usefixtures("folders")

NAME = "ogbench/pointmaze-medium-stitch-v0"
FILE = "pointmaze-medium-stitch-v0.npz"


def contents(lengths: tuple[int, ...] = (4, 2, 7)) -> dict[str, np.ndarray]:
    """The arrays of a file whose episodes have so many rows."""
    rows, generator = sum(lengths), np.random.default_rng(0)
    return {
        "observations": generator.normal(size=(rows, 2)).astype(np.float32),
        "actions": generator.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "terminals": np.isin(np.arange(rows), np.cumsum(lengths) - 1),
    }


def written(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
    return path


def test_file_is_read_as_its_own_package_reads_it(tmp_path: Path) -> None:
    """An episode's last row has no transition; its goal, which the file does not have, is where it ends."""
    file = written(tmp_path / "data" / FILE, contents())
    written(file.with_name(f"{file.stem}-val.npz"), contents((5, 3)))
    store, validation = open_dataset(NAME).store, open_dataset(f"{NAME}-val").store
    assert (store.num_episodes, store.environment_id) == (3, "decision_rnn/ogbench-pointmaze-medium-v0")
    arrays, begin = contents(), 0
    for episode, rows in zip(store, (4, 2, 7), strict=True):
        places = arrays["observations"][begin : begin + rows]
        np.testing.assert_array_equal(episode.observations[:, :2], places)
        np.testing.assert_array_equal(episode.observations[:, 2:], np.repeat(places[-1:], rows, axis=0))
        np.testing.assert_array_equal(episode.actions, arrays["actions"][begin : begin + rows - 1])
        assert (episode.terminated, episode.truncated, episode.rewards.any()) == (False, True, False)
        begin += rows
    again = open_dataset(f"{NAME}-val", path=file).store
    assert again.fingerprint == store.fingerprint  # a file that is named is read
    ogbench = pytest.importorskip("ogbench")
    _, *theirs = ogbench.make_env_and_datasets(NAME[8:], dataset_path=str(file))
    for ours, split in zip((store, validation), theirs, strict=True):
        np.testing.assert_array_equal(ours.observations[:, :2], split["observations"])
        np.testing.assert_array_equal(ours.actions, split["actions"])


def test_published_file_is_downloaded_and_its_episodes_counted(
    folders: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RECIPES, NAME, replace(RECIPES[NAME], episodes=20, length=4))
    whole, short = (written(folders / f"{rows}.npz", contents((5,) * rows)).read_bytes() for rows in (20, 19))
    with serving(short, certificate=certificate) as other, serving(whole, certificate=certificate) as good:
        monkeypatch.setattr(ogbench_source, "ADDRESS", other.address)
        with pytest.raises(InputError, match=rf"{FILE}.*\b20 episodes.*\b19 episodes"):
            open_dataset(NAME, path="published")
        monkeypatch.setattr(ogbench_source, "ADDRESS", good.address)
        store = open_dataset(NAME, path="published").store
        assert open_dataset(NAME).store.fingerprint == store.fingerprint  # from here on the file is found
        assert other.requests == [f"/{FILE}"]
        assert good.requests == [f"/{FILE}"]
    assert store.source["files"][0]["path"] == str(folders / "data" / FILE)
    np.testing.assert_array_equal(store.observations[:5, :2][:4], contents((5,) * 20)["observations"][:4])


def test_validation_episodes_are_those_after_the_training_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ogbench")
    monkeypatch.setitem(RECIPES, NAME, replace(RECIPES[NAME], episodes=20, length=15))
    training, validation = open_dataset(NAME).store, open_dataset(f"{NAME}-val").store
    assert (training.num_episodes, validation.num_episodes) == (20, 2)
    play = RECIPES[NAME].player()
    for index, episode in enumerate(validation):
        np.testing.assert_array_equal(episode.observations, play(20 + index).observations.astype(np.float32))
    oracle = open_dataset("ogbench/pointmaze-medium-stitch-oraclerep-v0-val")
    assert oracle.spec.environment_id == "decision_rnn/ogbench-pointmaze-medium-oraclerep-v0"
    np.testing.assert_array_equal(oracle.store.actions, validation.actions)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"observations": np.zeros((13, 3), np.float32)}, r"observations.*\(13, 3\)"),
        ({"terminals": np.zeros(13, bool)}, "data.npz"),
        ({"observations": np.full((13, 2), np.nan, np.float32)}, "observation"),
    ],
)
def test_damaged_ogbench_file_is_refused(tmp_path: Path, changes: dict[str, Any], name: str) -> None:
    file = written(tmp_path / "data.npz", contents() | changes)
    with pytest.raises(InputError, match=name):
        open_dataset(NAME, path=file)


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("pointmaze-large-stich-v0", None, r"ogbench/pointmaze-large-stitch-v0\?"),
        ("pointmaze-medium-stitch-v0", "nowhere.npz", r"nowhere\.npz"),
    ],
)
def test_unknown_ogbench_names_and_files_raise(name: str, path: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_dataset(f"ogbench/{name}", path=path)


def test_environment_has_its_goals_and_each_of_five_tasks(tmp_path: Path) -> None:
    pytest.importorskip("ogbench")
    environment, before = make_environment("decision_rnn/ogbench-pointmaze-medium-v0"), np.random.get_state()[1]
    inner = environment.unwrapped
    tasks = open_dataset(NAME, path=written(tmp_path / "named.npz", contents())).spec.tasks
    assert tasks == len(inner.task_infos) == 5
    for seed in range(10):
        observation, _ = environment.reset(seed=seed)
        task = inner.task_infos[seed % tasks]
        assert np.abs(observation["achieved_goal"] - task["init_xy"]).max() <= 1.2
        assert np.abs(observation["desired_goal"] - task["goal_xy"]).max() <= 1.2
        again, _ = environment.reset(seed=seed)
        assert all(np.array_equal(again[key], observation[key]) for key in observation)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    oracle, over, reward, steps = MazeOracle(RECIPES[NAME]), False, 0.0, 0
    oracle.environment = inner
    while not over:
        assert reward == 0
        _, reward, over, truncated, info = environment.step(oracle.act(None).astype(np.float32))
        steps += 1
    assert (reward, truncated, info["success"]) == (1.0, False, 1.0)
    assert steps < 1000


def test_recipes_are_those_of_ogbenchs_names() -> None:
    """Their numbers of episodes from the published settings."""
    assert len(RECIPES) == 8 + 2 * 9
    numbers = {"cube-double-noisy": 1000, "cube-triple-play": 3000, "puzzle-4x6-noisy": 5000}
    assert {name: RECIPES[f"ogbench/{name}-v0"].episodes for name in numbers} == numbers
    assert RECIPES["ogbench/pointmaze-giant-stitch-v0"].episodes == 5000
    assert RECIPES["ogbench/scene-play-v0"].environment_id == "decision_rnn/ogbench-scene-v0"


QUICK = {"pointmaze-medium-navigate", "pointmaze-medium-stitch", "cube-single-play"}


@pytest.mark.parametrize(
    "name", [pytest.param(name[8:-3], marks=() if name[8:-3] in QUICK else pytest.mark.slow) for name in RECIPES]
)
def test_recipe_plays_each_episode_as_if_it_were_the_first(name: str) -> None:
    """OGBench's noise never leaves the bounds of the actions; its scene remembers what was to be opened."""
    pytest.importorskip("ogbench")
    recipe = RECIPES[f"ogbench/{name}-v0"]
    if "maze" not in name:
        recipe = replace(recipe, length=150 if "cube" in name else 60)
    play, play_first = recipe.player(), recipe.player()
    episode, other = play(3), play(7)
    np.testing.assert_equal(vars(play_first(7)), vars(other))
    assert not np.array_equal(episode.actions[:5], other.actions[:5])
    states, actions, *_ = TASKS[recipe.task]
    assert episode.actions.shape == (recipe.length, actions)
    assert np.abs(episode.actions).max() <= 1
    reached = np.broadcast_to(episode.observations[-1, :states], (recipe.length + 1, states))
    np.testing.assert_array_equal(episode.observations[:, states:], reached)
    if "maze-medium" in name:  # it stays at its goal, or goes on to the next
        assert (np.ptp(episode.observations[-100:, :2], axis=0).max() < 2.5) == name.endswith("stitch")
    if "cube-single" in name:  # the cube, behind 19 entries of the arm and scaled by ten, is carried
        assert np.ptp(episode.observations[:, 19:22], axis=0).max() > 0.5
    environment = make_environment(recipe.environment_id)
    observation, _ = environment.reset(seed=7)
    assert environment.observation_space.contains(observation)
    assert environment.unwrapped.cur_task_id == 3
    assert not np.array_equal(observation["achieved_goal"], observation["desired_goal"])


@pytest.mark.slow
def test_no_screen_is_no_warning() -> None:
    code = (
        "from decision_rnn.environments.registry import make_environment as make\nmake('decision_rnn/ogbench-scene-v0')"
    )
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("task", ["pointmaze-teleport", "scene"])
def test_environment_used_before_begins_as_a_new_one(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def play(environment: gymnasium.Env, seed: int) -> list[Any]:
        space = environment.action_space
        space.seed(seed)
        first, info = environment.reset(seed=seed)
        steps = [environment.step(space.sample()) for _ in range(20)]
        rows = [flatten(environment.observation_space, state) for state in (first, *(step[0] for step in steps))]
        return [*np.array(rows).ravel(), *(step[1] for step in steps), info.get("success")]

    pytest.importorskip("ogbench")
    monkeypatch.setattr(reuse, "_closed", type(reuse._closed)(list))
    name = f"decision_rnn/ogbench-{task}-v0"
    environment = make_environment(name)
    assert episodes_at_once(name, 50) == (50 if "maze" in task else 10)
    new, inner = play(environment, 1), environment.unwrapped
    environment.close()
    environment.close()
    again = make_environment(name)
    assert again.unwrapped is inner
    assert play(again, 1) == new
    other = make_environment(name)  # in which OGBench itself would take other random actions
    other.reset(seed=5)
    assert other.unwrapped is not inner
    assert play(other, 1) == new


def test_environment_is_made_to_be_drawn() -> None:
    """Without a GPU nothing may draw here; the environment of cubes has no model before its first reset."""
    pytest.importorskip("ogbench")
    environment = watched_environment("decision_rnn/ogbench-cube-single-v0", size=64)
    assert environment.reset(seed=0)[0]["achieved_goal"].shape == (28,)
    inner = environment.unwrapped
    environment.close()
    assert make_environment("decision_rnn/ogbench-cube-single-v0").unwrapped is not inner


def test_teleports_lead_where_the_seed_says() -> None:
    pytest.importorskip("ogbench")
    one, other = (make_environment("decision_rnn/ogbench-pointmaze-teleport-v0") for _ in range(2))
    for environment in (one, other):
        environment.reset(seed=2)
    places = []
    for _ in range(10):
        np.random.rand()  # others draw from NumPy's global generator too
        for environment in (one, other):
            environment.unwrapped.set_xy(np.array(environment.unwrapped.ij_to_xy((4, 6))))
            environment.step(np.zeros(2, np.float32))
        places.append(tuple(one.unwrapped.get_xy()))
        assert places[-1] == tuple(other.unwrapped.get_xy())
    assert len(set(places)) == 3

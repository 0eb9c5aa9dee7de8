"""OGBench: files in its layout, its recipe and its environments, against the package itself."""

import io
import itertools
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import flatten

from decision_rnn import InputError, open_dataset, write_store
from decision_rnn.cli.main import main
from decision_rnn.data.formats.ogbench import read_ogbench
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.environments import episodes_at_once, make_environment
from decision_rnn.environments.ogbench import TASKS
from decision_rnn.environments.ogbench.environment import IDLE, drawing_from, seeded
from decision_rnn.environments.ogbench.manipulation import ManipulationRecipe
from decision_rnn.environments.ogbench.mazes import MazeRecipe, Oracle
from decision_rnn.environments.ogbench.recipes import CHUNK, RECIPES, collect
from decision_rnn.evaluation.video import watched_environment

pytestmark = pytest.mark.usefixtures("data")

NAME = "ogbench/pointmaze-medium-stitch-v0"


def contents(lengths: tuple[int, ...] = (4, 2, 7)) -> dict[str, np.ndarray]:
    """The arrays of a file whose episodes have so many rows."""
    rows, generator = sum(lengths), np.random.default_rng(0)
    terminals = np.zeros(rows, bool)
    terminals[np.cumsum(lengths) - 1] = True
    places = generator.normal(size=(rows, 2)).astype(np.float32)
    return {
        "observations": places,
        "actions": generator.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "terminals": terminals,
        "qpos": places,
    }


def written(path: Path, **changes: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {key: value for key, value in {**contents(), **changes}.items() if value is not None}
    np.savez_compressed(path, **arrays)
    return path


def test_ogbench_file_is_read_as_its_own_package_reads_it(tmp_path: Path) -> None:
    """An episode's last row has no transition; its goal, which the file does not have, is where it ends."""
    written(tmp_path / "data" / "pointmaze-medium-stitch-v0.npz")
    store = open_dataset(NAME).store
    assert (store.num_episodes, store.steps, store.environment_id) == (
        3,
        10,
        "decision_rnn/ogbench-pointmaze-medium-v0",
    )
    arrays, begin = contents(), 0
    for episode, rows in zip(store, (4, 2, 7), strict=True):
        places = arrays["observations"][begin : begin + rows]
        np.testing.assert_array_equal(episode.observations[:, :2], places)
        np.testing.assert_array_equal(episode.observations[:, 2:], np.repeat(places[-1:], rows, axis=0))
        np.testing.assert_array_equal(episode.actions, arrays["actions"][begin : begin + rows - 1])
        assert (episode.terminated, episode.truncated, episode.rewards.any()) == (False, True, False)
        begin += rows
    ogbench = pytest.importorskip("ogbench.utils")
    theirs = ogbench.load_dataset(tmp_path / "data" / "pointmaze-medium-stitch-v0.npz")
    np.testing.assert_array_equal(store.observations[:, :2], theirs["observations"])
    np.testing.assert_array_equal(store.actions, theirs["actions"])


def test_ogbench_validation_file_is_read_beside_that_of_training(tmp_path: Path) -> None:
    file = tmp_path / "data" / "pointmaze-medium-stitch-v0.npz"
    written(file)
    written(file.with_name(f"{file.stem}-val.npz"), **contents((5, 3)))
    seen = open_dataset(NAME).store
    held_out = open_dataset(f"{NAME}-val").store
    assert (seen.num_episodes, held_out.episodes, held_out.episode_lengths.tolist()) == (3, 2, [4, 2])
    ogbench = pytest.importorskip("ogbench")
    _, theirs, validation = ogbench.make_env_and_datasets(NAME[8:], dataset_path=str(file))
    np.testing.assert_array_equal(seen.observations[:, :2], theirs["observations"])
    np.testing.assert_array_equal(held_out.observations[:, :2], validation["observations"])
    np.testing.assert_array_equal(held_out.actions, validation["actions"])
    assert open_dataset(f"{NAME}-val", path=file).store.fingerprint == seen.fingerprint  # a file that is named is read


def test_ogbench_validation_episodes_are_those_that_the_recipe_makes_after_those_of_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("ogbench.locomaze")
    monkeypatch.setattr(MazeRecipe, "episodes", 20)
    monkeypatch.setattr(MazeRecipe, "steps", 15)
    seen, held_out = open_dataset(NAME).store, open_dataset(f"{NAME}-val").store
    assert (seen.num_episodes, held_out.episodes) == (20, 2)
    monkeypatch.setattr(MazeRecipe, "episodes", 22)
    all_22 = list(collect(MazeRecipe("pointmaze-medium", "stitch"), tmp_path, False, 1))
    for episode, expected in zip(held_out, all_22[20:], strict=True):
        np.testing.assert_array_equal(episode.observations, expected.observations.astype(np.float32))
    rewarded = open_dataset("ogbench/pointmaze-medium-stitch-singletask-task3-v0-val")
    assert rewarded.spec.environment_id == "decision_rnn/ogbench-pointmaze-medium-singletask-task3-v0"
    monkeypatch.setattr(MazeRecipe, "episodes", 20)
    np.testing.assert_array_equal(rewarded.store.actions, held_out.actions)


@pytest.mark.parametrize(
    ("task", "added"),
    [("pointmaze-medium", "qpos"), ("cube-single", None), ("scene", "button_states"), ("pointmaze-teleport", None)],
)
def test_ogbench_export_is_read_by_its_own_package_and_by_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str, added: str | None
) -> None:
    kind, (states, actions, *_), generator = (
        "stitch" if "maze" in task else "play",
        TASKS[task],
        np.random.default_rng(0),
    )
    seen = generator.normal(size=(13, states)).astype(np.float32)
    taken = generator.uniform(-1, 1, (13, actions)).astype(np.float32)
    name = f"ogbench/{task}-{kind}-v0"
    original = written(tmp_path / "original.npz", observations=seen, actions=taken, qpos=None)
    store = open_dataset(name, path=original).store
    file = tmp_path / "new" / "exported.npz"
    assert main(["data", "export", name, "--format", "ogbench", "--output", str(file)]) == 0
    assert "3 episodes, 10 steps written to" in (said := capsys.readouterr().out)
    assert "qvel is left out" in said

    ogbench = pytest.importorskip("ogbench.utils")
    whole, theirs = (ogbench.load_dataset(path, add_info=True) for path in (original, file))
    assert theirs.keys() == whole.keys() | ({added} if added else set())
    for key, values in whole.items():
        assert theirs[key].dtype == values.dtype
        np.testing.assert_array_equal(theirs[key], values)
    if added == "qpos":
        np.testing.assert_array_equal(theirs["qpos"], whole["observations"])
    elif added:  # the first two of the four entries of a button, behind the arm and the cube
        lit = whole["observations"][:, 28:36].reshape(-1, 2, 4)
        np.testing.assert_array_equal(theirs[added], lit[..., 1] > lit[..., 0])
    assert open_dataset(name, path=file).store.fingerprint == store.fingerprint


def test_export_of_another_environment_in_ogbench_layout_is_one_sentence(
    tmp_path: Path, store: EpisodeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    write_store("local/hopper", store, "Hopper-v5")
    assert main(["data", "export", "local/hopper", "--format", "ogbench", "--output", str(tmp_path / "x.npz")]) == 2
    assert "is of Hopper-v5, which is none of OGBench's tasks: export it as minari or d4rl" in capsys.readouterr().err
    assert not (tmp_path / "x.npz").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"terminals": None}, "has no terminals"),
        ({"observations": np.zeros((13, 3), np.float32)}, r"observations has shape \(13, 3\)"),
        ({"actions": np.zeros((12, 2), np.float32)}, r"actions has shape \(12, 2\)"),
        ({"terminals": np.zeros(13, bool)}, "terminals must be true at the last row"),
        ({"terminals": np.ones(13, bool)}, "of at least two rows"),
        ({"actions": np.array([[b"x"] * 2] * 13)}, "actions has .* where numbers"),
        ({"observations": np.array([[None, None]] * 13)}, "cannot be read as an npz file"),
        ({"observations": np.full((13, 2), np.nan, np.float32)}, "observation"),
    ],
)
def test_damaged_ogbench_file_is_one_sentence(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    file = written(tmp_path / "data.npz", **changes)
    with pytest.raises(InputError, match=message):
        open_dataset(NAME, path=file)


def test_ogbench_file_that_declares_more_than_it_holds_is_one_sentence(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**15, 2)})
    large, cut = tmp_path / "large.npz", written(tmp_path / "cut.npz")
    with zipfile.ZipFile(large, "w") as archive:
        archive.writestr("observations.npy", header.getvalue())
    cut.write_bytes(cut.read_bytes()[:300])
    for file in (large, cut):
        with pytest.raises(InputError, match="cannot be read as an npz file"):
            list(read_ogbench(file, 2, 2))


def test_unknown_ogbench_names_and_files_raise(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean ogbench/pointmaze-large-stitch-v0"):
        _ = open_dataset("ogbench/pointmaze-large-stich-v0").spec
    with pytest.raises(InputError, match=r"nowhere.npz, given for .* is not a file"):
        open_dataset(NAME, path=tmp_path / "nowhere.npz")


def test_ogbench_environment_has_its_goals_and_each_of_five_tasks() -> None:
    pytest.importorskip("ogbench.locomaze")
    environment, before = make_environment("decision_rnn/ogbench-pointmaze-medium-v0"), np.random.get_state()[1]
    inner = environment.unwrapped
    tasks = open_dataset(NAME).spec.tasks
    assert tasks == len(inner.task_infos) == 5
    for seed in range(10):
        observation, _ = environment.reset(seed=seed)
        task = inner.task_infos[seed % tasks]
        assert np.abs(observation["achieved_goal"] - task["init_xy"]).max() <= 1.2
        assert np.abs(observation["desired_goal"] - task["goal_xy"]).max() <= 1.2
        again, _ = environment.reset(seed=seed)
        assert all(np.array_equal(again[key], observation[key]) for key in observation)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    oracle, over, reward, steps = Oracle(inner), False, 0.0, 0
    while not over:
        assert reward == 0
        _, reward, over, truncated, info = environment.step(oracle.direction().astype(np.float32))
        steps += 1
    assert (reward, truncated, info["success"]) == (1.0, False, 1.0)
    assert steps < 1000


@pytest.mark.parametrize("kind", ["navigate", "stitch"])
def test_ogbench_recipe_goes_from_goal_to_goal_or_to_one_nearby(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("ogbench.locomaze")
    recipe = MazeRecipe("pointmaze-medium", kind)
    first, *others = itertools.islice(collect(recipe, tmp_path, progress=False, processes=2), CHUNK + 1)
    assert first.observations.shape == (recipe.steps + 1, 4)
    assert np.abs(first.actions).max() <= 1
    assert not any(np.array_equal(first.actions[:5], other.actions[:5]) for other in others)
    (alone := tmp_path / "alone").mkdir()
    np.testing.assert_array_equal(next(collect(recipe, alone, False, 1)).observations, first.observations)
    late = first.observations[-100:, :2]
    assert (np.ptp(late, axis=0).max() < 2.5) == (kind == "stitch")  # it stays at its goal, or goes on to the next


def test_ogbench_recipes_are_those_of_its_names() -> None:
    """Their numbers of episodes from the published settings; OGBench's table lists the sizes of states."""
    assert len(RECIPES) == 8 + 2 * 9
    numbers = {"cube-double-noisy-v0": 1000, "cube-triple-play-v0": 3000, "puzzle-4x6-noisy-v0": 5000}
    assert {name: RECIPES[name].episodes for name in numbers} == numbers
    assert open_dataset("ogbench/scene-play-v0").spec.environment_id == "decision_rnn/ogbench-scene-v0"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ogbench.manipspace")
    monkeypatch.setattr("decision_rnn.environments.ogbench.manipulation.STEPS", 150)


@pytest.mark.usefixtures("short")
def test_ogbench_episode_of_the_scene_does_not_depend_on_earlier_ones() -> None:
    recipe = RECIPES["scene-noisy-v0"]
    play, play_first = recipe.player(), recipe.player()
    for seed in (0, 1, 2, 7):
        with drawing_from(seeded(seed)):
            episode = play()
    with drawing_from(seeded(7)):
        np.testing.assert_array_equal(play_first().observations, episode.observations)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", ["play", "noisy"])
def test_ogbench_cube_is_carried_from_place_to_place(kind: str) -> None:
    """Its states are those of the package's environment: OGBench's noise never leaves the bounds of the actions."""
    play = ManipulationRecipe("cube-single", kind).player()
    with drawing_from(seeded(3)):
        episode = play()
    with drawing_from(seeded(3)):
        again = play()
    np.testing.assert_array_equal(episode.observations, again.observations)
    assert (episode.observations.shape, episode.actions.shape) == ((151, 56), (150, 5))
    assert np.abs(episode.actions).max() <= 1
    cube = episode.observations[:, 19:22]  # behind 19 entries of the arm
    assert np.ptp(cube, axis=0).max() > 0.5  # scaled by ten
    np.testing.assert_array_equal(episode.observations[:, 28:], np.repeat(episode.observations[-1:, :28], 151, axis=0))


@pytest.mark.parametrize(
    "task", ["pointmaze-teleport", "cube-double-oraclerep", "scene", "puzzle-3x3-singletask-task2"]
)
def test_ogbench_environment_that_was_used_before_begins_as_a_new_one(task: str) -> None:
    def played(environment: gymnasium.Env, seed: int) -> list[Any]:
        space = environment.action_space
        space.seed(seed)
        seen, told = environment.reset(seed=seed)
        steps = [environment.step(space.sample()) for _ in range(60)]
        rows = [flatten(environment.observation_space, state) for state in (seen, *(step[0] for step in steps))]
        return [*np.array(rows).ravel(), *(step[1] for step in steps), told.get("success")]

    pytest.importorskip("ogbench")
    IDLE.clear()
    name = f"decision_rnn/ogbench-{task}-v0"
    before = [make_environment(name) for _ in range(2)]
    assert episodes_at_once(name, 50) == (50 if "maze" in task else 10)
    new = [played(environment, seed) for seed, environment in enumerate(before)]
    inside = {id(environment.unwrapped) for environment in before}
    for environment in before:
        environment.close()
        environment.close()
    again = [make_environment(name) for _ in range(2)]
    assert {id(environment.unwrapped) for environment in again} == inside
    assert [played(environment, seed) for seed, environment in enumerate(again)] == new
    assert [played(environment, seed) for seed, environment in enumerate(again)] == new
    assert id(make_environment(name).unwrapped) not in inside


@pytest.mark.parametrize("task", ["cube-single", "pointmaze-medium"])
def test_ogbench_environment_is_made_to_be_drawn(task: str) -> None:
    """Without a GPU nothing may draw here; the environment of cubes has no model before its first reset."""
    pytest.importorskip("ogbench.manipspace")
    environment = watched_environment(f"decision_rnn/ogbench-{task}-v0", size=64)
    assert environment.reset(seed=0)[0]["achieved_goal"].shape == (TASKS[task].states,)


def test_ogbench_teleports_lead_where_the_seed_says() -> None:
    pytest.importorskip("ogbench.locomaze")
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


def test_ogbench_goal_of_an_arm_is_determined_by_the_seed() -> None:
    """OGBench itself takes random actions before it looks at what the goal's state is."""
    pytest.importorskip("ogbench.manipspace")
    one, other = (make_environment("decision_rnn/ogbench-cube-single-v0") for _ in range(2))
    other.reset(seed=1)
    seen, again = one.reset(seed=0)[0], other.reset(seed=0)[0]
    assert all(np.array_equal(again[key], seen[key]) for key in seen)


@pytest.mark.slow
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", [name for name in RECIPES if not name.startswith("pointmaze")])
def test_every_ogbench_recipe_of_manipulation_fits_its_environment(name: str) -> None:
    recipe = RECIPES[name]
    with drawing_from(seeded(0)):
        episode = recipe.player()()
    states, actions, *_ = TASKS[recipe.task]
    assert (episode.observations.shape, episode.actions.shape) == ((151, 2 * states), (150, actions))
    environment = make_environment(f"decision_rnn/ogbench-{recipe.task}-v0")
    observation, _ = environment.reset(seed=7)
    assert environment.observation_space.contains(observation)
    assert environment.unwrapped.cur_task_id == 3
    np.testing.assert_array_equal(environment.reset(seed=7)[0]["achieved_goal"], observation["achieved_goal"])
    assert not np.array_equal(observation["achieved_goal"], observation["desired_goal"])

"""`import_log` of the layouts of other libraries, written here by h5py, numpy and pyarrow alone.

Each layout was compared once with files that the library itself wrote: d3rlpy 1.1.1 (`MDPDataset.dump`) and 2.8.1
(`ReplayBuffer.dump`), robomimic 0.3.0 (`convert_d4rl.py` and `split_train_val.py`), LeRobot 0.3.3 (format 2.1) and
0.4.4 (format 3.0), Minari 0.5.4.
"""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas
import pytest
import torch
from data_files import arrays_of, assert_equal, publish, random_episode
from gymnasium.spaces import Box, Dict, Discrete, Tuple

import decision_rnn
from decision_rnn.cli.main import main
from decision_rnn.data.dataset import export_dataset, open_dataset
from decision_rnn.data.importing import import_log
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.episode import Episode
from decision_rnn.utils.errors import InputError

pytestmark = pytest.mark.usefixtures("folders")


@pytest.fixture
def whole() -> list[Episode]:
    """Terminated and truncated episodes, twelve, so that the last have numbers of two digits."""
    random = np.random.default_rng(0)
    return [random_episode(random, (4 + index, index % 3 == 0, index % 3 != 0)) for index in range(12)]


def imported(log: Any, name: str = "local/log", **options: Any) -> EpisodeStore:
    return import_log(log, name, progress=False, **options).store


def cut(episodes: list[Episode]) -> list[Episode]:
    """Episodes as they are read where no observation follows the last action."""
    return [
        Episode(
            np.append(e.observations[:-1], e.observations[-2:-1], 0), e.actions, e.rewards, e.terminated, e.truncated
        )
        for e in episodes
    ]


def write(path: Path, arrays: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        for key, values in arrays.items():
            file[key] = values
        file.attrs["env"] = "Lift"
    return path


def ends_of(episodes: list[Episode]) -> np.ndarray:
    return np.cumsum([len(episode.rewards) for episode in episodes])


def flat(episodes: list[Episode]) -> dict[str, np.ndarray]:
    """Observations, actions and rewards end to end, without flags."""
    arrays = arrays_of(episodes) | {"rewards": np.concatenate([episode.rewards for episode in episodes])}
    return {key: arrays[key] for key in ("observations", "actions", "rewards")}


def robomimic(path: Path, episodes: list[Episode]) -> Path:
    """Layout of robomimic 0.3: groups in HDF5's order, `demo_10` before `demo_2`; an observation in two parts."""
    arrays: dict[str, Any] = {"mask/train": [b"demo_0", b"demo_11"], "mask/valid": [b"demo_2"]}
    for index, e in enumerate(episodes):
        steps = len(e.rewards)
        demo = {"actions": e.actions, "rewards": e.rewards, "dones": (np.arange(steps) == steps - 1).astype(np.int32)}
        demo |= {"obs/gripper": e.observations[:-1, :1], "obs/position": e.observations[:-1, 1:]}
        demo |= {"next_obs/gripper": e.observations[1:, :1], "next_obs/position": e.observations[1:, 1:]}
        demo |= {"states": np.zeros((steps, 7)), "obs/agentview_image": np.zeros((steps, 84, 84, 3), np.uint8)}
        arrays |= {f"data/demo_{index}/{key}": values for key, values in demo.items()}
    return write(path, arrays)


def test_robomimic_groups_are_dict_observations(whole: list[Episode], tmp_path: Path) -> None:
    file = robomimic(tmp_path / "demos.hdf5", whole)
    store = imported(file)
    assert isinstance(store.observation_space, Dict)
    assert list(store.observation_space) == ["gripper", "position"]
    np.testing.assert_array_equal(store.terminated, True)
    for read, episode in zip(store, whole, strict=True):
        np.testing.assert_array_equal(read.observations, episode.observations)
        np.testing.assert_array_equal(read.actions, episode.actions)
    notes = " ".join(store.source["notes"])
    for word in ("dones", "agentview_image", "train (2)", "valid (1)"):
        assert word in notes
    assert imported(file, "local/valid", split="valid").episode_lengths.tolist() == [6]
    assert imported(file, "local/train", split="train").episode_lengths.tolist() == [4, 15]
    with pytest.raises(InputError, match=r"no split 'test'.*train, valid"):
        imported(file, "local/test", split="test")
    position = imported(file, "local/position", observations="position")
    np.testing.assert_array_equal(position.observations, store.observations[:, 1:])


def test_arrays_that_some_groups_lack_are_named(whole: list[Episode], tmp_path: Path) -> None:
    file = robomimic(tmp_path / "demos.hdf5", whole)
    with h5py.File(file, "a") as demos:
        demos["data/demo_3/obs/force"] = whole[3].rewards
        del demos["data/demo_5/obs/gripper"]
    with pytest.raises(InputError, match=r"has no 'force': .*obs/gripper"):
        imported(file, "local/force", observations="force")
    with pytest.raises(InputError, match="demo_5 has no obs/gripper, which others have"):
        imported(file)


def test_d3rlpy_2_arrays_are_numbered(whole: list[Episode], tmp_path: Path) -> None:
    """Layout of d3rlpy 2.8: rewards in a column, one flag for an episode; a tuple of observations is numbered again."""
    arrays: dict[str, Any] = {"num_episodes": 12, "version": "2.1", "columns": [b"observations", b"actions"]}
    parts = dict(arrays)
    for index, e in enumerate(whole):
        rest = {"actions": e.actions, "rewards": e.rewards[:, None], "terminated": e.terminated}
        arrays |= {f"{key}_{index}": values for key, values in (rest | {"observations": e.observations[:-1]}).items()}
        parts |= {f"{key}_{index}": values for key, values in rest.items()}
        parts |= {f"observations_{index}_{part}": e.observations[:-1, 2 * part :][:, :2] for part in (0, 1)}
    assert_equal(imported(write(tmp_path / "buffer.h5", arrays)), cut(whole))
    store = imported(write(tmp_path / "tuples.h5", parts), "local/tuples")
    assert isinstance(store.observation_space, Tuple)
    assert_equal(store, cut(whole))


@pytest.mark.parametrize("kind", ["bool", "uint8", "float32", "column"])
def test_d3rlpy_1_ends_that_are_no_terminals_are_truncations(kind: str, whole: list[Episode], tmp_path: Path) -> None:
    """Layout of d3rlpy 1.1: `episode_terminals` beside `terminals`."""
    steps = ends_of(whole)[-1]
    ends, terminals = np.zeros(steps, bool), np.zeros(steps, bool)
    ends[ends_of(whole) - 1] = True
    terminals[ends_of(whole) - 1] = [episode.terminated for episode in whole]
    flags = {"terminals": terminals, "episode_terminals": ends}
    flags = {k: v[:, None] if kind == "column" else v.astype(kind) for k, v in flags.items()}
    arrays = flat(whole) | flags | {"discrete_action": False, "version": "1.0"}
    assert_equal(imported(write(tmp_path / "mdp.h5", arrays)), cut(whole))
    few = arrays | {"observations": np.zeros((steps, 6)), "actions": np.arange(steps) % 2}
    assert imported(few, "local/few", environment_id="Acrobot-v1").action_space == Discrete(3)


NAMES = ("terminated truncated", "terminations truncations", "dones timeouts", "terminals done", "is_terminal is_last")


@pytest.mark.parametrize("names", [*map(str.split, NAMES)], ids=NAMES)
def test_flags_of_other_names(names: list[str], whole: list[Episode], tmp_path: Path) -> None:
    """`done` includes terminations, and `dones` truncations, as in gym's older API."""
    arrays = arrays_of(whole)
    flags = [arrays["terminals"], arrays["timeouts"]]
    both = flags[0] | flags[1]
    first, second = both if names[0] == "dones" else flags[0], both if names[1] in ("done", "is_last") else flags[1]
    named = {names[0]: first, names[1]: second, "next_observations": arrays["next_observations"]}
    np.savez_compressed(tmp_path / "log.npz", **flat(whole), **named)
    assert_equal(imported(tmp_path / "log.npz"), whole)


def test_next_observations_are_those_of_the_named_arrays(whole: list[Episode]) -> None:
    arrays, other = arrays_of(whole) | flat(whole), np.random.default_rng(1).normal(size=(ends_of(whole)[-1], 4))
    arrays["state"], arrays["next_state"] = arrays.pop("observations"), arrays.pop("next_observations")
    assert_equal(imported(arrays | {"obs": other, "next_obs": other}, observations="state"), whole)
    parts = {f"{kind}q": arrays[f"{kind}state"][:, :2] for kind in ("", "next_")}
    parts |= {f"{kind}v": arrays[f"{kind}state"][:, 2:] for kind in ("", "next_")}
    log = arrays | parts | {"observations": other[:, :3], "next_observations": other[:, :3]}
    assert_equal(imported(log, "local/parts", observations="q,v"), whole)
    alone = {key: values for key, values in (arrays | {"obs": other, "next_obs": other}).items() if key != "next_state"}
    assert_equal(imported(alone, "local/alone", observations="state"), cut(whole))
    exact = imported(arrays, "local/exact", observations="next_state")
    np.testing.assert_array_equal(exact.observations, arrays["next_state"])


def test_eleven_numbered_arrays_are_in_the_order_of_their_numbers() -> None:
    numbers = np.arange(12.0)
    parts = {str(int(number)): np.full((5, 1), number) for number in numbers}
    demo = {"observations": parts, "actions": parts}
    for name, log in (("grouped", {"demo_0": demo, "demo_1": demo}), ("flat", demo)):
        store = imported(log, f"local/{name}")
        np.testing.assert_array_equal(store.observations[0], numbers)
        np.testing.assert_array_equal(store.actions[0], numbers)
        assert [part.path for part in store.layout("observations").parts] == [(int(number),) for number in numbers]


def test_lone_terminals_are_said(whole: list[Episode], tmp_path: Path) -> None:
    """Without timeouts an episode that ended by time is joined to the next; next observations show where."""
    arrays = flat(whole) | {"terminals": arrays_of(whole)["terminals"]}
    following = {"next_observations": np.concatenate([episode.observations[1:] for episode in whole])}
    for name, more, episodes in (("joined", {}, 5), ("apart", following, 12)):
        store = imported(write(tmp_path / f"{name}.h5", arrays | more), f"local/{name}")
        assert len(store) == episodes
        assert any("joined to the next: terminals" in note for note in store.source["notes"]) == (name == "joined")


@pytest.mark.parametrize("kind", ["final observation", "ends"])
def test_terminals_within_an_episode_are_refused_unless_it_is_a_group(kind: str) -> None:
    steps = np.arange(20)
    log = {"observations": np.arange(21.0), "actions": np.ones(20)}
    if kind == "ends":
        log |= {"observations": np.arange(20.0), "episode_ends": [20]}
    with pytest.raises(InputError, match="terminals is true within an episode, at step 9"):
        imported(log | {"terminals": np.isin(steps, [9, 19])})
    (episode,) = imported({"demo_0": log | {"terminals": steps % 5 == 4}})
    assert (len(episode.rewards), episode.terminated) == (20, True)
    assert len(imported(log | {"dones": steps % 5 == 4}, "local/dones")) == 1


def test_lone_dones_end_episodes_and_are_said(whole: list[Episode], tmp_path: Path) -> None:
    arrays = arrays_of(whole)
    dones = (arrays["terminals"] | arrays["timeouts"]).astype(np.uint8)
    store = imported(write(tmp_path / "dones.h5", flat(whole) | {"dones": dones}))
    assert store.episode_lengths.tolist() == [len(episode.rewards) for episode in whole]
    assert any("dones" in note for note in store.source["notes"])


@pytest.mark.parametrize("kind", ["ends", "starts", "ids", "lengths"])
def test_bounds_of_episodes_without_flags(kind: str, whole: list[Episode], tmp_path: Path) -> None:
    """`data/state`, `data/action`, `meta/episode_ends` are diffusion policy's, `episode_starts` SB3's."""
    arrays, ends = flat(whole), ends_of(whole)
    steps = np.arange(ends[-1])
    bounds = {
        "ends": {"meta/episode_ends": ends.astype(np.uint64)},
        "starts": {"episode_starts": np.isin(steps, [0, *ends])},
        "ids": {"episode_id": 7 * np.searchsorted(ends, steps, side="right")},
        "lengths": {"traj_lengths": np.diff(ends, prepend=0).astype(float)},
    }[kind]
    named = {"data/state": arrays["observations"], "data/action": arrays["actions"], "reward": arrays["rewards"]}
    np.savez(tmp_path / "log.npz", **named, **bounds)
    truncated = [Episode(e.observations, e.actions, e.rewards, False, True) for e in cut(whole)]
    assert_equal(imported(tmp_path / "log.npz"), truncated)
    assert_equal(imported([tmp_path / "log.npz"] * 2, "local/twice"), truncated * 2)


def test_minari_file_and_dictionaries_in_memory(whole: list[Episode]) -> None:
    file = publish(
        "toy/own-v0", whole, observation_space=Box(-9, 9, (4,)), action_space=Box(-1, 1, (2,)), environment=None
    )
    assert_equal(imported(file / "main_data.hdf5"), whole)
    dictionaries = [
        {"observations": e.observations, "actions": e.actions, "rewards": e.rewards, "terminated": e.terminated}
        for e in whole
    ]
    assert_equal(imported(dictionaries, "local/listed"), whole)
    assert_equal(decision_rnn.write_store("local/written", dictionaries), whole)
    qlearning = {key: values for key, values in arrays_of(whole).items() if key != "timeouts"}
    nested = {
        "obs": {"arm": {"a": qlearning["observations"]}, "b": qlearning["observations"]},
        "action": qlearning["actions"],
    }
    assert imported(nested, "local/nested").observation_space["arm"]["a"].shape == (4,)
    frame = pandas.DataFrame({key: list(values) for key, values in arrays_of(whole).items()})
    assert imported(frame, "local/frame").episode_lengths.tolist() == [len(episode.rewards) for episode in whole]


def test_one_dictionary_without_flags_is_one_episode(whole: list[Episode]) -> None:
    store = imported({"obs": whole[0].observations[:-1, 0], "action": whole[0].actions[:, 0]})
    assert (len(store), store.observation_dim, store.truncated.tolist()) == (1, 1, [True])
    assert not store.rewards.any()


def lerobot(folder: Path, episodes: list[Episode], version: int, **columns: Any) -> Path:
    """Layout of LeRobot 0.3 (format 2.1: a file for every episode) and 0.4 (format 3.0: many in a file)."""
    frames = []
    for index, e in enumerate(episodes):
        steps = len(e.rewards)
        last = np.arange(steps) == steps - 1
        frames.append(
            {
                "observation.state": list(e.observations[:-1, :3]),
                "observation.environment_state": list(e.observations[:-1, 3:]),
                "action": list(e.actions),
                "next.reward": e.rewards,
                "next.done": last,
                "next.success": last & e.terminated,
                "timestamp": np.arange(steps) / 10,
                "frame_index": np.arange(steps),
                "episode_index": np.full(steps, index),
                "index": np.arange(steps),
                "task_index": np.full(steps, index % 2),
                "observation.images.wrist": [{"bytes": b"PNG", "path": ""}] * steps,
            }
        )
    for number, frame in enumerate(frames if version == 2 else [pandas.concat(map(pandas.DataFrame, frames))]):
        name = f"episode_{number:06d}" if version == 2 else f"file-{number:03d}"
        file = folder / "data" / "chunk-000" / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pandas.DataFrame(frame).to_parquet(file)
    (folder / "meta").mkdir()
    features = {"observation.images.top": {"dtype": "video"}, "observation.state": {"dtype": "float32", "shape": [3]}}
    info = {"fps": 10, "splits": {"train": "0:10", "test": "10:12"}, "features": features}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    pandas.DataFrame({"episode_index": [0], "dataset_from_index": [5]}).to_parquet(folder / "meta" / "episodes.parquet")
    return folder


@pytest.mark.parametrize("version", [2, 3])
def test_lerobot_folder_there_and_back(version: int, whole: list[Episode], tmp_path: Path) -> None:
    folder = lerobot(tmp_path / "pusht", whole, version)
    store = imported(folder)
    assert_equal(store, cut(whole))
    assert store.entry_names("observations")[:1] == ["observation.state[0]"]
    notes = " ".join(store.source["notes"])
    for key in ("observation.images.wrist", "observation.images.top", "task_index"):
        assert key in notes
    export_dataset("local/log", "minari", "toy/back-v0")
    assert_equal(open_dataset("minari/toy/back-v0").store, store)
    export_dataset("local/log", "d4rl", str(tmp_path / "back.hdf5"))
    assert_equal(imported(tmp_path / "back.hdf5", "local/back"), store)
    state = imported(folder, "local/state", observations="observation.state")
    np.testing.assert_array_equal(state.observations, store.observations[:, :3])
    assert imported(folder, "local/test", split="test").episode_lengths.tolist() == [14, 15]
    assert len(imported(folder, "local/train", split="train")) == 10


@pytest.mark.parametrize(
    ("position", "speed", "names"),
    [
        (["hip", "knee"], ["hip", "knee"], ["state.hip", "state.knee", "speed.hip", "speed.knee"]),
        ({"motors": ["hip", "knee"]}, {"left": ["a"], "right": ["b"]}, ["hip", "knee", "a", "b"]),
        ([["hip", "knee"]], {"a": 0, "b": 1}, ["hip", "knee", "a", "b"]),
        (None, ["only one"], ["state[0]", "state[1]", "speed[0]", "speed[1]"]),
        (["same", "same"], ["a", "b"], ["state[0]", "state[1]", "a", "b"]),
    ],
)
def test_names_of_lerobots_features_are_entry_names(
    position: Any, speed: Any, names: list[str], tmp_path: Path
) -> None:
    rows = [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    frame = {"observation.state": rows, "observation.speed": rows, "action": rows}
    frame |= {"episode_index": [0, 0, 1], "frame_index": [0, 1, 0]}
    (tmp_path / "data").mkdir()
    pandas.DataFrame(frame).to_parquet(tmp_path / "data" / "episode_000000.parquet")
    features = {"observation.state": {"names": position}, "observation.speed": {"names": speed}}
    features["action"] = {"names": {"motors": ["hip", "knee"]}}
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text(json.dumps({"features": features}))
    store = imported(tmp_path)
    expected = [f"observation.{name}" if name[:5] in ("state", "speed") else name for name in names]
    assert store.entry_names("observations") == expected
    assert store.entry_names("actions") == ["hip", "knee"]


def test_one_bad_episode_does_not_refuse_the_rest(whole: list[Episode], tmp_path: Path) -> None:
    file = robomimic(tmp_path / "demos.hdf5", whole)
    with h5py.File(file, "a") as content:
        del content["data/demo_3/rewards"], content["data/demo_5/actions"]
        content["data/demo_5/actions"] = np.zeros((0, 2))
        content["data/demo_7/actions"][2] = np.nan
        del content["data/demo_9/actions"]
    with pytest.raises(InputError, match="demo_3"):
        imported(file)
    for missing, count in (("drop_episode", 8), ("end_episode", 9)):
        store = imported(file, f"local/{missing}", missing=missing)
        assert len(store) == count
        (note,) = (note for note in store.source["notes"] if "demo_3" in note)
        assert all(f"demo_{number}" in note for number in (5, 9))


def test_demos_of_another_width_or_with_more_arrays(whole: list[Episode], tmp_path: Path) -> None:
    """The most common layout is read, also if the first episode has another one."""
    file = robomimic(tmp_path / "demos.hdf5", whole)
    with h5py.File(file, "a") as content:
        for key, width in (("demo_0/obs/gripper", 9), ("demo_4/actions", 7)):
            steps = len(content[f"data/{key}"])
            del content[f"data/{key}"]
            content[f"data/{key}"] = np.zeros((steps, width))
        content["data/demo_2/obs/extra"] = np.zeros((6, 1))
    with pytest.raises(InputError, match=r"demo_0.*obs/gripper"):
        imported(file)
    store = imported(file, missing="drop_episode")
    np.testing.assert_array_equal(store.episode_lengths, [5, 6, 7, *range(9, 16)])
    notes = " ".join(store.source["notes"])
    assert all(name in notes for name in ("demo_0", "demo_4"))


def test_other_groups_and_images(whole: list[Episode], tmp_path: Path) -> None:
    """Groups that are only numbers, RLDS's `steps`, and ALOHA's compressed images, rows of bytes."""
    truncated = [Episode(e.observations, e.actions, e.rewards, False, True) for e in cut(whole)]
    for layout in ("{}", "episode_{}/steps", "steps/{}"):
        arrays = {}
        for index, e in enumerate(whole):
            demo = {"observation/state": e.observations[:-1], "action": e.actions, "reward": e.rewards}
            demo["observation/image"] = np.zeros((len(e.rewards), 1024), np.uint8)
            arrays |= {f"{layout.format(index)}/{key}": values for key, values in demo.items()}
        name = f"local/{layout.partition('/')[0].strip('_{}') or 'numbers'}"
        assert_equal(imported(write(tmp_path / "log.h5", arrays), name), truncated)
    qlearning = {"observations": np.ones((3, 2)), "next_observations": np.ones((3, 1)), "actions": np.ones((3, 1))}
    with pytest.raises(InputError, match="next_observations"):
        imported(qlearning, "local/following")
    with pytest.raises(InputError, match="observations"):
        imported({"observations": torch.ones(3, 1, requires_grad=True), "actions": np.ones((3, 1))}, "local/torch")


def test_arrays_and_columns_that_are_not_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays: dict[str, Any] = {"observations": np.random.default_rng(0).normal(size=(9, 2)), "actions": np.ones((9, 1))}
    late = np.arange(9) % 3 == 2
    file = write(
        tmp_path / "log.h5", arrays | {"terminals": np.zeros(9), "info/late": late.astype("f4"), "t": np.arange(9)}
    )
    imported(file)
    assert main(["data", "info", "local/log"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "info/late" in line)
    assert "terminals" not in line
    assert imported(file, "local/named", truncated="late").episode_lengths.tolist() == [3, 3, 3]
    (tmp_path / "log.csv").write_text("x,u,grip,over\n1,1,0,False\n2,1,0,True\n3,1,0,False\n")
    (note,) = imported(tmp_path / "log.csv", "local/csv", observations="x", actions="u").source["notes"]
    assert note.endswith("grip, over")


@pytest.mark.parametrize("kind", ["h5", "npz", "csv", "memory", "folder", "pkl"])
def test_unknown_layout_says_what_there_is_and_what_is_needed(kind: str, tmp_path: Path) -> None:
    arrays = {"position": np.zeros((5, 2)), "torque": np.ones((5, 1)), "over": np.arange(5) == 4}
    path, names = tmp_path / f"log.{kind}", {"observations": "position", "actions": "torque", "terminated": "over"}
    log: Any = path
    if kind == "h5":
        write(path, arrays)
    elif kind == "npz":
        np.savez(path, **arrays, objects=np.array([{}, 1], object))
    elif kind == "memory":
        log = arrays
    else:
        content = b"\x80\x04}\x94." if kind == "pkl" else b"position,torque\n1,2\n"
        (tmp_path / "position" if kind == "folder" else path).write_bytes(content)
        log = tmp_path if kind == "folder" else path
    words = {"csv": "position.*--observations", "folder": "position.*parquet", "pkl": r"log\.pkl.*import_log"}
    with pytest.raises(InputError, match=words.get(kind, r"position \(5, 2\).*observations")):
        imported(log)
    if kind not in words:
        assert imported(log, **names).terminated.all()


def test_folder_of_files_is_read_in_natural_order(whole: list[Episode], tmp_path: Path) -> None:
    """ALOHA's layout: a file for every episode, with observations in a group."""
    for index, e in enumerate(whole):
        content = {"action": e.actions, "observations/qpos": e.observations[:-1], "rewards": e.rewards}
        write(
            tmp_path / f"episode_{index}.hdf5", content | {"observations/images/top": np.zeros((4 + index, 48, 64, 3))}
        )
    truncated = [Episode(e.observations, e.actions, e.rewards, False, True) for e in cut(whole)]
    assert_equal(imported(tmp_path), truncated)
    for file in [*tmp_path.glob("*.hdf5")]:  # as some loggers name them
        file.rename(file.with_suffix(".HDF5"))
    assert_equal(imported(tmp_path, "local/other"), truncated)

"""`import_log`: CSV, parquet, tables in memory and HDF5 files of any task as datasets."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from data_files import assert_equal, write_hdf5
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from decision_rnn.cli.main import main
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.importing import import_log
from decision_rnn.data.info import format_info
from decision_rnn.environments.episode import Episode
from decision_rnn.utils.errors import InputError

NAMES: dict[str, Any] = {"observations": "obs_*", "actions": ["u", "v"], "reward": "r", "episode": "run"}
FLAGS = {"terminated": "over", "truncated": "late"}

pytestmark = pytest.mark.usefixtures("folders")


def table_of(episodes: list[Episode]) -> dict[str, np.ndarray]:
    """The log of episodes, a row for every step, with the columns of NAMES and FLAGS and a time `t`."""
    lengths = [len(episode.rewards) for episode in episodes]
    last = np.concatenate([np.arange(length) == length - 1 for length in lengths])
    observations = np.concatenate([episode.observations[:-1] for episode in episodes])
    actions = np.concatenate([episode.actions for episode in episodes])
    return {
        "run": np.repeat([f"flight {index}" for index in range(len(lengths))], lengths),
        "t": np.concatenate([np.arange(length) * 0.02 for length in lengths]),
        **{f"obs_{index}": column for index, column in enumerate(observations.T)},
        "u": actions[:, 0],
        "v": actions[:, 1],
        "r": np.concatenate([episode.rewards for episode in episodes]),
        "over": last & np.repeat([episode.terminated for episode in episodes], lengths),
        "late": last & np.repeat([episode.truncated for episode in episodes], lengths),
    }


def short_log(**changes: Any) -> dict[str, Any]:
    """A log of two episodes, of two and three rows, with changed columns."""
    return {
        "run": [1, 1, 2, 2, 2],
        "t": [0, 1, 0, 1, 2],
        "obs_0": [0.0, 1.0, 2.0, 3.0, 4.0],
        "u": [1.0, 2.0, 3.0, 4.0, 5.0],
        "v": [0.0] * 5,
        "r": [1.0, 10.0, 100.0, 1000.0, 10000.0],
        **changes,
    }


def imported(log: Any, name: str = "local/log", **options: Any) -> list[Episode]:
    return list(import_log(log, name, **{**NAMES, **options}).store)


@pytest.mark.parametrize("kind", ["csv", "semicolons", "parquet", "PARQUET", "memory"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_log_gives_the_episodes_it_was_made_of(
    kind: str, shuffled: bool, episodes: list[Episode], tmp_path: Path
) -> None:
    log, options = pa.table(table_of(episodes)), {**FLAGS}
    if shuffled:
        rows = np.random.default_rng(0).permutation(len(log))
        log, options = log.take(rows), {**FLAGS, "time": "t"}
    path = tmp_path / f"log.{kind}"
    if kind.lower() == "parquet":
        pa.parquet.write_table(log, path, row_group_size=20)
    elif kind != "memory":
        pa.csv.write_csv(log, path, pa.csv.WriteOptions(delimiter=";" if kind == "semicolons" else ","))
    read = imported(log.to_pandas() if kind == "memory" else path, **options)
    if shuffled:
        read, episodes = (sorted(each, key=lambda episode: len(episode.rewards)) for each in (read, episodes))
    for episode in episodes:
        episode.observations[-1] = episode.observations[-2]
    assert_equal(read, episodes)


def test_last_row_without_an_action_is_the_final_observation() -> None:
    log = short_log(u=[1, 2, 3, 4, None], v=[0, 0, 0, 0, None], r=[1, 10, 100, 1000, None])
    first, second = imported(log)
    np.testing.assert_array_equal(first.observations[:, 0], [0, 1, 1])  # no row is lost
    np.testing.assert_array_equal(second.observations[:, 0], [2, 3, 4])
    np.testing.assert_array_equal(second.actions[:, 0], [3, 4])
    np.testing.assert_array_equal(second.rewards, [100, 1000])
    assert (first.terminated, first.truncated) == (second.terminated, second.truncated) == (False, True)
    _, ended = imported({**log, "over": [0, 0, 0, 0, 1]}, "local/ended", terminated="over")
    assert (len(ended.rewards), ended.terminated) == (2, True)
    info = format_info(open_dataset("local/log"))
    assert [line.split()[1] for line in info.splitlines() if line.strip()[:1].isdigit()] == ["obs_0", "u", "v"]


@pytest.mark.parametrize("flagged", [[2], [3], [2, 3]], ids=str)
def test_final_observation_follows_the_flagged_row(flagged: list[int]) -> None:
    """As Gymnasium's loops log: `done` on the row of the last action, the last observation in a row of its own."""
    log = {"obs_0": range(7), "u": [1, 2, 3, None, 5, 6, None], "r": [1, 1, 1, None, 1, 1, 0]}
    log["over"] = [row in flagged or row == 5 for row in range(7)]
    first, second = imported(log, actions="u", episode=None, terminated="over")
    np.testing.assert_array_equal(first.observations[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(second.observations[:, 0], [4, 5, 6])
    np.testing.assert_array_equal(second.actions[:, 0], [5, 6])
    assert first.terminated
    assert second.terminated


def test_csv_with_spaces_after_its_commas(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("run, t, obs_0, u, v, r, over\nA, 0, 1, 2, 3, 4, False\nA, 1, 5, , 3, 0, True\n")
    (read,) = imported(tmp_path / "log.csv", time="t", terminated="over", missing="end_episode")
    np.testing.assert_array_equal(read.observations, [[1], [5]])
    np.testing.assert_array_equal(read.actions, [[2, 3]])


def test_log_without_episodes_is_cut_at_flags_and_files() -> None:
    cut = imported(short_log(over=[0, 1, None, 0, 0]), episode=None, terminated="over")
    whole = imported([short_log(), short_log()], "local/whole", episode=None)
    assert [(len(episode.rewards), episode.terminated) for episode in cut] == [(2, True), (3, False)]
    assert [len(episode.rewards) for episode in whole] == [5, 5]


def test_parquet_lists_are_entries_and_rewards_may_be_missing(tmp_path: Path) -> None:
    """The layout of LeRobot's files."""
    states, actions = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[0.5], [0.25], [0.125]]
    log = {"observation.state": states, "action": actions, "id": [7, 7, 8]}
    pa.parquet.write_table(pa.table(log), tmp_path / "log.parquet")
    dataset = import_log(tmp_path / "log.parquet", "local/lists", "observation.state", "action", episode="id")
    first, second = dataset.store
    np.testing.assert_array_equal(first.observations, [[1, 2], [3, 4], [3, 4]])
    np.testing.assert_array_equal(second.actions, [[0.125]])
    assert not first.rewards.any()
    assert dataset.store.entry_names("observations") == ["observation.state[0]", "observation.state[1]"]


def test_missing_numbers_raise_or_drop_or_end_the_episode() -> None:
    log = short_log(obs_0=[0, 1, 2, 3, None])
    with pytest.raises(InputError, match=r"row 4 .* obs_0"):
        imported(log)
    (dropped,) = imported(log, "local/dropped", missing="drop_episode")
    np.testing.assert_array_equal(dropped.rewards, [1, 10])
    _, ended = imported(log, "local/ended", missing="end_episode")
    np.testing.assert_array_equal(ended.observations[:, 0], [2, 3, 3])
    assert (ended.terminated, ended.truncated) == (False, False)
    _, known = imported(short_log(r=[1, 10, 100, 1000, np.inf]), "local/known", missing="end_episode")
    np.testing.assert_array_equal(known.observations[:, 0], [2, 3, 4])  # the row's observation is complete
    with pytest.raises(InputError, match="no episodes"):
        imported(short_log(u=[None] * 5), "local/none", missing="end_episode")


def test_column_of_choices_is_read_as_discrete_actions() -> None:
    choices: dict[str, Any] = {"actions": "u", "action_space": Discrete(3)}
    one, other = imported(short_log(u=[2, 0, 1, 2, 1]), "local/chosen", **choices)
    np.testing.assert_array_equal(one.actions, [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(other.actions, [[0, 1, 0], [0, 0, 1], [0, 1, 0]])
    _, ended = imported(short_log(u=[2, 0, 1, None, 1]), "local/gap", missing="end_episode", **choices)
    np.testing.assert_array_equal(ended.actions, [[0, 1, 0]])
    with pytest.raises(InputError, match=r"3.*0 to 2"):
        imported(short_log(u=[2, 0, 1, 3, 1]), "local/beyond", **choices)


def test_command_imports_choices_in_one_column_or_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ["--observations", "obs_0", "--reward", "r", "--episode", "run"]
    pa.csv.write_csv(pa.table(short_log(u=[2, 0, 1, 2, 1], v=[1, 1, 0, 0, 0])), tmp_path / "log.csv")
    for name, words, space in (
        ("local/quantities", ["--actions", "u"], Box(0, 2, (1,))),
        ("local/one", ["--actions", "u", "--choices", "3"], Discrete(3)),
        ("local/two", ["--actions", "u,v", "--choices", "3,2"], MultiDiscrete([3, 2])),
    ):
        assert main(["data", "import", str(tmp_path / "log.csv"), "--name", name, *columns, *words]) == 0
        assert ("from 0 to 2" in capsys.readouterr().err) == isinstance(space, Box)
        dataset = open_dataset(name)
        assert dataset.store.action_space == space
        assert ("Discrete(3)" in format_info(dataset).partition("note")[0]) == (name == "local/one")
        assert dataset.spec.action_names == ("u", "v")[: 1 + (name == "local/two")]
        labels = {"local/quantities": ["u"], "local/one": ["u 0", "u 1", "u 2"]}
        assert dataset.store.labels("actions") == labels.get(name, ["u 0", "u 1", "u 2", "v 0", "v 1"])


def test_logs_of_other_columns_are_refused() -> None:
    imported(short_log())
    with pytest.raises(InputError, match=r"columns.*obs_1"):
        imported([short_log(), short_log(obs_1=[0.0] * 5)], "local/new")
    with pytest.raises(InputError, match="local/log"):
        imported(short_log())


@pytest.mark.parametrize(
    ("changes", "options", "word"),
    [
        ({}, {"reward": "rew"}, "'rew'"),
        ({}, {"actions": "u,obs0"}, "Did you mean obs_0"),
        ({}, {"observations": ""}, "Expected observations"),
        ({"u": ["1", "2", "three", "4", "5"]}, {}, "column u .*three"),
        ({"u": [0, -1e300, 0, 0, 0]}, {}, "row 1 .* u"),
        ({"run": [1, 1, None, 2, 2]}, {}, "row 2 .* run"),
        ({"t": [0, 1, 0, 1, 1]}, {"time": "t"}, "t .* row 3"),
        ({}, {"time": "t", "episode": None}, "t .* row 0"),
        ({"over": [1, 0, 0, 0, 0]}, {"terminated": "over"}, "terminated .* row 0"),
        ({"over": [2, 0, 0, 0, 0]}, {"terminated": "over"}, "row 0 .* over"),
        ({"u": [[1.0]] * 4 + [[1.0, 2.0]]}, {}, "column u"),
        ({}, {"name": "log"}, "local/"),
    ],
)
def test_invalid_log_names_column_and_row(
    changes: dict[str, Any], options: dict[str, Any], word: str, folders: Path
) -> None:
    with pytest.raises(InputError, match=word):
        imported(short_log(**changes), **options)
    assert not list((folders / "data").glob("local/*"))


def test_clock_that_starts_again_is_refused_without_a_column_of_episodes() -> None:
    log = short_log(t=[0.003, 0.103, 0.007, 0.107, 0.207])
    assert len(imported(log, time="t")) == 2
    with pytest.raises(InputError, match=r"t does not order the rows .*row 2.*identifies episodes"):
        imported(log, "local/one", time="t", episode=None)


@pytest.mark.parametrize("content", [b"", b"run,obs_0,u,v,r\n1,2,-,4,5\n", b"\x7fELF\0\0", None])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_unreadable_file_is_named(content: bytes | None, suffix: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / f"log.{suffix}").write_bytes(content)
    with pytest.raises(InputError, match=rf"log\.{suffix}") as raised:
        imported(tmp_path / f"log.{suffix}")
    assert "needs" not in str(raised.value)


def test_import_without_a_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    logs: dict[str, Any] = {"pyarrow": "log.parquet", "pandas": short_log()}
    for package, log in logs.items():
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(InputError, match=rf"log.* needs the package {package}.*logs"):
            imported(log)


@pytest.mark.parametrize("kind", ["date", "number", "category"])
def test_frames_of_other_types(kind: str) -> None:
    """Times as text are in the order of their dates or numbers, where 10 is after 9."""
    steps, ids = np.arange(24), np.repeat(["b", "a"], 12)
    frame = pandas.DataFrame({"run": ids, "t": steps % 12, "x": steps * 0.5, "u": 1.0})
    expected = [frame.x[:12], frame.x[12:]]
    if kind == "date":
        frame["t"] = [f"2026-01-31 12:00:{step % 12}" for step in steps]
    if kind == "number":
        frame["t"] = [f"{step % 12 / 2}" for step in steps]
    frame = frame.sample(frac=1, random_state=0).sort_values("run", ascending=False, kind="stable")
    frame["run"] = frame.run.astype("category") if kind == "category" else frame.run
    names = {"observations": "x", "actions": "u", "reward": None, "time": "t"}
    for episode, x in zip(imported(frame, **names), expected, strict=True):
        np.testing.assert_array_equal(episode.observations[:-1, 0], x)
    assert imported(frame, "local/untimed", **names | {"time": None})


@pytest.mark.parametrize("values", [pandas.date_range("2026", periods=5), np.arange(5) * 1j], ids=["dates", "complex"])
def test_values_that_are_no_numbers_are_refused(values: Any) -> None:
    for missing in ("error", "drop_episode"):
        with pytest.raises(InputError, match=r"obs_0.*numbers"):
            imported(pandas.DataFrame(short_log(obs_0=values)), missing=missing)


def test_d4rl_file_of_any_task_is_imported(tmp_path: Path) -> None:
    """Maze2d's sizes, flags as numbers and goals in `infos`, without timeouts, as older files."""
    random = np.random.default_rng(0)
    arrays = {
        "observations": random.normal(size=(9, 4)),
        "actions": random.normal(size=(9, 2)),
        "rewards": np.arange(9.0)[:, None],
        "terminals": np.array([0, 0, 0, 1, 0, 0, 0, 0, 1.0]),
        "infos/goal": random.normal(size=(9, 2)),
    }
    import_log(write_hdf5(tmp_path / "maze.hdf5", arrays), "local/maze", environment_id="Maze-v9")
    store = open_dataset("local/maze").store
    assert store.episode_lengths.tolist() == [4, 5]
    assert (store.environment_id, store.observation_dim, store.action_dim) == ("Maze-v9", 4, 2)


def test_missing_numbers_of_a_d4rl_file(tmp_path: Path) -> None:
    """In a file whose rows say what followed, where NaN is no seam, though NaN differs from itself."""
    observations = np.arange(20.0).reshape(10, 2)
    observations[4, 1] = np.nan
    arrays = {
        "observations": observations[:-1],
        "next_observations": observations[1:],
        "actions": np.ones((9, 1)),
        "rewards": np.ones(9),
        "terminals": np.arange(9) % 3 == 2,
    }
    file = write_hdf5(tmp_path / "arm.hdf5", arrays)
    with pytest.raises(InputError, match=r"local/arm .*episode 1 has observations"):
        import_log(file, "local/arm")
    for missing, lengths in (("drop_episode", [3, 3]), ("end_episode", [3, 1, 3])):
        store = import_log(file, f"local/{missing}", missing=missing).store
        assert store.episode_lengths.tolist() == lengths
        assert any("1 of 3 episodes had missing numbers: " in note for note in store.source["notes"])


def test_rows_of_a_list_are_a_table() -> None:
    rows = [dict(zip(short_log(), values, strict=True)) for values in zip(*short_log().values(), strict=True)]
    assert_equal(imported(rows, "local/rows"), imported(short_log(), "local/columns"))
    assert "return 0" not in format_info(import_log(rows, "local/cloned", "obs_0", "u", episode="run"))


def test_two_robots_that_count_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of episodes 1 and 2 of two robots: one column joins the robots, which is said, and two tell them apart."""
    log = {"robot": ["a", "a", "a", "b", "b"], "run": [1, 1, 2, 1, 2], "t": [0, 1, 0, 5, 6], "x": np.arange(5.0)}
    log |= {"u": np.zeros(5), "over": [0, 1, 1, 0, 0]}
    options: dict[str, Any] = {"observations": "x", "actions": "u", "time": "t"}
    import_log(log, "local/joined", **options, episode="run")
    assert "robot,run" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"row 1\b.*robot,run"):
        import_log(log, "local/over", **options, episode="run", terminated="over")
    arrays = {key: np.array(values) for key, values in log.items()} | {"x": np.arange(5.0)[:, None]}
    for name, each in (("table", log), ("arrays", arrays)):
        apart = import_log(each, f"local/{name}", **options | {"time": None}, episode="robot,run", terminated="over")
        assert [e.observations[:-1, 0].tolist() for e in apart] == [[0, 1], [2], [3], [4]]
        assert apart.store.terminated.tolist() == [True, True, False, False]
    assert "side by side" not in capsys.readouterr().err


def test_actions_in_another_unit_than_their_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    degrees = np.linspace(-90, 90, 50)
    log = {"x": np.arange(50.0), "u": degrees, "v": np.radians(degrees)}
    for high, words in ((1.6, ["100.0% of the steps", "-1.6 to 1.6"]), (90, ["entry 1 (v) of the actions"])):
        import_log(log, "local/units", "x", "u,v", action_low=-high, action_high=high, overwrite=True)
        told = capsys.readouterr().err
        assert all(word in told for word in [*words, "unit"])
        assert all(word in format_info(open_dataset("local/units")) for word in words)
    import_log(log, "local/units", "x", "u,v", overwrite=True)
    assert "unit" not in capsys.readouterr().err.replace("local/units", "")

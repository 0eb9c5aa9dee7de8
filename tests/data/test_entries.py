"""The table of entries against numpy, and the plot of a dataset."""

from pathlib import Path

import numpy as np
import pytest
from data_files import hopper_episodes, random_episode, written
from gymnasium.spaces import Box, Dict, Discrete

from decision_rnn import Episode, open_dataset, write_store
from decision_rnn.cli.main import main
from decision_rnn.data import writing
from decision_rnn.data.entries import entry_statistics, format_entries
from decision_rnn.data.info import format_info, warn_of_copies

pytestmark = pytest.mark.usefixtures("folders")


def odd_episodes(sizes: tuple[int, int] = (4, 2), reward: float | None = None) -> list[Episode]:
    """Episodes in which entry 1 keeps its value for two steps at a time; the third begins far away in entry 2."""
    generator, episodes = np.random.default_rng(0), []
    for number, length in enumerate((9, 1, 24, 13)):
        episodes.append(random_episode(generator, (length, False, True), sizes))
        episodes[-1].observations[:, 1] = np.arange(length + 1) // 2
        episodes[-1].observations[0, 2] += 100 * (number == 2)
        if reward is not None:
            episodes[-1].rewards[:] = reward
    return episodes


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of every row of a table by name."""
    return {line.split()[1]: line.split()[2:] for line in text.splitlines() if line.strip()[:1].isdigit()}


@pytest.mark.parametrize("chunk", [7, 65_536])
def test_statistics_are_those_of_numpy(chunk: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(writing, "CHUNK", chunk)
    episodes = odd_episodes()
    low, high = np.array([-0.5, -9], np.float32), np.array([0.25, 9], np.float32)
    store = write_store("local/log", episodes, action_space=Box(low, high))
    for kind in ("observations", "actions"):
        values = np.concatenate([getattr(episode, kind)[: len(episode.rewards)] for episode in episodes]).astype(float)
        statistics = entry_statistics(store, kind)
        for name in ("min", "max", "mean", "std"):
            np.testing.assert_allclose(statistics[name], getattr(values, name)(axis=0), rtol=1e-6, err_msg=name)
        steps = [np.diff(getattr(episode, kind)[: len(episode.rewards)], axis=0) == 0 for episode in episodes]
        np.testing.assert_allclose(statistics["constant"], np.concatenate(steps).mean(axis=0))
        outside = (values < low) | (values > high) if kind == "actions" else np.zeros_like(values)
        np.testing.assert_allclose(statistics["outside"], outside.mean(axis=0))
    single = written(tmp_path / "single", hopper_episodes([(1, True, False)]))
    assert np.isnan(entry_statistics(single, "actions")["constant"]).all()


def test_values_outside_the_bounds_of_a_dict_are_counted() -> None:
    space = Dict(gear=Discrete(3), place=Box(-1, 1, (2,)))
    observations = {"gear": np.array([0, 2, 1]), "place": np.array([[0, 0], [0, 3], [0, 0.5]])}
    flags = {"rewards": np.zeros(2), "terminated": False, "truncated": True}
    episode = Episode(observations, np.zeros((2, 1)), **flags)  # type: ignore[arg-type]
    store = write_store("local/log", [episode], observation_space=space)
    assert entry_statistics(store, "observations")["outside"].tolist() == [0, 0, 0, 0, 0.5]


def test_table_names_every_entry_of_both_kinds() -> None:
    columns = {"observations": ["angle", "speed", "height", "a-name-of-many-letters-that-goes-on-and-on"]}
    columns["actions"] = ["left", "right"]
    store = write_store("local/log", odd_episodes(), columns=columns, action_space=Box(-0.5, 0.5, (2,)))
    text = format_entries(store)
    rows = rows_of(text)
    assert list(rows)[:3] == ["angle", "speed", "height"]
    assert max(map(len, text.splitlines())) <= 120
    statistics = entry_statistics(store, "actions")
    for entry, name in enumerate(("left", "right")):
        *numbers, constant, outside = rows[name]
        exact = [statistics[key][entry] for key in ("min", "max", "mean", "std")]
        np.testing.assert_allclose(np.array(numbers, float), exact, rtol=1e-3)
        assert (constant, outside) == ("0.0%", f"{statistics['outside'][entry]:.2%}")
    assert len(rows["speed"]) == 5  # no bounds, no column


def test_long_tables_say_how_much_they_leave_out(tmp_path: Path) -> None:
    text = format_entries(written(tmp_path / "wide", odd_episodes((110, 100)), None))
    assert sum(line.strip()[:1].isdigit() for line in text.splitlines()) == 200
    assert "10 more" in text


def test_constant_entries_are_no_copies_of_rare_choices() -> None:
    """As in a T-Maze, whose hint and place are 0 wherever the agent does not turn yet."""
    actions = np.eye(3, dtype=np.float32)[[0, 0, 0, 0, 1]]
    episodes = [Episode(np.zeros((6, 2)), actions, np.zeros(5), True, False)]
    assert list(warn_of_copies(write_store("local/maze", episodes, action_space=Discrete(3)))) == []


def test_scores_are_left_out_without_references() -> None:
    write_store("local/robot", odd_episodes())
    write_store("local/unrewarded", odd_episodes((11, 3), reward=0.0))
    write_store("local/hopper", hopper_episodes(), "Hopper-v5")
    for name, scored in (("robot", False), ("unrewarded", False), ("hopper", True)):
        keys = {line.split()[0] for line in format_info(open_dataset(f"local/{name}")).splitlines() if line.strip()}
        assert (({"score", "scale", "compare"} & keys) != set()) == scored, name


def test_plot_shows_the_extreme_episode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    figures: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda *words, **options: [figures.append(words[0]), save(*words, **options)]
    )
    columns = {"observations": ["angle", "speed", "height", "tilt"], "actions": ["left", "right"]}
    write_store("local/log", odd_episodes(), columns=columns)
    for name in ("log", "log.png"):
        assert main(["data", "info", "local/log", "--plot", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes()[1:4] == b"PNG"
    panels = figures[0].get_axes()
    (place,) = (index for index, panel in enumerate(panels) if "height" in panel.get_title())
    assert "episode 2:" in panels[place].get_title()
    assert {"height", "left"} <= {panel.get_ylabel() for panel in panels}
    series = [panel.get_lines()[0].get_ydata() for panel in panels[place:]]
    height = open_dataset("local/log")[2].observations[:-1, 2]
    assert any(len(each) == len(height) and np.array_equal(each, height) for each in series)

"""Options of `import_log` for a robot's logs: bounds of actions, every n-th step, and what patterns match."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import decision_rnn
from decision_rnn import Episode, InputError, import_log
from decision_rnn.cli.main import main
from decision_rnn.data.dataset import dataset_names

pytestmark = pytest.mark.usefixtures("folders")


def log_of(lengths: tuple[int, ...] = (7, 6, 1)) -> dict[str, Any]:
    """A log of flights of these lengths with two observations and two actions; the second one terminates."""
    random, flights = np.random.default_rng(0), np.repeat(np.arange(len(lengths)), lengths)
    names = ("pose_x", "pose_y", "motor_a", "motor_b", "gain")
    last = np.append(np.diff(flights) > 0, True)
    columns = {name: random.uniform(-1, 1, len(flights)) for name in names}
    return {"flight": flights, **columns, "over": last & (flights == 1)}


def imported(name: str, log: dict[str, Any], **options: Any) -> list[Episode]:
    columns = {"observations": "pose_*", "actions": "motor_*", "reward": "gain", "episode": "flight"}
    return list(import_log(log, name, **{**columns, "terminated": "over", **options}).store)


@pytest.mark.parametrize(
    ("bounds", "expected"), [((-2, "2.5"), ([-2, -2], [2.5, 2.5])), (("-3,-2", "1,4"), ([-3, -2], [1, 4]))]
)
def test_bounds_become_the_action_space(bounds: tuple[Any, str], expected: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", observations=np.zeros((9, 3)), actions=np.full((9, 2), 0.5), rewards=np.zeros(9))
    words = ["data", "import", str(tmp_path / "log.npz"), "--name", "local/arm"]
    assert main([*words, "--action_low", str(bounds[0]), "--action_high", bounds[1]]) == 0
    store = decision_rnn.open_dataset("local/arm").store
    assert store.action_space == Box(*np.float32(expected))
    assert (store.steps, len(store)) == (9, 1)
    for low, high in ((str(bounds[0]), bounds[1]), map(np.array, expected)):
        same = import_log(tmp_path / "log.npz", "local/same", action_low=low, action_high=high, overwrite=True).store
        assert same.action_space == store.action_space


def test_every_as_text_keeps_as_many_steps() -> None:
    for one, other in zip(
        imported("local/text", log_of(), every="2"), imported("local/2", log_of(), every=2), strict=True
    ):
        np.testing.assert_array_equal(one.actions, other.actions)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"action_low": [-1, -1, -1], "action_high": 1}, "action_low"),
        ({"action_high": 1}, "action_low"),
        ({"action_low": 0, "action_high": [1, -1]}, "action_high"),
        ({"action_low": -1, "action_high": 1, "action_space": Discrete(2)}, "action_low"),
        ({"every": 0}, "every"),
    ],
)
def test_invalid_options_are_named(options: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=key):
        imported("local/log", log_of(), **options)
    assert "local/log" not in dataset_names()


@pytest.mark.parametrize("number", [2, 3, 100])
@pytest.mark.parametrize("discrete", [False, True])
def test_every_nth_step_keeps_rewards_and_ends(number: int, discrete: bool) -> None:
    log, options = log_of(), dict[str, Any]()
    if discrete:
        options = {"actions": "motor_a", "action_space": Discrete(3)}
        log["motor_a"] = np.random.default_rng(1).integers(0, 3, len(log["flight"]))
    whole = imported("local/whole", log, **options)
    sampled = imported("local/sampled", log, every=number, **options)
    for before, after in zip(whole, sampled, strict=True):
        steps = range(0, len(before.rewards), number)
        np.testing.assert_array_equal(after.actions, [before.actions[step] for step in steps])
        np.testing.assert_array_equal(after.observations[:-1], [before.observations[step] for step in steps])
        np.testing.assert_array_equal(after.observations[-1], before.observations[-1])
        np.testing.assert_allclose(after.rewards, [sum(before.rewards[step : step + number]) for step in steps])
        assert (after.terminated, after.truncated) == (before.terminated, before.truncated)


def test_columns_of_patterns_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    log = log_of()
    imported("local/log", {**log, "pid_controller_0": log["motor_a"]}, observations="p*")
    printed = capsys.readouterr()
    assert all(name in printed.out for name in ("pose_x", "pose_y", "pid_controller_0"))
    assert "gain" not in printed.err


def test_whole_name_is_no_pattern(tmp_path: Path) -> None:
    """A column with brackets, and an array that is in another group too, as Isaac Lab's last action."""
    log = log_of()
    exact = imported("local/exact", {"q[0]": log["pose_x"], "q0": log["pose_y"], **log}, observations="q[0]")
    np.testing.assert_array_equal(exact[0].observations[:-1, 0], log["pose_x"][:7].astype(np.float32))
    with h5py.File(tmp_path / "demos.hdf5", "w") as file:
        for path, width in (("actions", 1), ("obs/actions", 1), ("obs/policy", 4)):
            file[f"data/demo_0/{path}"] = np.ones((5, width))
    store = import_log(tmp_path / "demos.hdf5", "local/demos", "policy", "actions").store
    assert (store.observation_dim, store.action_dim) == (4, 1)

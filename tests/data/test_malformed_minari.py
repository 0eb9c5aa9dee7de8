"""Malformed Minari datasets: each raises an InputError and leaves nothing behind."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
import pytest
from faults import FEW_AND_MANY, Draw, Payload, assert_nothing_made, explore, pickled_objects
from hypothesis import strategies as st

from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.formats.minari import write_dataset
from decision_rnn.data.store.episode import Episode
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError

ID = "theirs/bad-v0"
LENGTHS = (3, 5, 1)
ARRAYS = ("observations", "actions", "rewards", "terminations", "truncations")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a valid dataset of three episodes."""
    root = tmp_path_factory.mktemp("good")
    generator = np.random.default_rng(0)
    normal = generator.normal
    episodes = [Episode(normal(size=(n + 1, 11)), normal(size=(n, 3)), normal(size=n), True, False) for n in LENGTHS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        write_dataset(ID, episodes, environment_id="Hopper-v5", metadata={}, source={})
    return root / ID / "data"


def replace_array(draw: Draw, folder: Path, values: Any, keys: tuple[str, ...] = ARRAYS) -> None:
    """Replace one array of one episode by `values`, or delete it."""
    episode, key = draw(st.integers(0, len(LENGTHS) - 1)), draw(st.sampled_from(keys))
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        old = file[f"episode_{episode}"][key][()]
        del file[f"episode_{episode}"][key]
        new = values(old) if callable(values) else values
        if new is not None:
            file[f"episode_{episode}"][key] = new


def missing_array(draw: Draw, folder: Path) -> None:
    replace_array(draw, folder, None)


def wrong_length(draw: Draw, folder: Path) -> None:
    by = draw(st.sampled_from((-1, 1, 7)))
    replace_array(draw, folder, lambda old: np.zeros((len(old) + by, *old.shape[1:]), old.dtype))


def wrong_rank(draw: Draw, folder: Path) -> None:
    replace_array(draw, folder, draw(st.sampled_from((lambda old: old[..., None], lambda old: np.float32(0)))))


def wrong_width(draw: Draw, folder: Path) -> None:
    width = draw(st.sampled_from((0, 1, 2, 12)))
    replace_array(draw, folder, lambda old: np.zeros((len(old), width)), ("observations", "actions"))


def not_finite(draw: Draw, folder: Path) -> None:
    value = draw(st.sampled_from((np.nan, np.inf, -np.inf, 1e39)))

    def spoil(old: np.ndarray) -> np.ndarray:
        new = old.astype(np.float64)
        new.reshape(-1)[draw(st.integers(0, new.size - 1))] = value
        return new

    replace_array(draw, folder, spoil)  # flags too, which are then neither 0 nor 1


def disagreeing_flags(draw: Draw, folder: Path) -> None:
    """An end before the last step."""
    key = draw(st.sampled_from(("terminations", "truncations")))
    episode = draw(st.integers(0, 1))
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        file[f"episode_{episode}"][key][draw(st.integers(0, LENGTHS[episode] - 2))] = True


def wrong_type(draw: Draw, folder: Path) -> None:
    types = [np.array([b"0.5"]), np.zeros(3, np.complex64), np.zeros(3, [("x", np.float32)]), h5py.Empty(np.float32)]
    replace_array(draw, folder, draw(st.sampled_from(types)))


def a_pickle(draw: Draw, folder: Path) -> None:
    protocol = draw(st.integers(0, 5))
    content = pickle.dumps(Payload(folder / "mark"), protocol)
    kind = draw(st.sampled_from(("data", "metadata", "array", "objects")))
    if kind == "array":
        replace_array(draw, folder, np.void(content))
    elif kind == "objects":
        replace_array(draw, folder, pickled_objects(folder / "mark", protocol))
    else:
        (folder / ("main_data.hdf5" if kind == "data" else "metadata.json")).write_bytes(content)


def empty(draw: Draw, folder: Path) -> None:
    """An episode without steps."""
    episode = f"episode_{draw(st.integers(0, len(LENGTHS) - 1))}"
    kept = draw(st.sampled_from((0, 1)))  # only the first observation, or nothing
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        for key in ARRAYS:
            values = file[episode][key][: kept * (key == "observations")]
            del file[episode][key]
            file[episode][key] = values


def cut_short(draw: Draw, folder: Path) -> None:
    file = folder / draw(st.sampled_from(("main_data.hdf5", "metadata.json")))
    content = file.read_bytes()
    file.write_bytes(content[: draw(st.integers(0, len(content) - 1))])


def absent(draw: Draw, folder: Path) -> None:
    (folder / draw(st.sampled_from(("main_data.hdf5", "metadata.json")))).unlink()


def wrong_count(draw: Draw, folder: Path) -> None:
    count = draw(st.sampled_from((None, -1, 0, 1, 2, 4, 10**12, "3", [3], 1e400)))
    edit(folder, total_episodes=count)


def lost_episode(draw: Draw, folder: Path) -> None:
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        key = f"episode_{draw(st.integers(0, len(LENGTHS) - 1))}"
        kind = draw(st.sampled_from(("gone", "renamed", "linked", "an array", "all")))
        if kind == "renamed":
            file.move(key, "episode_7")
        elif kind == "all":
            file.clear()
        else:
            del file[key]
        if kind == "linked":
            file[key] = h5py.ExternalLink("other.hdf5", "/")
        elif kind == "an array":
            file[key] = np.zeros(3)
    if kind == "all":
        edit(folder, total_episodes=0)


def not_metadata(draw: Draw, folder: Path) -> None:
    content = draw(st.one_of(st.binary(max_size=50), st.sampled_from((b"[]", b"null", b"7", b"{}", b"[" * 10**5))))
    (folder / "metadata.json").write_bytes(content)


def not_flat(draw: Draw, folder: Path) -> None:
    spaces = ("7", "{}", "[]", "garbage", '{"type": "Discrete", "n": 3}', '{"type": "Box", "shape": [2, 2]}', 7)
    edit(folder, **{draw(st.sampled_from(("observation_space", "action_space"))): draw(st.sampled_from(spaces))})


def another_format(draw: Draw, folder: Path) -> None:
    edit(folder, data_format=draw(st.sampled_from(("arrow", "pickle", 7, None, ["hdf5"]))))


def another_environment(draw: Draw, folder: Path) -> None:
    usual = json.loads(gymnasium.spec("Hopper-v5").to_json())
    changes = (
        {"id": "HalfCheetah-v5", "entry_point": "os:getcwd"},
        {"id": "CartPole-v1", "max_episode_steps": 500},
        {"id": "os:system"},
    )
    edit(folder, eval_env_spec=json.dumps(usual | draw(st.sampled_from(changes))))


def edit(folder: Path, **changes: Any) -> None:
    file = folder / "metadata.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


FAULTS = [
    *(missing_array, wrong_length, wrong_rank, wrong_width, not_finite, disagreeing_flags, wrong_type, a_pickle, empty),
    *(cut_short, absent, wrong_count, lost_episode, not_metadata, not_flat, another_format, another_environment),
]


@FEW_AND_MANY
@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_minari_dataset_raises(
    fault: Callable[[Draw, Path], None], examples: int, good: Path, tmp_path: Path
) -> None:
    """Opening a faulty dataset in its own folder: the error names it, and nothing is left behind."""

    def refuse(data: st.DataObject) -> None:
        with pytest.MonkeyPatch.context() as patch:
            folder = tmp_path / os.urandom(8).hex()
            patch.setenv("DECISION_RNN_CACHE", str(folder / "cache"))
            patch.setenv("MINARI_DATASETS_PATH", str(folder / "minari"))
            copy = folder / "minari" / ID / "data"
            shutil.copytree(good, copy)
            fault(data.draw, copy)
            with pytest.raises(InputError, match=r"theirs/bad-v0|CartPole-v1") as raised:
                open_dataset(f"minari/{ID}").open()
            assert len(str(raised.value).splitlines()) == 1
            assert_nothing_made(copy)

    explore(refuse, examples)


@pytest.mark.usefixtures("folders")
def test_minari_dataset_without_faults_opens(good: Path, folders: Path) -> None:
    shutil.copytree(good, folders / "minari" / ID / "data")
    assert isinstance(open_dataset(f"minari/{ID}").open(), EpisodeStore)

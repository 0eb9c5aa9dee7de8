"""Minari's datasets, local and published: environments, reference scores, concatenation, and the converted store."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium.spaces import MultiBinary
from minari.serialization import serialize_space
from minari_files import boxes, edit, play, publish, specification
from random_episodes import rewards_of

from decision_rnn.data.dataset import dataset_names, open_dataset
from decision_rnn.data.episode import Episode
from decision_rnn.data.formats.minari import dataset_folder, write_dataset
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.environments import check_environment
from decision_rnn.utils.errors import InputError

MEDIUM, EXPERT = "mujoco/hopper/medium-v0", "mujoco/hopper/expert-v0"

pytestmark = [
    pytest.mark.usefixtures("folders"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # about metadata that Minari misses
]


def store_of(episodes: list[Episode], folder: Path) -> EpisodeStore:
    return EpisodeStore.write(folder, episodes, environment_id="Hopper-v5", source={})


def test_local_minari_dataset_has_its_environment_and_d4rl_references(folders: Path) -> None:
    episodes = play("Hopper-v5")
    publish("theirs/random-v3", episodes)
    store = open_dataset("minari/theirs/random-v3").store
    assert store.environment_id == "Hopper-v5"
    assert store.fingerprint == store_of(episodes, folders / "directly").fingerprint
    spec = open_dataset("minari/theirs/random-v3").spec
    assert (spec.environment_id, spec.reference_max, spec.target_returns) == ("Hopper-v5", 3234.3, (3600.0, 1800.0))
    assert "D4RL's for the same task, our choice" in spec.comparable
    assert "minari/theirs/random-v3" in dataset_names()
    publish("theirs/scored-v0", episodes, ref_min_score=5.0, ref_max_score=50.0)
    spec = open_dataset("minari/theirs/scored-v0").spec
    assert (spec.reference_min, spec.reference_max) == (5.0, 50.0)
    assert "the dataset's own" in spec.comparable
    published = open_dataset("minari/mujoco/walker2d/medium-v0").spec  # not here
    assert (published.environment_id, published.reference_max) == ("Walker2d-v5", 4592.3)
    with pytest.raises(InputError, match="leave out --path"):
        open_dataset("minari/theirs/random-v3", path=folders / "f.hdf5")


def test_minari_dataset_of_unknown_body_is_scored_between_its_own_returns() -> None:
    episodes = play("Pendulum-v1", 5)
    publish("pendulum/random-v0", episodes, "Pendulum-v1")
    dataset = open_dataset("minari/pendulum/random-v0")
    spec = dataset.spec
    returns = sorted(float(e.rewards.astype(np.float32).sum(dtype=np.float64)) for e in episodes)
    assert (spec.reference_min, spec.reference_max) == pytest.approx((returns[0], returns[-1]))
    assert spec.target_returns == pytest.approx((returns[-1], returns[2]))
    assert 1 <= abs(returns[0]) / spec.return_scale < 10
    assert "the scale is that of these data alone" in spec.comparable
    summary = DatasetSpec.from_store(spec, dataset.store)
    assert summary.scale == "0 is the data's lowest return, 100 its highest"
    assert replace(summary, reference_max=1e4).scale == "0 is the data's lowest return, 100 a return of 10000"


def test_store_round_trips_through_minari_bit_for_bit(folders: Path) -> None:
    generator = np.random.default_rng(0)
    kinds = [(1, True, False), (7, False, False), (9, True, True), (4, False, True), (2, False, False)]
    episodes = [
        Episode(generator.normal(size=(n + 1, 11)), generator.normal(size=(n, 3)), generator.normal(3, 1, n), *ends)
        for n, *ends in kinds
    ]
    store = store_of(episodes, folders / "store")
    write_dataset("local/copy-v0", store, environment_id="Hopper-v5", spaces=boxes(11, 3), metadata={}, source={})
    again = open_dataset("minari/local/copy-v0").store
    assert again.fingerprint == store.fingerprint
    np.testing.assert_array_equal(rewards_of(again), rewards_of(store))


def test_minari_medium_expert_concatenates_medium_and_expert(folders: Path) -> None:
    medium, expert = play("Hopper-v5", seed=1), play("Hopper-v5", seed=2)
    publish(MEDIUM, medium)
    publish(EXPERT, expert)
    store = open_dataset("minari/mujoco/hopper/medium-expert-v0").store
    assert store.fingerprint == store_of([*medium, *expert], folders / "both").fingerprint
    assert store.source["minari"] == [MEDIUM, EXPERT]


def test_minari_data_of_other_environments_than_the_name_says_raise() -> None:
    publish(MEDIUM, play("Hopper-v5"))
    publish(EXPERT, play("Hopper-v4"), "Hopper-v4")
    with pytest.raises(InputError, match=r"collected in Hopper-v5 and Hopper-v4: it is not what its name says"):
        open_dataset("minari/mujoco/hopper/medium-expert-v0")
    minari.delete_dataset(MEDIUM)
    publish(MEDIUM, play("HalfCheetah-v5"), "HalfCheetah-v5")
    with pytest.raises(InputError, match=r"collected in HalfCheetah-v5.*not what its name says"):
        open_dataset(f"minari/{MEDIUM}")


def test_minari_data_with_actions_that_agents_are_not_trained_on_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = publish("theirs/switches-v0", play("Hopper-v5"))
    edit(folder, env_spec=None, action_space=serialize_space(MultiBinary(3)))
    monkeypatch.setattr("decision_rnn.data.formats.minari.read_episodes", lambda dataset_id: pytest.fail("it is read"))
    with pytest.raises(InputError, match=r"switches-v0: the actions are MultiBinary\(3\): agents act in a Box"):
        open_dataset("minari/theirs/switches-v0")


def test_changed_minari_dataset_is_converted_again(capfd: pytest.CaptureFixture[str]) -> None:
    publish(MEDIUM, play("Hopper-v5", seed=1))
    first = open_dataset(f"minari/{MEDIUM}").store
    made = (first.path / "manifest.json").stat().st_mtime_ns
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint == first.fingerprint
    assert (first.path / "manifest.json").stat().st_mtime_ns == made
    minari.delete_dataset(MEDIUM)
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint == first.fingerprint  # the store outlives it
    publish(MEDIUM, play("Hopper-v5", seed=2))
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint != first.fingerprint
    assert "made from something else" in capfd.readouterr().err


def test_entry_point_in_minari_metadata_is_never_run(folders: Path) -> None:
    """gymnasium.make would call os.mkdir here."""
    mark = folders / "mark"
    hostile = specification(entry_point="os:mkdir", kwargs={"path": str(mark)})
    folder = publish("theirs/random-v0", play("Hopper-v5"))
    edit(folder, env_spec=hostile, observation_space=None, action_space=None)
    spec = open_dataset("minari/theirs/random-v0").spec
    with pytest.raises(InputError, match="with kwargs"):
        check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    edit(folder, env_spec=specification(id="no_such_module:X-v0", entry_point="os:getcwd"))
    with pytest.raises(InputError, match="names no environment"):
        open_dataset("minari/theirs/random-v0")
    assert not mark.exists()


@pytest.mark.parametrize(
    "specified",
    [
        "garbage",
        "{}",
        "[]",
        7,
        *('{"id": 5}', '{"id": ["x"]}', '{"id": "os:Hopper-v5"}', '{"id": "a\\nb-v0"}'),
        "[" * 9999,
    ],
)
def test_minari_dataset_without_usable_environment_raises(specified: Any) -> None:
    edit(publish("theirs/random-v0", play("Hopper-v5", 1)), env_spec=specified)
    with pytest.raises(InputError, match="names no environment"):
        open_dataset("minari/theirs/random-v0")


@pytest.mark.parametrize("specified", [None, ""])
def test_minari_dataset_without_environment_is_read_unless_its_name_says_which(specified: Any) -> None:
    edit(publish("theirs/random-v0", play("Hopper-v5", 1)), env_spec=specified)
    assert open_dataset("minari/theirs/random-v0").store.environment_id is None
    edit(publish(MEDIUM, play("Hopper-v5", 1)), env_spec=specified)
    with pytest.raises(InputError, match="it is not what its name says"):
        open_dataset(f"minari/{MEDIUM}")


@pytest.mark.parametrize("changes", [{"kwargs": {"frame_skip": 2}}, {"max_episode_steps": 50}])
def test_altered_minari_environment_is_not_taken_for_the_registered_one(changes: dict[str, Any]) -> None:
    edit(publish(MEDIUM, play("Hopper-v5", 1)), env_spec=specification(**changes))
    with pytest.raises(InputError, match=f"in Hopper-v5 with {next(iter(changes))}.*not what its name says"):
        open_dataset(f"minari/{MEDIUM}")


def test_render_mode_does_not_count_as_an_altered_environment() -> None:
    edit(publish("theirs/random-v0", play("Hopper-v5", 1)), env_spec=specification(kwargs={"render_mode": "rgb_array"}))
    assert open_dataset("minari/theirs/random-v0").store.environment_id == "Hopper-v5"


def test_minari_observations_of_another_size_than_the_environments_raise() -> None:
    episodes = [replace(e, observations=e.observations[:, :5]) for e in play("Hopper-v5")]
    publish("theirs/random-v0", episodes)
    with pytest.raises(InputError, match=r"minari/theirs/random-v0 .*episode 0 has .*\(5, 3\) numbers where \(11, 3\)"):
        open_dataset("minari/theirs/random-v0")


@pytest.mark.parametrize("error", [ImportError("no hub"), ConnectionError(), ValueError("no\nversion"), KeyError("x")])
def test_failed_minari_download_raises_one_line_error_and_is_tried_again(
    folders: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(dataset_id: str, force_download: bool) -> None:
        part = dataset_folder(dataset_id) / "data"
        part.mkdir(parents=True)
        (part / "metadata.json").write_text("{")
        raise error

    monkeypatch.setattr(minari, "download_dataset", fail)
    with pytest.raises(
        InputError, match=r"cannot download the Minari dataset mujoco/hopper/medium-v0 \(.*network"
    ) as e:
        open_dataset(f"minari/{MEDIUM}")
    assert len(str(e.value).splitlines()) == 1
    episodes = play("Hopper-v5")
    resumed = []

    def fetch(dataset_id: str, force_download: bool) -> None:
        resumed.append(force_download)
        shutil.rmtree(folders / "minari" / dataset_id)
        publish(dataset_id, episodes)

    monkeypatch.setattr(minari, "download_dataset", fetch)
    assert open_dataset(f"minari/{MEDIUM}").store.num_episodes == 3
    assert resumed == [True]


def test_missing_minari_dataset_is_downloaded_once(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = play("Hopper-v5")
    calls = []

    def fetch(dataset_id: str, force_download: bool) -> None:
        calls.append(dataset_id)
        print("Downloading")
        publish(dataset_id, episodes)

    monkeypatch.setattr(minari, "download_dataset", fetch)
    assert open_dataset(f"minari/{MEDIUM}").store.fingerprint == store_of(episodes, folders / "directly").fingerprint
    open_dataset(f"minari/{MEDIUM}")
    assert calls == [MEDIUM]
    assert list(minari.list_local_datasets()) == [MEDIUM]


def test_spec_of_a_minari_dataset_that_is_not_here_raises_without_downloading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minari, "download_dataset", lambda *_, **__: pytest.fail("downloaded"))
    dataset = open_dataset("minari/theirs/far-v0")
    with pytest.raises(InputError, match=r"no Minari dataset theirs/far-v0 .*data download minari/theirs/far-v0"):
        _ = dataset.spec

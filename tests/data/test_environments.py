"""Environments that are not installed or altered: their data are read, agents are not evaluated, and errors say why."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.registration import EnvSpec
from minari_files import edit, publish, specification
from run_config import parse_run

from decision_rnn import Episode, play_episodes, write_store
from decision_rnn.config import EvaluationConfig
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.info import format_info
from decision_rnn.data.sources.minari import write_minari
from decision_rnn.environments.registry import check_environment
from decision_rnn.evaluation.evaluate import score
from decision_rnn.training.checkpoint import last_checkpoint, load_agent
from decision_rnn.training.train import train
from decision_rnn.utils.errors import InputError

pytestmark = [
    pytest.mark.usefixtures("folders"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # about metadata that Minari misses
]
REACH = {"id": "FetchReachFlat-v4", "kwargs": {"reward_type": "dense"}, "max_episode_steps": 50}
ROBOTICS = ["gymnasium-robotics >= 1.3.1"]


@pytest.fixture
def episodes() -> list[Episode]:
    return list(play_episodes("Pendulum-v1", lambda observation: np.ones(1), episodes=2))


@pytest.fixture
def absent(episodes: list[Episode]) -> Path:
    """The data folder of a Minari dataset whose environment is not installed."""
    folder = publish("reach/medium-v0", episodes, "Pendulum-v1")
    edit(folder, env_spec=json.dumps(REACH), requirements=ROBOTICS)
    return folder


def test_minari_dataset_is_read_without_its_environment(absent: Path, episodes: list[Episode]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = open_dataset("minari/reach/medium-v0")
        store = dataset.store
    assert (store.num_episodes, store.environment_id) == (2, "FetchReachFlat-v4")
    np.testing.assert_array_equal(store.actions[: len(episodes[0].actions)], episodes[0].actions)
    assert store.source["requirements"] == ROBOTICS
    assert dataset.spec.requirements == tuple(ROBOTICS)
    with pytest.raises(
        InputError,
        match=r"'FetchReachFlat-v4'.*'gymnasium-robotics >= 1\.3\.1'",
    ) as raised:
        check_environment(dataset.spec.environment_id, dataset.spec.requirements)
    assert len(str(raised.value).splitlines()) == 1
    assert "gymnasium-robotics >= 1.3.1" in format_info(dataset)


@pytest.mark.parametrize(
    "changes",
    [
        {"kwargs": {"g": 9.0}},
        {"kwargs": {"xml_file": "/etc/passwd"}},
        {"max_episode_steps": 50},
        {"additional_wrappers": [{"name": "x", "entry_point": "os:system", "kwargs": {"command": "touch mark"}}]},
    ],
)
def test_data_of_an_altered_environment_are_read_but_check_environment_raises(
    changes: dict[str, Any], episodes: list[Episode], folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluation would use the registered environment, and its scores would be those of another one."""
    monkeypatch.chdir(folders)
    folder = publish("altered/random-v0", episodes, "Pendulum-v1")
    edit(folder, env_spec=specification("Pendulum-v1", **changes))
    dataset = open_dataset("minari/altered/random-v0")
    store = dataset.store
    assert store.environment_id == "Pendulum-v1"
    spec = dataset.spec
    with pytest.raises(InputError, match=f"collected in Pendulum-v1 with {next(iter(changes))}.*id of its own"):
        check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    assert "id of its own" in format_info(dataset)
    assert not (folders / "mark").exists()


def test_write_store_works_without_the_environment(
    episodes: list[Episode], monkeypatch: pytest.MonkeyPatch, folders: Path
) -> None:
    monkeypatch.setenv("DECISION_RNN_DATA", str(folders / "data"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = write_store("local/plant", episodes, environment_id="factory/Plant-v0")
    dataset = open_dataset("local/plant")
    assert dataset.spec.environment_id == store.environment_id == "factory/Plant-v0"
    text = format_info(dataset)
    assert "no environment 'factory/Plant-v0'" in text


@pytest.mark.parametrize("changes", [{}, {"id": "Pendulum-v1"}])
def test_minari_export_keeps_the_settings_of_a_missing_environment(absent: Path, changes: dict[str, str]) -> None:
    edit(absent, env_spec=json.dumps(REACH | changes))
    dataset = open_dataset("minari/reach/medium-v0")
    store, spec = dataset.store, dataset.spec
    write_minari("copy/reach-v0", store, spec)
    again = open_dataset("minari/copy/reach-v0")
    assert again.store.fingerprint == store.fingerprint
    assert (again.spec.environment_id, again.spec.requirements) == (spec.environment_id, spec.requirements)
    assert again.spec.environment_settings == spec.environment_settings


@pytest.mark.parametrize("changes", [{}, {"id": "Pendulum-v1"}])
def test_training_needs_no_environment_but_evaluation_does(
    absent: Path, tmp_path: Path, changes: dict[str, str]
) -> None:
    edit(absent, env_spec=json.dumps(REACH | changes))
    small = ["--backbone.width", "16", "--training.steps", "1", "--training.context", "4"]
    config = parse_run("test", ["minari/reach/medium-v0", *small])[0]
    with pytest.raises(InputError, match=changes.get("id", REACH["id"])):
        train(config, output=tmp_path / "evaluated")
    unscored = replace(config, evaluation=EvaluationConfig(episodes=0))
    trained = train(unscored, output=tmp_path / "run").agent
    spec = load_agent(last_checkpoint(tmp_path / "run")).provenance
    assert spec == trained.provenance
    assert (spec.environment_id, spec.requirements) == (changes.get("id", REACH["id"]), tuple(ROBOTICS))
    with pytest.raises(InputError, match=changes.get("id", REACH["id"])):
        score(trained, EvaluationConfig(episodes=1))


def test_environment_registered_with_a_class_is_recognised_after_minari_export(
    episodes: list[Episode], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As environments in a user's own module are: JSON cannot name a class."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path))
    registered = EnvSpec("Swing-v0", PendulumEnv, kwargs={"g": 9.0}, max_episode_steps=200)
    monkeypatch.setitem(gymnasium.registry, "Swing-v0", registered)
    store = write_store("local/swing", episodes, environment_id="Swing-v0")
    write_minari("swing/x-v0", store, open_dataset("local/swing").spec)
    spec = open_dataset("minari/swing/x-v0").spec
    assert spec.environment_settings == {"kwargs": {"g": 9.0}, "max_episode_steps": 200, "additional_wrappers": []}
    check_environment(spec.environment_id, spec.requirements, spec.environment_settings)
    monkeypatch.setitem(gymnasium.registry, "Swing-v0", replace(registered, kwargs={"g": 3.7}))
    with pytest.raises(InputError, match="collected in Swing-v0 with kwargs"):
        check_environment(spec.environment_id, spec.requirements, spec.environment_settings)

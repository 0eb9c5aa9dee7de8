"""Names of entries reach the policy, whose metadata suffice to feed the file by raw onnxruntime."""

import json
import shutil
import subprocess
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from gymnasium.spaces import Discrete

import decision_rnn
from decision_rnn import EnvironmentActor, InputError
from decision_rnn.config import EvaluationConfig
from decision_rnn.deploy import Policy, export_onnx
from decision_rnn.deploy.package import write_card
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.results import write_result
from decision_rnn.runs.checkpoint import TrainedAgent

NAMES = ("cos", "sin", "velocity")
OBSERVATION = {"cos": 0.5, "sin": -1.0, "velocity": 2.0}
ARRAY = np.array(list(OBSERVATION.values()))


@pytest.fixture
def named(pendulum: Callable[..., TrainedAgent]) -> TrainedAgent:
    """An agent with names, whose default target return is `auto`."""
    trained = pendulum(rtg_quantile=0.9)
    return replace(trained, provenance=replace(trained.provenance, observation_names=NAMES, action_names=("torque",)))


@pytest.fixture
def path(named: TrainedAgent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its exported file; exported once."""
    path = tmp_path_factory.getbasetemp() / "named.onnx"
    if not path.exists():
        export_onnx(named, path)
    return path


def act_by_metadata(path: Path, observations: np.ndarray, rewards: np.ndarray) -> list[np.ndarray]:
    """Actions as another language's program computes them, for an episode at the default target return."""
    session = onnxruntime.InferenceSession(path)
    text = session.get_modelmeta().custom_metadata_map["decision_rnn"]
    metadata = json.loads(text, parse_constant=pytest.fail)
    state = {part["input"]: np.zeros((1, *part["shape"]), part["dtype"]) for part in metadata["state"]}
    target = metadata["target_return"]
    actions = []
    for step, (observation, reward) in enumerate(zip(observations, rewards, strict=True)):
        inputs = {"obs": observation[None], "reward": reward[None], "reset": np.array([step == 0])}
        inputs[target["input"]] = np.array([target["value"]], np.float32)
        outputs = dict(
            zip([each.name for each in session.get_outputs()], session.run(None, inputs | state), strict=True)
        )
        state = {part["input"]: outputs[part["output"]] for part in metadata["state"]}
        actions.append(outputs["actions"][0])
    return actions


def test_metadata_suffice_for_raw_onnxruntime(path: Path) -> None:
    policy, generator = Policy.load(path), np.random.default_rng(0)
    observations, rewards = generator.normal(size=(9, 3)).astype(np.float32), generator.normal(size=9).astype("f4")
    assert policy.default_target == np.inf
    assert policy.metadata["target_return"]["conditioned"]
    expected = [policy.act(observation, reward) for observation, reward in zip(observations, rewards, strict=True)]
    np.testing.assert_allclose(act_by_metadata(path, observations, rewards), expected, rtol=0, atol=1e-6)


def test_metadata_suffice_for_discrete_actions_of_a_log(folders: Path) -> None:
    generator = np.random.default_rng(0)
    log = {name: generator.normal(size=30) for name in ("height", "speed")}
    log |= {"gear": generator.integers(2, 5, 30), "run": np.repeat([0, 1, 2], 10)}
    names = {"observations": ["height", "speed"], "actions": "gear", "episode": "run"}
    decision_rnn.import_log(log, "local/gears", **names, action_space=Discrete(3, start=2), progress=False)
    options = {"backbone": {"name": "mingru", "width": 8, "layers": 1}, "training": {"steps": 1}, "condition": "none"}
    run = decision_rnn.train("local/gears", output=folders / "run", **options, progress=False)
    export_onnx(run.agent, path := folders / "gears.onnx")
    policy = Policy.load(path)
    assert list(policy.observation_names) == ["height", "speed"] == list(run.actor().observation_names)
    assert policy.metadata["target_return"]["conditioned"] is False
    observations = generator.normal(0, 3, size=(9, 2)).astype(np.float32)
    expected = [policy.act({"speed": speed, "height": height}) for height, speed in observations]
    (part,) = policy.metadata["action"]["layout"]
    actions = np.array(act_by_metadata(path, observations, np.zeros(9, np.float32)))
    np.testing.assert_array_equal(np.sort(actions), [[0, 0, 1]] * 9)
    np.testing.assert_array_equal(actions.argmax(1) + part["start"][0], expected)
    assert len(set(map(int, expected))) > 1


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_javascript_reads_the_metadata_and_results(path: Path, named: TrainedAgent, tmp_path: Path) -> None:
    """After an evaluation at `auto`, whose number is infinite."""
    result = score(named, EvaluationConfig(episodes=1), processes=1)
    assert result.targets[0].target_return == np.inf
    text = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map["decision_rnn"]
    code = "console.log(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8'))))"
    for content in (text, write_result(tmp_path, result).read_text()):
        done = subprocess.run(["node", "-e", code], input=content, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == json.loads(content)
    metadata = json.loads(text)
    assert (metadata["observation"]["names"], metadata["action"]["names"]) == (list(NAMES), ["torque"])


@pytest.mark.parametrize("exported", [True, False])
def test_observations_by_name_in_any_order(path: Path, named: TrainedAgent, exported: bool) -> None:
    def actor(**options: Any) -> Any:
        return Policy.load(path, **options) if exported else EnvironmentActor(named, **options)

    assert list(actor().action_names) == ["torque"]
    shuffled = {name: OBSERVATION[name] for name in ("velocity", "cos", "sin")}
    np.testing.assert_array_equal(actor().act(shuffled), actor().act(ARRAY))
    many = np.random.default_rng(0).normal(size=(4, 3))
    by_name = dict(zip(reversed(NAMES), many.T[::-1], strict=True))
    np.testing.assert_array_equal(actor().act(by_name), actor().act(many))
    with pytest.raises(InputError, match="'sin'"):
        actor().act({"cos": 1.0, "velocity": 0.0})
    with pytest.raises(InputError, match=r"'velocty'.*mean velocity"):
        actor().act({"cos": 1.0, "sin": 0.0, "velocty": 0.0})
    with pytest.raises(InputError, match=r"entry 1 \(sin\)"):
        actor().act(OBSERVATION | {"sin": np.nan})
    for value in (np.array([0.1]), "high"):
        with pytest.raises(InputError, match=r"the observation is .*'cos'"):
            actor().act(OBSERVATION | {"sin": value})


def test_dictionary_without_names_is_refused(policy_path: Path) -> None:
    with pytest.raises(InputError, match="'x'"):
        Policy.load(policy_path).act({"x": 1.0})


@pytest.mark.parametrize("exported", [True, False])
def test_entries_far_outside_the_training_data(path: Path, named: TrainedAgent, exported: bool) -> None:
    """Each is named once, with its distance: the data have mean 0 and standard deviation 1."""
    actor: Any
    actor = Policy.load(path, warn_outside=5) if exported else EnvironmentActor(named, warn_outside=5)
    silent = Policy.load(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for values in ([4.9, -4.9, 0.0], [0, 0, -7.5], [0, 0, -9], [1234, 0, -9]):
            np.testing.assert_allclose(actor.act(values, 0.0), silent.act(values, 0.0), atol=1e-6)
    texts = [str(warning.message) for warning in caught]
    assert [warning.filename for warning in caught] == [__file__] * 2
    for text, name, distance in zip(texts, ("2 (velocity)", "0 (cos)"), ("7.5", "1,234.0"), strict=True):
        assert name in text
        assert f" {distance} standard deviations" in text


def test_card_lists_the_names(named: TrainedAgent, tmp_path: Path) -> None:
    card = write_card(tmp_path, named, [], "agent")
    assert "`cos`, `sin`, `velocity`" in card
    assert "`torque`" in card

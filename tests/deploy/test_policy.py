"""The deploy runtime: states of many environments, imports, invalid arguments, and the same scores as its agent."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from decision_rnn.checkpoint import TrainedAgent
from decision_rnn.config import EvaluationConfig
from decision_rnn.deploy import Policy
from decision_rnn.deploy.actor import PolicyActor, load_subject
from decision_rnn.errors import InputError
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.rollout import rollout

ENVIRONMENTS = 1000


def test_policy_act_with_index_of_random_subsets_equals_each_environment_alone(policy_path: Path) -> None:
    """Each environment's episodes are first played alone, with its own noise and targets, then among the others."""
    generator = np.random.default_rng(0)
    steps = generator.integers(3, 9, ENVIRONMENTS)
    observations = generator.normal(0, 2, (ENVIRONMENTS, 9, 11)).astype(np.float32)
    rewards = generator.normal(2, 1, (ENVIRONMENTS, 9)).astype(np.float32)
    targets = generator.uniform(-100, 4000, ENVIRONMENTS).astype(np.float32)
    second = generator.integers(0, 9, ENVIRONMENTS)  # the step of its reset, if it is reached

    alone, policy = [], Policy.load(policy_path)
    for i in range(ENVIRONMENTS):
        policy.reset(targets[i])
        actions = []
        for t in range(steps[i]):
            if t == second[i]:
                policy.reset(2 * targets[i])
            actions.append(policy.act(observations[i, t], rewards[i, t]))
        alone.append(np.array(actions))

    policy.reset()
    taken = np.zeros(ENVIRONMENTS, np.int64)
    while (left := np.flatnonzero(taken < steps)).size:
        some = generator.permutation(left)[: int(generator.integers(1, 400))]
        anew, first = some[taken[some] == second[some]], some[taken[some] == 0]
        policy.reset(targets[first], index=first)
        policy.reset(2 * targets[anew], index=anew)
        t = taken[some]
        actions = policy.act(observations[some, t], rewards[some, t], index=some)
        for i, action in zip(some, actions, strict=True):
            np.testing.assert_allclose(action, alone[i][taken[i]], rtol=0, atol=1e-6)
        taken[some] += 1


def test_policy_act_on_all_environments_equals_act_with_index(policy_path: Path) -> None:
    whole, parts = Policy.load(policy_path), Policy.load(policy_path)
    generator = np.random.default_rng(1)
    for t in range(20):
        observations, rewards = generator.normal(0, 1, (7, 11)), generator.normal(0, 1, 7)
        if t == 11:
            whole.reset(index=[2, 5])
            parts.reset(index=[5, 2])
        expected = whole.act(observations, rewards)
        for some in ([6, 0], [3, 1, 2], [5, 4]):
            actions = parts.act(observations[some], rewards[some], index=some)
            np.testing.assert_allclose(actions, expected[some], rtol=0, atol=1e-6)
    np.testing.assert_allclose(whole.act(observations, 1.5), parts.act(observations, np.full(7, 1.5)), atol=1e-6)


def test_policy_reset_restores_the_default_target_and_with_index_keeps_the_target(policy_path: Path) -> None:
    policy, observation = Policy.load(policy_path), np.ones(11)
    asked_default = policy.act(observation)
    policy.reset(policy.default_target)
    np.testing.assert_array_equal(policy.act(observation), asked_default)
    policy.reset(-500.0)
    other = policy.act(observation)
    assert not np.array_equal(other, asked_default)
    policy.act(observation, 3.0)
    policy.reset(index=[0])  # resets the same environment with the same target
    np.testing.assert_array_equal(policy.act(observation), other)
    policy.reset()
    np.testing.assert_array_equal(policy.act(observation), asked_default)


def test_copied_or_pickled_policy_starts_without_state(policy_path: Path) -> None:
    policy = Policy.load(policy_path)
    first = policy.act(np.ones(11))
    policy.act(np.zeros(11), 1.0)
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        np.testing.assert_array_equal(other.act(np.ones(11)), first)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda policy: policy.act(np.ones(10)), "shape"),
        (lambda policy: policy.act(np.ones((2, 3, 11))), "shape"),
        (lambda policy: policy.act(np.ones((3, 11)), np.ones(2)), "reward"),
        (lambda policy: policy.act(np.ones((3, 11)), index=[0, 1]), "index"),
        (lambda policy: policy.act(np.ones((2, 11)), index=[1, 1]), "twice"),
        (lambda policy: policy.act(np.ones((2, 11)), index=[0, -1]), "numbered from 0"),
        (lambda policy: policy.act(np.ones((2, 11)), index=[0, 1 << 40]), "numbered from 0"),
        (lambda policy: policy.act(np.ones((2, 11)), index=[0.5, 1.0]), "index"),
        (lambda policy: policy.reset(np.nan), "finite"),
        (lambda policy: policy.reset([1.0, 2.0], index=[0]), "environments"),
        (lambda policy: [policy.act(np.ones((4, 11))), policy.act(np.ones((5, 11)))], "5 observations for 4"),
    ],
)
def test_policy_act_and_reset_refuse_invalid_arguments(policy_path: Path, call: object, word: str) -> None:
    with pytest.raises(InputError, match=word):
        call(Policy.load(policy_path))


def test_deploy_runtime_imports_only_numpy_and_onnxruntime(policy_path: Path) -> None:
    """In a process where only these two and the standard library can be imported."""
    code = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in ("decision_rnn", "numpy", "onnxruntime"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
from decision_rnn.deploy import Policy
import numpy
policy = Policy.load({str(policy_path)!r})
policy.reset(target_return=1000)
assert policy.act(numpy.zeros(11), 0.0).shape == (3,)
assert policy.act(numpy.zeros((2, 11)), index=[4, 2]).shape == (2, 3)
others = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(sorted(name for name in others if not name.startswith("_")))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "['decision_rnn', 'numpy', 'onnxruntime']"


def test_evaluate_of_a_policy_scores_like_its_agent(trained: TrainedAgent, policy_path: Path) -> None:
    """An untrained agent falls early, before differences in the last digit of actions grow."""
    settings = EvaluationConfig(episodes=6, target_returns=(3600.0, 1800.0))
    subject = load_subject(policy_path)
    expected, result = evaluate(trained, settings, 1), evaluate(subject, settings, 1)
    assert result.key == expected.key
    assert (result.parameters, result.backbone_parameters) == (expected.parameters, expected.backbone_parameters)
    for target, other in zip(result.targets, expected.targets, strict=True):
        np.testing.assert_allclose(target.returns, other.returns, rtol=0, atol=2e-3)
        assert target.length_mean == other.length_mean


def test_rollout_of_a_policy_is_identical_with_two_processes(policy_path: Path) -> None:
    """With more than one group of episodes, so that the actor is pickled."""
    actor = PolicyActor(Policy.load(policy_path))
    one, two = (rollout(actor, "Hopper-v5", [500.0], 60, 3, processes) for processes in (1, 2))
    np.testing.assert_array_equal(one[0].returns, two[0].returns)

"""The deploy runtime: states of many environments, imports, invalid arguments, and the same scores as its agent."""

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from decision_rnn import EnvironmentActor
from decision_rnn.deploy import Policy, export_onnx
from decision_rnn.evaluation.acting import Actor
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError

ENVIRONMENTS = 300


def test_policy_in_many_environments_acts_as_in_each_alone(policy_path: Path) -> None:
    """With targets and resets of their own."""
    generator, policy = np.random.default_rng(0), Policy.load(policy_path)
    observations = generator.normal(0, 2, (9, ENVIRONMENTS, 11)).astype(np.float32)
    rewards = generator.normal(2, 1, (9, ENVIRONMENTS)).astype(np.float32)
    targets = generator.uniform(-100, 4000, ENVIRONMENTS).astype(np.float32)
    resets = generator.random((9, ENVIRONMENTS)) < 0.2
    resets[0] = False
    alone = np.empty((9, ENVIRONMENTS, 3), np.float32)
    for i in range(ENVIRONMENTS):
        policy.reset(targets[i])
        for t in range(9):
            if resets[t, i]:
                policy.reset(2 * targets[i])
            alone[t, i] = policy.act(observations[t, i], rewards[t, i])
    policy.reset(targets)
    policy.act(observations[0])
    policy.reset()  # begins again, with the same targets
    for t in range(9):
        if t:
            policy.reset(2 * targets, done=resets[t])
        np.testing.assert_allclose(policy.act(observations[t], rewards[t]), alone[t], rtol=0, atol=1e-6)


def test_numbers_that_are_not_finite_leave_the_state_unchanged(policy_path: Path, trained: TrainedAgent) -> None:
    observations = np.random.default_rng(0).normal(size=(6, 11))
    broken = [*observations[3, :7], np.nan, *observations[3, 8:]]
    for make in (lambda: Policy.load(policy_path), lambda: EnvironmentActor(trained, 1000.0)):
        healthy, tried = make(), make()
        for actor in (healthy, tried):
            actor.reset(1000.0)
        assert np.isfinite(tried(observations[0], np.nan)).all()  # the reward before an episode is ignored
        healthy(observations[0])
        for t in range(1, 6):
            with pytest.raises(InputError, match="entry 7 of the observation is nan"):
                tried(broken, 1.0)
            with pytest.raises(InputError, match="the reward is inf"):
                tried(observations[t], np.inf)
            np.testing.assert_array_equal(tried(observations[t], 1.0), healthy(observations[t], 1.0))
        many = make()
        many(observations[:3])
        with pytest.raises(InputError, match="entry 7 of the observation of environment 1 is"):
            many(np.array([observations[0], broken, observations[2]], np.float32))


def actors(path: Path, trained: TrainedAgent) -> list[Actor[Any]]:
    return [Policy.load(path), EnvironmentActor(trained)]


def test_targets_of_a_reset_are_those_of_its_rows(policy_path: Path, trained: TrainedAgent) -> None:
    """`auto` among numbers, and before the first step a target of some environments."""
    observations = np.random.default_rng(0).normal(size=(2, 11))
    for many, alone in zip(actors(policy_path, trained), actors(policy_path, trained), strict=True):

        def act(row: int, target: Any, alone: Actor[Any] = alone) -> np.ndarray:
            alone.reset(target)
            return alone(observations[row])

        many.reset(["auto", 100.0])
        np.testing.assert_allclose(many(observations), [act(0, "auto"), act(1, 100.0)], atol=1e-6)
        many.reset(2000.0)
        many.reset(100.0, done=[True, False])
        np.testing.assert_allclose(many(observations), [act(0, 100.0), act(1, 2000.0)], atol=1e-6)
        assert not np.allclose(act(1, 100.0), act(1, 2000.0), atol=1e-4)


def test_default_target_may_be_auto_and_must_be_a_number(trained: TrainedAgent, tmp_path: Path) -> None:
    export_onnx(trained, tmp_path / "auto.onnx", "auto")
    assert Policy.load(tmp_path / "auto.onnx").default_target == np.inf
    for invalid in ("high", np.nan):
        with pytest.raises(InputError, match="target_return"):
            export_onnx(trained, tmp_path / "none.onnx", invalid)


def test_targets_of_another_number_or_kind_are_refused(policy_path: Path, trained: TrainedAgent) -> None:
    observations = np.ones((3, 11))
    for actor in actors(policy_path, trained):
        for invalid in ("automatic", ["auto", "high"], [1.0, None]):
            with pytest.raises(InputError, match=r"target_return is .*auto"):
                actor.reset(invalid)
        actor.reset([1.0, 2.0, 3.0])
        with pytest.raises(InputError, match=r"target_return .*3\..* or 2"):
            actor(observations[:2])
        actor(observations)
        with pytest.raises(InputError, match=r"target_return .* or 3"):
            actor.reset([5.0, 6.0], done=[True, False, False])
        actor.reset(50.0, done=[True, False, False])
        actor.reset()
        with pytest.raises(InputError, match=r"target_return .*50\..* or 1"):
            actor(observations[0])
        actor.reset(50.0)
        actor(observations[0])


def test_copied_or_pickled_policy_starts_without_state(policy_path: Path) -> None:
    policy = Policy.load(policy_path)
    first = policy.act(np.ones(11))
    policy.act(np.zeros(11), 1.0)
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        np.testing.assert_array_equal(other.act(np.ones(11)), first)


def test_copied_or_pickled_policy_keeps_its_target_and_how_its_environments_reset(policy_path: Path) -> None:
    envs = gymnasium.make_vec("Hopper-v5", num_envs=2, vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})
    policy = Policy.load(policy_path, env=envs)
    policy.reset([100.0, 2000.0])
    copies = copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))
    for done in ([False, False], [True, False], [False, False]):
        expected = policy.act(np.ones((2, 11)), np.ones(2), done)
        for other in copies:
            np.testing.assert_array_equal(other.act(np.ones((2, 11)), np.ones(2), done), expected)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_policy_with_done_acts_as_the_actor_of_its_agent(
    trained: TrainedAgent, policy_path: Path, mode: AutoresetMode
) -> None:
    """In a vector environment of each mode, with episodes that end at different steps."""
    envs = gymnasium.make_vec("Hopper-v5", num_envs=3, vector_kwargs={"autoreset_mode": mode})
    policy, actor = Policy.load(policy_path, env=envs), EnvironmentActor(trained, policy_target := 1500.0, env=envs)
    policy.reset(policy_target)
    generator = np.random.default_rng(1)
    for t in range(60):
        observations, rewards = generator.normal(0, 1, (3, 11)), generator.normal(2, 1, 3)
        done = generator.random(3) < 0.1
        if t == 30:
            for each in (policy, actor):
                each.reset([200.0, 0.0, 100.0], done=[True, False, True])
        actions = [each(observations, rewards, done) for each in (policy, actor)]
        np.testing.assert_allclose(*actions, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [([(10,)], "(11,)"), ([(2, 3, 11)], "(2, 11)"), ([(4, 11), (5, 11)], "(4, 11)")],
)
def test_observations_of_another_shape_are_refused(policy_path: Path, shapes: list[tuple], words: str) -> None:
    policy = Policy.load(policy_path)
    *valid, last = map(np.ones, shapes)
    for observation in valid:
        policy.act(observation)
    with pytest.raises(InputError, match=re.escape(words)):
        policy.act(last)


def test_deploy_runtime_imports_only_numpy_and_onnxruntime(policy_path: Path) -> None:
    code = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in ("decision_rnn", "lazy_loader", "numpy", "onnxruntime"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
from decision_rnn.deploy import Policy
import numpy
policy = Policy.load({str(policy_path)!r})
policy.reset(target_return=1000)
assert policy.act(numpy.zeros((2, 11))).shape == (2, 3)
others = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(sorted(name for name in others if not name.startswith("_")))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "['decision_rnn', 'lazy_loader', 'numpy', 'onnxruntime']"

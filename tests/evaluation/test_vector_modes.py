"""Actors in vector environments: modes of autoreset, and rewards that are left out."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from decision_rnn import InputError, Run
from decision_rnn.deploy import Policy
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.acting import Actor

LENGTH = 4


class Simulator(VectorEnv):
    """Two rows whose episodes all look alike: the observation is the step, the reward a number."""

    num_envs = 2
    single_observation_space, single_action_space = Box(-99, 99, (2,)), Box(-1, 1, (1,))
    observation_space, action_space = (batch_space(s, 2) for s in (single_observation_space, single_action_space))

    def __init__(self, resets: str, metadata: Any) -> None:
        self.resets, self.metadata = resets, metadata

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.t = np.zeros(2, int)
        return self.observations(), {}

    def observations(self) -> np.ndarray:
        return np.stack([self.t, -self.t], axis=1).astype(np.float32) / 10

    def step(self, action: Any) -> Any:
        waiting = self.t == LENGTH
        self.t += 1
        reward = np.ones(2)
        if self.resets == "NextStep":
            self.t[waiting], reward[waiting] = 0, 0.0
        over = self.t == LENGTH
        if self.resets == "SameStep":
            self.t[over] = 0
        return self.observations(), reward, over, np.zeros(2, bool), {}


class Hidden(VectorWrapper):
    """A wrapper whose metadata do not say what those within do."""

    metadata: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]


@pytest.fixture(scope="module")
def policy_path(swing_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported policy of the run of `swing_folder`."""
    path = tmp_path_factory.mktemp("policy") / "policy.onnx"
    export_onnx(Run(swing_folder / "swing-up").agent, path, 60.0)
    return path


@pytest.fixture(params=["actor", "policy"])
def make(request: pytest.FixtureRequest, run: Run, policy_path: Path) -> Callable[..., Actor[Any]]:
    """Makes an agent's actor or its exported policy, for an environment."""
    if request.param == "actor":
        return lambda env=None, **options: run.actor(60.0, env=env, **options)
    return lambda env=None, **options: Policy.load(policy_path, env=env, **options)


def play(actor: Actor[Any], env: Any, steps: int) -> np.ndarray:
    """The actions (steps, rows) of a loop of one's own."""
    (observation, _), reward, done, actions = env.reset(), np.zeros(2), np.zeros(2, bool), []
    for _ in range(steps):
        actions.append(actor(observation, reward, done)[:, 0])
        observation, reward, terminated, truncated, _ = env.step(actions[-1][:, None])
        done = terminated | truncated
    return np.array(actions)


def declared(mode: Any) -> dict[str, Any]:
    return {"autoreset_mode": mode}


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, "SameStep"], ids=str)
@pytest.mark.parametrize("hide", [False, True])
def test_declared_mode_is_read_as_text_and_through_wrappers(make: Any, mode: Any, hide: bool) -> None:
    env: Any = Simulator("SameStep", declared(mode))
    actions = play(make(Hidden(env) if hide else env), env, 3 * LENGTH).reshape(3, LENGTH, 2)
    np.testing.assert_allclose(actions[1:], actions[:1].repeat(2, 0), atol=1e-6)  # every episode is like the first


@pytest.mark.parametrize("metadata", [{}, None, {"autoreset_mode": None}, declared("Sometimes")], ids=str)
def test_environment_that_declares_no_mode_is_refused(make: Any, metadata: Any) -> None:
    with pytest.raises(InputError, match=r"Simulator.*autoreset_mode"):
        make(Simulator("SameStep", metadata))


def test_next_step_is_the_mode_without_environment(make: Any) -> None:
    env = Simulator("NextStep", declared("NextStep"))
    actions = play(make(env), env, 3 * (LENGTH + 1))
    np.testing.assert_array_equal(play(make(), env, len(actions)), actions)
    np.testing.assert_allclose(actions[LENGTH + 1 :], actions[: -LENGTH - 1], atol=1e-6)


def test_vector_actor_can_be_copied(run: Run) -> None:
    env = Simulator("SameStep", declared("SameStep"))
    env.lock = (step for step in ())  # type: ignore[attr-defined]  # neither copied nor pickled
    actor = run.actor(60.0, env=env)
    for again in (copy.deepcopy(actor), pickle.loads(pickle.dumps(actor))):
        np.testing.assert_array_equal(play(again, env, 6), play(run.actor(60.0, env=env), env, 6))


def test_reward_is_needed_after_the_first_step(make: Any) -> None:
    actor, observation = make(), np.zeros(2, np.float32)
    first = actor(observation)
    with pytest.raises(InputError, match="reward"):
        actor(observation)
    actor(observation, np.array([1.0]))  # the state was unchanged
    np.testing.assert_array_equal(actor(observation, done=True), first)
    actor.reset()
    np.testing.assert_array_equal(actor(observation), first)
    many = make()
    many(np.zeros((2, 2)))
    many.reset(done=[True, False])
    with pytest.raises(InputError, match="reward"):
        many(np.zeros((2, 2)))


def test_cloned_agent_needs_no_reward(pendulum: Any, tmp_path: Path) -> None:
    trained = pendulum(cloning=True)
    export_onnx(trained, tmp_path / "policy.onnx")
    actors: Any = Run(tmp_path, agent=trained).actor(), Policy.load(tmp_path / "policy.onnx")
    for actor in actors:
        for _ in range(3):
            actor(np.zeros(3, np.float32))


def test_rewards_and_ends_of_other_shapes(make: Any) -> None:
    """Columns, as torch simulators return them, are one value for each environment; others are named."""

    def second(reward: Any, done: Any = None, actor: Any = None) -> np.ndarray:
        actor = actor or make()
        actor(np.zeros((2, 2)), np.zeros(2))
        return actor(np.ones((2, 2)), reward, done)

    rewards, done = np.array([1.0, -2.0]), np.array([False, True])
    expected = second(rewards, done)
    np.testing.assert_array_equal(second(rewards[:, None], done[:, None].tolist()), expected)
    np.testing.assert_array_equal(second(torch.tensor(rewards), torch.tensor(done)), expected)
    for reward, name in ((np.ones(3), "reward"), ("much", "reward"), (rewards, "done")):
        with pytest.raises(InputError, match=name):
            second(reward, np.zeros(3, bool) if name == "done" else None)
    actor = make()
    second(rewards, None, actor)
    with pytest.raises(InputError, match="done"):
        actor.reset(done=[True] * 3)
    for observation in ((np.zeros(2), {}), "ab", None, torch.zeros(2, requires_grad=True)):
        with pytest.raises(InputError, match="observation"):
            make()(observation)

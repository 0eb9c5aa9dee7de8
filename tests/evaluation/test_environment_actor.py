"""`Run.actor` in a user's own loop: the same episodes as `evaluate`, in one or many environments, with resets."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from swing import CAR

from decision_rnn import Episode, InputError, Run

SEED = 7
STEPS = 40
protocols = pytest.mark.parametrize(
    "protocol", [{"inference": "recurrent"}, {"inference": "window", "window": 5}], ids=lambda each: each["inference"]
)


class Pole(gymnasium.Env):
    """Each action changes the observation a little; the seed sets the length of an episode.

    Only a little: the agent was trained on a car of small speed, so this observation is many standard deviations off
    for it, and a difference in an action's last digit, which batching may cause, would otherwise grow at every step.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(3, 12))
        self.place = self.np_random.normal(size=2)
        return self.place, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        self.place = self.place - 0.01 * float(action[0])
        return self.place, float(self.place[0]), self.left == 0, False, {}


@pytest.fixture
def poles() -> Any:
    gymnasium.register("Pole-v0", Pole)
    yield
    del gymnasium.registry["Pole-v0"]


def actions_alone(run: Run, row: int, **options: Any) -> np.ndarray:
    """The actions in one environment played alone; resets without a seed continue its random generator."""
    env, actions, actor = gymnasium.make("Pole-v0"), [], run.actor(60.0, **options)
    observation, _ = env.reset(seed=SEED + row)
    reward: Any = 0.0
    for _ in range(STEPS):
        actions.append(actor(observation, reward))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        if terminated or truncated:
            actor.reset()
            observation, _ = env.reset()
            reward = 1e6  # must be ignored at the first step of an episode
    return np.stack(actions)


def test_notebook_shows_objects_in_short(run: Run) -> None:
    result, actor = run.evaluate(60.0, episodes=1, progress=False), run.actor(60.0)
    episode = Episode(np.zeros((4, 2)), np.ones((3, 1)), np.full(3, 0.5), False, True)
    assert repr(result) == str(result)
    assert repr(episode) == "Episode(3 steps, return 1.5, truncated)"
    assert "target_return 60.0" in repr(actor)
    assert "mingru" in repr(run.agent)
    assert max(map(len, map(repr, (run.agent, actor, episode, run, *result.targets)))) < 300


@protocols
def test_actor_in_a_loop_has_the_return_of_evaluate(run: Run, protocol: dict[str, Any]) -> None:
    """Both use a batch of one, so actions agree to the last digit."""
    (target,) = run.evaluate(60.0, episodes=1, seed=SEED, processes=1, progress=False, **protocol).targets
    env, actor = gymnasium.make(CAR), run.actor(60.0, **protocol)
    observation, _ = env.reset(seed=SEED)
    reward, total, done = 0.0, 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(actor(observation, reward))
        total += float(reward)
        done = terminated or truncated
    assert total == pytest.approx(target.returns[0], abs=1e-6)


@pytest.mark.parametrize("mode", AutoresetMode)
@protocols
def test_vector_actor_acts_as_single_actors_in_every_mode(
    run: Run, poles: None, mode: AutoresetMode, protocol: dict[str, Any]
) -> None:
    """Episodes end at different steps; no state is carried over from one episode to the next."""
    envs = gymnasium.make_vec("Pole-v0", num_envs=4, vector_kwargs={"autoreset_mode": mode})
    actor = run.actor(60.0, env=envs, **protocol)
    observation, _ = envs.reset(seed=SEED)
    reward, done = np.zeros(4), np.zeros(4, bool)
    together: list[list[np.ndarray]] = [[], [], [], []]
    for _ in range(STEPS):
        action = actor(observation, reward, done)
        for row in range(4):
            if not (mode == AutoresetMode.NEXT_STEP and done[row]):  # the environment ignores this action
                together[row].append(action[row])
        observation, reward, terminated, truncated, _ = envs.step(action)
        done = terminated | truncated
        if mode == AutoresetMode.DISABLED and done.any():
            observation, _ = envs.reset(options={"reset_mask": done})
    for row, actions in enumerate(together):
        assert len(actions) > 30
        alone = actions_alone(run, row, **protocol)[: len(actions)]
        np.testing.assert_allclose(np.stack(actions), alone, rtol=0, atol=2e-6)


@protocols
def test_actor_resets_some_environments_with_their_own_targets(run: Run, protocol: dict[str, Any]) -> None:
    generator = np.random.default_rng(0)
    observations, rewards = generator.normal(size=(12, 3, 2)), generator.normal(size=(12, 3))
    together = run.actor([90.0, 10.0, -50.0], **protocol)
    rows = [run.actor(target, **protocol) for target in (90.0, 10.0, -50.0)]
    for t in range(12):
        if t == 4:
            together.reset(done=[False, True, False])
            rows[1].reset()
        if t == 7:
            together.reset([-20.0, 5.0, 30.0], done=[True, False, True])
            rows[0].reset(-20.0)
            rows[2].reset(30.0)
        actions = together(observations[t], rewards[t])
        alone = np.stack([rows[i](observations[t, i], rewards[t, i]) for i in range(3)])
        assert actions.dtype == np.float32
        np.testing.assert_allclose(actions, alone, rtol=0, atol=2e-6)


def test_default_target_return_is_auto(run: Run) -> None:
    observation = np.array([-0.5, 0.0])
    assert (run.actor()(observation) == run.actor("auto")(observation)).all()
    assert (run.actor()(observation) != run.actor(-100.0)(observation)).any()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda run: run.actor(float("nan")), "target_return"),
        (lambda run: run.actor(env=gymnasium.make("Pendulum-v1")), "observations of 2 numbers"),
        (lambda run: run.actor()(np.zeros(3)), r"\(2,\)"),
        (lambda run: run.actor()([0.0, np.nan]), "entry 1 .*nan"),
        (lambda run: run.actor(env=CAR), CAR),
        (lambda run: run.actor(inference="windows"), "inference"),
    ],
)
def test_invalid_arguments_of_an_actor_are_named(run: Run, call: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        call(run)


def test_vector_actor_refuses_a_loop_that_forgets_done(run: Run, poles: None) -> None:
    environments = gymnasium.make_vec("Pole-v0", num_envs=3)
    actor = run.actor(60.0, env=environments)
    observations, _ = environments.reset(seed=0)
    observations, rewards, *_ = environments.step(actor(observations))
    with pytest.raises(InputError, match=r"done .*terminated \| truncated"):
        actor(observations, rewards)
    actor(observations, rewards, False)

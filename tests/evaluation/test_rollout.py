"""`rollout`: episodes played as a batch equal episodes played one by one."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from agent_specs import agent_spec
from gymnasium.envs.registration import EnvSpec
from torch import Tensor

from decision_rnn import EnvironmentActor, InputError
from decision_rnn.agent import DecisionAgent, TimeToGoalConfig
from decision_rnn.config import EvaluationConfig
from decision_rnn.environments import playing
from decision_rnn.environments.layouts import Layout
from decision_rnn.environments.spaces import described_spaces
from decision_rnn.evaluation.actor import prepare_to_act
from decision_rnn.evaluation.evaluate import evaluation_environment, initial_return_to_go
from decision_rnn.evaluation.rollout import rollout
from decision_rnn.evaluation.video import moments
from decision_rnn.runs.checkpoint import TrainedAgent

Make = Callable[..., TrainedAgent]


class Reflex:
    """A stateless actor of elementwise arithmetic, so that a row's action does not depend on the batch's size."""

    observation_layout = Layout.of_space(gymnasium.spaces.Box(-np.inf, np.inf, (8,)), "observations")

    def __init__(self) -> None:
        self.calls: list[tuple[np.ndarray, np.ndarray]] = []

    def initial_state(self, environments: int) -> list[np.ndarray]:
        return []

    def step(
        self, observation: np.ndarray, reward: np.ndarray, reset: np.ndarray, target: np.ndarray, state: list
    ) -> tuple[np.ndarray, list]:
        self.calls.append((reward.copy(), target.copy()))
        return self.choose(observation, target), state

    def choose(self, observation: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The actions, (batch, 3)."""
        return np.clip(observation[:, 5:8] * target[:, None] / 1000, -1, 1)


class Countdown(gymnasium.Env):
    """Ends after 3 + seed % 5 steps, rewards 1, 2, 3, ..., and refuses to be stepped once it has ended."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (8,))
    action_space = gymnasium.spaces.Box(-1, 1, (3,))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.left, self.step_number = 3 + seed % 5, 0
        return np.zeros(8), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.left > 0, "stepped after its end"
        self.left -= 1
        self.step_number += 1
        # Episodes of even length terminate, those of odd length are truncated.
        ended = self.left == 0
        return np.zeros(8), float(self.step_number), ended and self.step_number % 2 == 0, ended, {}


class Endless(Countdown):
    """Ends neither by itself nor, when it is registered without a limit, by Gymnasium."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(8), 1.0, False, False, {}


class Signals(Countdown):
    """Rewards the action; its observation has parts of one size, in an order that is not the alphabet's."""

    box = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    observation_space = gymnasium.spaces.Dict(small=box, large=box)
    action_space = gymnasium.spaces.Box(-10, 10, (1,))
    observation: ClassVar = {"small": np.ones(1), "large": np.full(1, 5.0)}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        return self.observation, {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        return self.observation, float(action[0]), False, True, {}


class Echo(Reflex):
    """Acts as the part `small` says, which is the second of its data's."""

    observation_layout = Layout.of_space(gymnasium.spaces.Dict({"large": Signals.box, "small": Signals.box}), "data")

    def choose(self, observation: np.ndarray, target: np.ndarray) -> np.ndarray:
        return observation[:, 1:]


def test_parts_of_a_dict_are_in_the_order_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gymnasium.registry, "Signals-v0", EnvSpec("Signals-v0", entry_point=Signals))
    (episodes,) = rollout(Echo(), "Signals-v0", [0.0], episodes=2, seed=0)
    assert episodes["return"].tolist() == [1.0, 1.0]


def test_a_dict_of_other_keys_is_refused(monkeypatch: pytest.MonkeyPatch, pendulum: Make) -> None:
    monkeypatch.setitem(gymnasium.registry, "Signals-v0", EnvSpec("Signals-v0", entry_point=Signals))
    box = Signals.box
    for keys, refused in ((["large", "small"], False), (["near", "far"], True)):
        spaces = described_spaces(gymnasium.spaces.Dict(dict.fromkeys(keys, box)), Signals.action_space)
        data = replace(pendulum().provenance, environment_id="Signals-v0", spaces=spaces)
        with pytest.raises(InputError, match=r"far.*Signals-v0.*small") if refused else nullcontext():
            evaluation_environment(EvaluationConfig(), data)


@pytest.fixture
def countdown(monkeypatch: pytest.MonkeyPatch) -> str:
    spec = EnvSpec("Countdown-v0", entry_point=Countdown, order_enforce=False)
    monkeypatch.setitem(gymnasium.registry, "Countdown-v0", spec)
    return "Countdown-v0"


def test_rollout_episodes_equal_a_manual_loop() -> None:
    targets = [3600.0, 900.0]
    played = rollout(Reflex(), "Hopper-v5", targets, episodes=4, seed=70)
    for target, episodes in zip(targets, played, strict=True):
        for number in range(4):
            env = gymnasium.make("Hopper-v5")
            observation, _ = env.reset(seed=70 + number)
            total, length, ended = 0.0, 0, False
            while not ended:
                row = observation.astype(np.float32)[None]
                action = Reflex().choose(row, np.array([target], np.float32))[0]
                observation, reward, terminated, truncated, _ = env.step(action)
                total, length, ended = total + float(reward), length + 1, terminated or truncated
            assert (episodes["return"][number], episodes["length"][number]) == (total, length)


def test_ended_environments_leave_the_batch(countdown: str) -> None:
    actor, lengths = Reflex(), np.arange(3, 8)
    for episodes in rollout(actor, countdown, [10.0, 20.0], episodes=5, seed=0):
        assert episodes["length"].tolist() == lengths.tolist()
        assert episodes["return"].tolist() == (lengths * (lengths + 1) / 2).tolist()
    assert [len(reward) for reward, _ in actor.calls] == [5, 5, 5, 4, 3, 2, 1] * 2
    for call, (reward, target) in enumerate(actor.calls):
        assert reward.tolist() == [call % 7] * len(reward)  # the reward of the previous step
        assert target.tolist() == [10.0 if call < 7 else 20.0] * len(target)
    (episodes,) = rollout(Reflex(), countdown, [10.0], episodes=5, seed=0, limits=(5, None))
    assert episodes["length"].tolist() == [3, 4, 5, 5, 5]
    assert episodes["cut"].tolist() == [False, False, False, True, True]


@pytest.mark.parametrize(("limits", "steps"), [((None, None), 12), ((None, 9), 9), ((5, 9), 5)])
def test_episodes_that_do_not_end_are_cut(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int | None, int | None], steps: int
) -> None:
    monkeypatch.setitem(gymnasium.registry, "Endless-v0", EnvSpec("Endless-v0", Endless, order_enforce=False))
    monkeypatch.setattr(playing, "DEFAULT_MAX_STEPS", 12)
    (episodes,) = rollout(Reflex(), "Endless-v0", [1.0], 2, 0, limits=limits)
    assert episodes["length"].tolist() == episodes["return"].tolist() == [steps] * 2
    assert episodes["cut"].all()
    *_, last = moments(Reflex(), gymnasium.make("Endless-v0"), 1.0, 0, limits)
    assert last == (steps, steps, True)


def test_return_to_go_at_the_first_step(pendulum: Make) -> None:
    """Every agent of this fixture with a quantile sees at most -150; rewards are negative."""
    trained = pendulum(rtg_quantile=0.9)
    for target, seen in ((-100.0, -150.0), (-400.0, -400.0)):
        actor = EnvironmentActor(trained, target)
        actor(np.zeros(3))
        assert initial_return_to_go(trained, target) == actor.condition_values.item() == seen


def test_time_to_goal_is_no_return_to_go(pendulum: Make) -> None:
    trained, condition = pendulum(), TimeToGoalConfig()
    relabeled = replace(trained.config.training, goal_relabeling="hindsight")
    config = replace(trained.config, condition=condition, training=relabeled)
    spec = agent_spec(torch.zeros(3), torch.ones(3), gymnasium.spaces.Box(-2.0, 2.0, (1,)))
    trained = replace(trained, agent=DecisionAgent(config.agent, config.backbone, spec, condition), config=config)
    assert initial_return_to_go(trained, 0.0) is None


@pytest.mark.parametrize("tokens", ["step", "interleaved"])
@pytest.mark.parametrize("previous_action", [False, True])
def test_window_uses_only_the_last_steps(tokens: str, previous_action: bool, pendulum: Make) -> None:
    trained = pendulum(tokens=tokens, previous_action=previous_action)
    agent = trained.agent.double()
    window, time, batch = 6, 15, 3
    actor, first = EnvironmentActor(trained, inference="window", window=window), np.ones(batch, bool)
    observations, rewards = torch.randn(time, batch, 3).double(), torch.rand(time, batch).double()
    targets = torch.tensor([-500.0, -600.0, -700.0]).double()
    windowed, carried = actor.initial_state(batch), agent.initial_state(targets)
    actions: list[Tensor] = []
    with torch.no_grad():
        for t in range(time):
            earned = rewards[t - 1] if t else torch.zeros(batch, dtype=torch.float64)
            inputs = observations[t].numpy(), earned.numpy(), first & (t == 0), targets.numpy()
            action, windowed = actor.step(*inputs, windowed)
            action = torch.tensor(action)
            recurrent, carried, _ = agent.act(observations[t], earned, carried)
            if t < window:  # the window still holds the whole episode
                torch.testing.assert_close(action, recurrent, rtol=0, atol=1e-12)
                carried = carried._replace(previous_action=action)
            elif t == window:
                assert not torch.allclose(action, recurrent, rtol=0, atol=1e-6)
            actions.append(action)
            steps = range(max(0, t - window + 1), t + 1)
            predicted, *_ = agent.predict(
                torch.stack([targets - rewards[:s].sum(0) for s in steps], 1)[..., None],
                torch.stack([observations[s] for s in steps], 1),
                torch.stack([actions[s - 1] if s else torch.zeros(batch, 1, dtype=torch.float64) for s in steps], 1),
                torch.tensor(list(steps)).expand(batch, -1),
                torch.tensor([s == 0 for s in steps]).expand(batch, -1),
            )
            torch.testing.assert_close(action, predicted[:, -1], rtol=0, atol=1e-12)


def test_prepared_agent_has_the_same_weights_and_actions(pendulum: Make) -> None:
    agent = pendulum().agent.train()
    ready = prepare_to_act(agent)
    assert (agent.training, ready.training) == (True, False)
    assert all(weight.is_contiguous() for weight in agent.parameters())
    for name, weight in agent.named_parameters():
        assert torch.equal(weight, ready.get_parameter(name))
    observation, reward = torch.randn(5, 3), torch.ones(5)
    agent.eval()
    one = two = agent.initial_state(torch.full((5,), -300.0))
    with torch.inference_mode():
        for _ in range(10):
            action, one, _ = agent.act(observation, reward, one)
            other, two, _ = ready.act(observation, reward, two)
            torch.testing.assert_close(action, other, rtol=0, atol=1e-6)

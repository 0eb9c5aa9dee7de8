"""`rollout`: episodes played as a batch equal episodes played one by one."""

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.registration import EnvSpec
from torch import Tensor

from decision_rnn.agent import ActingState, AgentConfig, DecisionAgent, agent_spec
from decision_rnn.backbones import registered
from decision_rnn.environments import playing
from decision_rnn.evaluation.actor import WindowActor
from decision_rnn.evaluation.rollout import one_thread, rollout
from decision_rnn.evaluation.video import play


class Reflex:
    """A stateless actor of elementwise arithmetic, so that a row's action does not depend on the batch's size."""

    def __init__(self) -> None:
        self.seen: list[tuple[Tensor, Tensor]] = []

    def initial_state(self, target: Tensor) -> ActingState:
        timestep = torch.zeros(len(target), dtype=torch.int64)
        return ActingState((target,), torch.zeros(len(target), 3), timestep, ())

    def act(self, observation: Tensor, reward: Tensor, state: ActingState) -> tuple[Tensor, ActingState, None]:
        self.seen.append((reward.clone(), state.condition[0].clone()))
        return self.choose(observation, state.condition[0]), state, None

    def choose(self, observation: Tensor, target: Tensor) -> Tensor:
        """The actions, (batch, 3)."""
        return torch.tanh(observation[:, 5:8] * target[:, None] / 1000)


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


@pytest.fixture
def countdown() -> Iterator[str]:
    gymnasium.register("Countdown-v0", entry_point=Countdown, order_enforce=False)
    yield "Countdown-v0"
    del gymnasium.registry["Countdown-v0"]


def test_rollout_episodes_equal_a_manual_loop() -> None:
    results = rollout(Reflex(), "Hopper-v5", [3600.0, 900.0], episodes=4, seed=70)
    for result in results:
        for number in range(4):
            env = gymnasium.make("Hopper-v5")
            observation, _ = env.reset(seed=70 + number)
            total, length, ended = 0.0, 0, False
            while not ended:
                x = torch.from_numpy(observation.astype(np.float32))
                action = torch.tanh(x[5:8] * torch.tensor(result.target_return) / 1000)
                observation, reward, terminated, truncated, _ = env.step(action.numpy())
                total, length, ended = total + float(reward), length + 1, terminated or truncated
            assert (result.returns[number], result.lengths[number]) == (total, length)


def test_rollout_removes_ended_environments_from_the_batch(countdown: str) -> None:
    actor = Reflex()
    one, two = rollout(actor, countdown, [10.0, 20.0], episodes=5, seed=0)
    lengths = np.arange(3, 8)
    for result in (one, two):
        assert result.lengths.tolist() == lengths.tolist()
        assert result.returns.tolist() == (lengths * (lengths + 1) / 2).tolist()
    assert [len(reward) for reward, _ in actor.seen] == [5, 5, 5, 4, 3, 2, 1] * 2
    for call, (reward, target) in enumerate(actor.seen):
        assert reward.tolist() == [call % 7] * len(reward)  # the reward of the previous step
        assert target.tolist() == [10.0 if call < 7 else 20.0] * len(target)


class Endless(Countdown):
    """Ends neither by itself nor, when it is registered without a limit, by Gymnasium."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(8), 1.0, False, False, {}


@pytest.mark.parametrize(
    ("registered_limit", "asked", "steps", "cut"),
    [(None, None, 12, True), (None, 5, 5, True), (7, None, 7, False), (7, 5, 5, True), (20, None, 20, False)],
)
def test_rollout_cuts_episodes_that_do_not_end(
    monkeypatch: pytest.MonkeyPatch, registered_limit: int | None, asked: int | None, steps: int, cut: bool
) -> None:
    spec = EnvSpec("Endless-v0", entry_point=Endless, order_enforce=False, max_episode_steps=registered_limit)
    monkeypatch.setitem(gymnasium.registry, "Endless-v0", spec)
    monkeypatch.setattr(playing, "DEFAULT_MAX_STEPS", 12)
    (result,) = rollout(Reflex(), "Endless-v0", [1.0], 2, 0, max_episode_steps=asked)
    assert result.lengths.tolist() == result.returns.tolist() == [steps] * 2
    assert result.cut.tolist() == [cut] * 2
    (result,) = rollout(Reflex(), "Endless-v0", [1.0], 2, 0, max_episode_steps=asked, longest_episode=9)
    assert result.lengths.tolist() == [asked or registered_limit or 9] * 2  # the data's longest, where nothing else is
    if asked is None:
        *_, last = play(Reflex(), gymnasium.make("Endless-v0"), 1.0, 0)
        assert last == (steps, steps, True)


def test_rollout_cuts_only_the_episodes_that_go_on(countdown: str) -> None:
    (result,) = rollout(Reflex(), countdown, [10.0], episodes=5, seed=0, max_episode_steps=5)
    assert result.lengths.tolist() == [3, 4, 5, 5, 5]
    assert result.cut.tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("tokens", ["step", "interleaved"])
@pytest.mark.parametrize("previous_action", [False, True])
def test_window_actor_uses_only_the_last_steps(tokens: str, previous_action: bool) -> None:
    torch.manual_seed(0)
    config = AgentConfig(tokens=tokens, previous_action=previous_action)
    agent = DecisionAgent(config, registered("mingru").config(width=16), agent_spec(torch.zeros(4), torch.ones(4), 2))
    agent = agent.double().eval()
    window, time, batch = 6, 15, 3
    actor = WindowActor(agent, window)
    observations = torch.randn(time, batch, 4, dtype=torch.float64)
    rewards = torch.rand(time, batch, dtype=torch.float64)
    targets = torch.tensor([50.0, 60.0, 70.0], dtype=torch.float64)
    windowed, carried = actor.initial_state(targets), agent.initial_state(targets)
    actions: list[Tensor] = []
    with torch.no_grad():
        for t in range(time):
            earned = rewards[t - 1] if t else torch.zeros(batch, dtype=torch.float64)
            action, windowed, _ = actor.act(observations[t], earned, windowed)
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
                torch.stack([actions[s - 1] if s else torch.zeros(batch, 2, dtype=torch.float64) for s in steps], 1),
                torch.tensor(list(steps)).expand(batch, -1),
                torch.tensor([s == 0 for s in steps]).expand(batch, -1),
            )
            torch.testing.assert_close(action, predicted[:, -1], rtol=0, atol=1e-12)


def test_one_thread_restores_the_thread_count_after_an_error() -> None:
    torch.set_num_threads(2)
    inside = []

    def fails() -> None:
        with one_thread():
            inside.append(torch.get_num_threads())
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert inside == [1]
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)

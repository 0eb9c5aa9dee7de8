"""Conditions: their values in training and in acting, their limits, and a custom one."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from agent_specs import agent_spec
from test_agent import ACTIONS, OBSERVATIONS, make_agent, make_batch, make_slice
from torch import Tensor

from decision_rnn.agent import (
    AgentConfig,
    Condition,
    ConditionConfig,
    NoConditionConfig,
    TimeToGoalConfig,
    register_condition,
)
from decision_rnn.agent.conditions.time_to_goal import TIME_LEVELS, TimeToGoal
from decision_rnn.backbones import State
from decision_rnn.data.limits import return_to_go_limits
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch
from decision_rnn.environments.episode import Episode

pytestmark = pytest.mark.usefixtures("registries")


def test_condition_none_ignores_return_to_go_and_rewards() -> None:
    inputs = make_slice(2, 6)
    richer = {**inputs, "value": inputs["value"] + 500}
    conditioned, cloning = make_agent(), make_agent(condition=NoConditionConfig())
    assert not torch.allclose(conditioned.predict(**inputs)[0], conditioned.predict(**richer)[0])
    action = torch.zeros(2, 6, ACTIONS)
    loss, richer_loss = (cloning(make_batch(values, action)).loss for values in (inputs, richer))
    assert torch.equal(loss, richer_loss)
    states = [cloning.initial_state(torch.full((2,), target)) for target in (0.0, 1000.0)]
    observation = inputs["observation"][:, 0]
    first, second = (cloning.act(observation, torch.zeros(2), state)[0] for state in states)
    assert torch.equal(first, second)
    assert not any("condition" in name for name in cloning.state_dict())


@pytest.mark.parametrize("training", [True, False])
def test_training_returns_are_at_most_the_training_limit(training: bool) -> None:
    cap = [150.0, 20.0, 10.0]
    capped, free = (agent.train(training) for agent in (make_agent(training_rtg_limit=cap), make_agent()))
    batch = make_batch(make_slice(3, 8), torch.zeros(3, 8, ACTIONS))
    lowered = batch.return_to_go.clone()
    for row, timesteps in enumerate(batch.timestep.tolist()):
        for i, timestep in enumerate(timesteps):
            lowered[row, i] = min(lowered[row, i].item(), cap[min(timestep, 2)])
    assert not torch.equal(lowered, batch.return_to_go)
    assert torch.equal(capped(batch).loss, free(batch._replace(return_to_go=lowered)).loss)
    assert not torch.equal(capped(batch).loss, free(batch).loss)


def test_embeddings_compute_in_float32_under_autocast() -> None:
    """In bfloat16 a scaled return-to-go of 12 has steps of 0.06."""
    agent, exact = make_agent(), make_agent().double()
    inputs = make_slice(2, 5)
    inputs["value"] = inputs["value"] + 1200.0
    numbers = [inputs[name].double() for name in ("value", "observation", "previous_action")]
    embedded: list[Tensor] = []
    agent.embedding_norm.register_forward_hook(lambda *call: embedded.append(call[-1]))
    with torch.autocast("cpu", torch.bfloat16):
        agent(make_batch(inputs, torch.zeros(2, 5, ACTIONS)))
    expected = exact.embed(*numbers, inputs["timestep"])
    torch.testing.assert_close(embedded[0].double(), expected[0], rtol=1e-5, atol=1e-5)


@dataclass(frozen=True, kw_only=True)
class CountdownConfig(ConditionConfig):
    name: str = "countdown"


class Countdown(Condition):
    """Two values: the target, and how many steps are left of ten."""

    size = 2

    def __init__(self, config: CountdownConfig, spec: object) -> None:
        super().__init__()

    def from_batch(self, batch: Batch) -> Tensor:
        return torch.cat([batch.return_to_go, 10.0 - batch.timestep.unsqueeze(-1)], dim=-1)

    def initial_state(self, target: Tensor) -> State:
        return target, torch.full_like(target, 10.0)

    def step(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        target, left = state
        left = torch.where(first, torch.full_like(left, 10.0), left - 1)
        return torch.stack([target, left], dim=-1), (target, left)


@pytest.mark.parametrize("tokens", ["step", "interleaved"])
@torch.no_grad()
def test_own_condition_with_two_values_acts_as_it_predicts(tokens: str) -> None:
    register_condition(CountdownConfig)(Countdown)
    agent = make_agent(AgentConfig(tokens=tokens, previous_action=True), condition=CountdownConfig()).double().eval()
    inputs = make_slice(2, 7)
    target = torch.tensor([3.0, 5.0], dtype=torch.float64)
    state, actions = agent.initial_state(target), []
    for t in range(7):
        action, state, _ = agent.act(inputs["observation"][:, t].double(), torch.ones(2).double(), state)
        actions.append(action)
    acted = torch.stack(actions, dim=1)
    left = 10.0 - inputs["timestep"].double().unsqueeze(-1)
    asked = torch.cat([target.view(2, 1, 1).expand(2, 7, 1), left], dim=-1)
    previous = torch.cat([torch.zeros(2, 1, ACTIONS), acted[:, :-1]], dim=1)
    found, *_ = agent.predict(asked, inputs["observation"].double(), previous, inputs["timestep"], inputs["reset"])
    torch.testing.assert_close(found, acted, rtol=0, atol=1e-12)


def limited_by_hand(rewards: list[np.ndarray], q: float) -> tuple[list[float], list[float]]:
    """Acting and training limits by loops: quantiles at each timestep of the episodes that last that long, episodes
    repeated as often as they return, which are whole numbers."""

    def quantiles(level: float, weighted: bool) -> list[float]:
        found = []
        for t in range(max(map(len, rewards))):
            lasting = [episode for episode in rewards if len(episode) > t]
            repeats = [int(episode.sum()) if weighted else 1 for episode in lasting]
            values = np.repeat([episode[t:].sum() for episode in lasting], repeats)
            found.append(float(np.quantile(values, level)))
        return found

    acting, higher, unweighted = quantiles(q, True), quantiles((1 + q) / 2, True), quantiles(1 - 0.3 * (1 - q), False)
    training = [max(higher[t], unweighted[t], *acting[t:]) for t in range(len(acting))]
    return [max(acting)], training


def write(path: Path, rewards: list[np.ndarray]) -> EpisodeStore:
    episodes = [Episode(np.zeros((len(of) + 1, 1)), np.zeros((len(of), 1)), of, True, False) for of in rewards]
    return EpisodeStore.write(path, episodes, environment_id=None, source={})


@pytest.mark.parametrize("quantile", [0.5, 0.8, 1.0])
def test_limits_are_those_of_episodes_repeated_by_return(tmp_path: Path, quantile: float) -> None:
    generator = np.random.default_rng(0)
    rewards = [generator.integers(0, 4, size).astype(float) for size in generator.integers(5, 60, 400)]
    store = write(tmp_path / "store", rewards)
    for limit, expected in zip(return_to_go_limits(store, quantile), limited_by_hand(rewards, quantile), strict=True):
        # Between two values np.quantile interpolates over copies, the weighted one over episodes.
        np.testing.assert_allclose(limit, expected, rtol=0.02, atol=1)
    failed = write(tmp_path / "failed", [*rewards, *[np.full(3, -1.0)] * 1000])  # they have no weight
    assert return_to_go_limits(failed, quantile)[0] == pytest.approx(return_to_go_limits(store, quantile)[0])


@pytest.mark.parametrize("sign", [1, -1])
def test_limit_is_of_each_timestep_where_rewards_are_costs(tmp_path: Path, sign: int) -> None:
    store = write(tmp_path / "store", [np.full(length, sign * 2.0) for length in (4, 5)])
    acting, training = return_to_go_limits(store, 1.0)
    assert acting.tolist() == ([10] if sign > 0 else [-8, -6, -4, -2, -2])
    assert training.tolist() == ([10, 8, 6, 4, 2] if sign > 0 else [-8, -6, -4, -2, -2])


def test_limit_of_each_timestep_holds_with_failures_that_last_longer(tmp_path: Path) -> None:
    """Each step costs 1 and the goal is worth 20: none can return 20 from the start."""
    successes = [np.append(np.full(length - 1, -1.0), 20.0) for length in (6, 9)]
    acting, training = return_to_go_limits(write(tmp_path / "store", [*successes, *[np.full(12, -1.0)] * 4]), 1.0)
    assert acting.tolist() == [15, 16, 17, 18, 19, 20, 18, 19, 20, -3, -2, -1]
    assert training.tolist() == acting.tolist()


def test_training_reaches_the_limit_where_few_episodes_last(tmp_path: Path) -> None:
    """As in a replay buffer: one episode in a hundred lasts, and at the first timesteps most returns are low."""
    acting, training = return_to_go_limits(write(tmp_path / "few", [np.ones(5)] * 198 + [np.ones(50)] * 2), 0.8)
    assert acting.tolist() == [45]  # of the two at timestep 5; at timestep 0 even the 0.94 quantile is 5
    assert training[0] == 45


def test_predicted_quantiles_are_those_of_the_data() -> None:
    """In two situations, with times, here also below zero, of a normal and of an exponential distribution."""
    torch.manual_seed(0)
    draws = np.random.default_rng(0)
    times = -np.stack([2 + 0.5 * draws.standard_normal(20_000), draws.exponential(1.0, 20_000)])
    hidden, timestep = torch.eye(2, 32)[:, None].expand(2, 256, 32), torch.zeros(2, 256)
    spec = agent_spec(torch.zeros(1), torch.ones(1), 1, width=32)
    condition = TimeToGoal(TimeToGoalConfig(time_quantile=0.08), spec)
    batch = make_batch(make_slice(2, 256), torch.zeros(2, 256, 1))._replace(timestep=timestep)
    optimizer = torch.optim.Adam(condition.parameters(), 1e-2)
    for step in range(300):
        drawn = torch.from_numpy(times[:, draws.integers(20_000, size=256)]).float()
        loss, _ = condition.loss(hidden, batch._replace(return_to_go=-drawn.unsqueeze(-1)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / 300)
        optimizer.step()
    with torch.no_grad():
        predicted = -condition.quantiles(hidden[:, 0], timestep[:, 0]).numpy()
        limit = condition.limit(torch.full((2, 1), math.inf), timestep[:, 0], hidden[:, 0], torch.empty(0)).numpy()
    below = (times[:, None, :] < predicted[..., None]).mean(-1)
    np.testing.assert_allclose(below, np.tile(TIME_LEVELS, (2, 1)), atol=0.03)
    assert (np.diff(predicted) < 0).all()
    at_10, at_5 = (predicted[:, TIME_LEVELS.index(level)] for level in (0.1, 0.05))
    np.testing.assert_allclose(-limit[:, 0], 0.6 * at_10 + 0.4 * at_5, rtol=1e-5)


@torch.no_grad()
def test_sooner_target_than_the_predicted_one_acts_like_it() -> None:
    agent, observation = make_agent(condition=TimeToGoalConfig()).eval(), torch.randn(1, OBSERVATIONS)

    def act(target: float) -> tuple[Tensor, float]:
        action, _, value = agent.act(observation, torch.zeros(1), agent.initial_state(torch.tensor([target])))
        return action, value.item()

    auto, limit = act(math.inf)
    assert act(limit + 50)[1] == limit
    torch.testing.assert_close(act(limit + 50)[0], auto, rtol=0, atol=0)
    later, value = act(limit - 50)
    assert value == pytest.approx(limit - 50)
    assert not torch.allclose(later, auto)

"""Goals of observations at the head: a state that does not depend on them, and actions that do."""

import pytest
import torch
from gymnasium.spaces import Box, Dict

from decision_rnn import AgentConfig, DecisionAgent, InputError
from decision_rnn.agent import ReturnToGoConfig, agent_spec
from decision_rnn.backbones import registered

GOALS = slice(2, 4)
SPACE = Dict(achieved_goal=Box(-9, 9, (2,)), desired_goal=Box(-9, 9, (2,)), observation=Box(-9, 9, (3,)))


def make_agent(config: AgentConfig) -> DecisionAgent:
    torch.manual_seed(0)
    spec = agent_spec(torch.linspace(-1, 1, 7), torch.linspace(0.5, 2, 7), 2, SPACE, return_scale=100.0)
    condition = ReturnToGoConfig().completed(config.condition_at == "head")
    return DecisionAgent(config, registered("mingru").config(width=16, layers=2), spec, condition).double().eval()


@pytest.mark.parametrize("at", ["head", "observation"])
@torch.no_grad()
def test_state_of_an_agent_whose_goals_enter_at_the_head_does_not_depend_on_them(at: str) -> None:
    agent = make_agent(AgentConfig(goals_at=at))
    observation = torch.randn(6, 1, 7, dtype=torch.float64).expand(-1, 2, -1).clone()
    observation[:, 1, GOALS] += 1
    state = agent.initial_state(torch.full((2,), 50.0, dtype=torch.float64))
    for seen in observation:
        action, state = agent.act(seen, torch.ones(2, dtype=torch.float64), None, state)
    assert not torch.allclose(action[0], action[1])
    assert all(torch.allclose(part[0], part[1], atol=1e-12) for part in state.memory) is (at == "head")


@torch.no_grad()
def test_observation_whose_goals_enter_at_the_head_is_normalised_once() -> None:
    agent = make_agent(AgentConfig(goals_at="head"))
    calls: list[object] = []
    agent.encoder.register_forward_hook(lambda *call: calls.append(call))
    one = torch.ones(1, dtype=torch.float64)
    _, state = agent.act(torch.ones(1, 7, dtype=torch.float64), one, None, agent.initial_state(one))
    asked, time = one.view(1, 1, 1), torch.zeros(1, 1, dtype=torch.int64)
    previous, reset = state.previous_action[:, None], time == 0
    agent.predict(asked, torch.ones(1, 1, 7, dtype=torch.float64), previous, time, reset)
    assert len(calls) == 2  # a step and a slice


@pytest.mark.parametrize("condition_at", ["token", "head"])
@pytest.mark.parametrize("others", [{}, {"tokens": "interleaved", "previous_action": True}])
@torch.no_grad()
def test_agent_whose_goals_enter_at_the_head_acts_as_it_predicts_in_parallel(condition_at: str, others: dict) -> None:
    agent = make_agent(AgentConfig(goals_at="head", condition_at=condition_at, **others))
    observation = torch.randn(3, 20, 7, dtype=torch.float64)
    nothing = torch.zeros(3, dtype=torch.float64)
    state, acted = agent.initial_state(nothing + 70), []
    for t in range(20):
        action, state = agent.act(observation[:, t], nothing, None, state)
        acted.append(action)
    taken = torch.stack(acted, dim=1)
    previous, steps = torch.cat([torch.zeros_like(taken[:, :1]), taken[:, :-1]], dim=1), torch.arange(20).expand(3, -1)
    asked = torch.full((3, 20, 1), 70.0, dtype=torch.float64)
    predicted, _ = agent.predict(asked, observation, previous, steps, steps == 0)
    torch.testing.assert_close(predicted, taken, rtol=0, atol=1e-12)


def test_goals_at_the_head_need_observations_with_goals() -> None:
    with pytest.raises(InputError, match=r"agent.goals_at is head, but the observations of the dataset are Box"):
        DecisionAgent(AgentConfig(goals_at="head"), registered("mlp").config(width=8), agent_spec(*torch.ones(2, 3), 2))

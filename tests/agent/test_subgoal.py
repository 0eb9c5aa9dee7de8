"""Subgoals: what they depend on, and the plans that are learnt."""

import math

import pytest
import torch
from gymnasium.spaces import Box, Dict

from decision_rnn.agent import AgentConfig, AgentSpec, DecisionAgent, SubgoalConfig
from decision_rnn.agent.conditions.subgoal import Subgoal
from decision_rnn.agent.objectives.gmm import GMMConfig
from decision_rnn.backbones import registered
from decision_rnn.data.stream import Batch

# A row is the achieved goal, the desired one, and another entry.
SPACE = Dict(achieved_goal=Box(-9, 9, (2,)), desired_goal=Box(-9, 9, (2,)), observation=Box(-9, 9, (1,)))
CHANGES = torch.tensor([0.5, 0.25])


def make_agent(**options: float) -> DecisionAgent:
    torch.manual_seed(0)
    spec = AgentSpec(
        observation_space=SPACE,
        action_space=Box(-1, 1, (2,)),
        observation_mean=torch.zeros(3),
        observation_std=torch.ones(3),
        observation_index=torch.tensor([0, 1, 4]),
        return_scale=20.0,
        goal_changes=CHANGES,
    )
    backbone = registered("mingru").config(width=16, layers=2)
    return DecisionAgent(AgentConfig(), backbone, spec, SubgoalConfig(subgoal_steps=5, **options), GMMConfig()).eval()


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"dropout": 0.1, "guidance": 2.0}])
def test_agent_with_subgoals_acts_step_by_step_as_it_predicts_in_parallel(options: dict[str, float]) -> None:
    agent, time = make_agent(**options).double(), 12
    observation = torch.randn(2, time, 5, dtype=torch.float64)
    state, acted = agent.initial_state(torch.tensor([math.inf, -8.0])), []
    for t in range(time):
        action, state, value = agent.act(observation[:, t], torch.zeros(2, dtype=torch.float64), state)
        acted.append(torch.cat([action, value], dim=-1))
    timestep = torch.arange(time).expand(2, time)
    target = torch.tensor([[math.inf], [-8.0]], dtype=torch.float64) + timestep
    reset, previous = timestep == 0, torch.zeros(2, time, 2, dtype=torch.float64)
    action, _, value = agent.predict(target.unsqueeze(-1), observation, previous, timestep, reset)
    torch.testing.assert_close(torch.stack(acted, dim=1), torch.cat([action, value], dim=-1), rtol=0, atol=1e-12)


@torch.no_grad()
def test_goals_change_the_subgoal_but_neither_the_memory_nor_what_a_subgoal_leads_to() -> None:
    agent = make_agent()
    observation = torch.randn(1, 5).repeat(2, 1)
    observation[1, 2:4] += 1.0  # another goal
    _, state, value = agent.act(observation, torch.zeros(2), agent.initial_state(torch.full((2,), math.inf)))
    assert not torch.allclose(value[0], value[1])
    assert all(torch.equal(part[0], part[1]) for part in state.memory)
    hidden = torch.randn(1, 16)
    assert not torch.equal(agent.select_actions(value[:1], hidden), agent.select_actions(value[1:], hidden))
    beyond = torch.cat([value[:1, :1].clamp_max(-5) - 30, value[:1, 1:]], dim=-1)  # the subgoal is no nearer
    at_once = torch.cat([torch.full((1, 1), -5.0), value[:1, 1:]], dim=-1)
    assert torch.equal(agent.select_actions(beyond, hidden), agent.select_actions(at_once, hidden))


def test_planner_learns_where_episodes_are_some_steps_later() -> None:
    """Points that go straight to their goals, one unit a step, in 1 to 20 steps: the subgoal is five units on, or the
    goal. Those of a detour, in twice the time, do not move in the first five steps."""
    agent = make_agent(time_quantile=0.05).train()
    condition = agent.condition
    assert isinstance(condition, Subgoal)
    optimizer = torch.optim.Adam(agent.parameters(), 3e-3)
    flags, zeros = torch.zeros(256, 1, dtype=torch.bool), torch.zeros(256, 1, 2)

    def batch() -> Batch:
        steps, detour = torch.randint(1, 21, (256, 1, 1)).float(), torch.rand(256, 1, 1) < 0.5
        direction = torch.nn.functional.normalize(torch.randn(256, 1, 2), dim=-1)
        observation = torch.cat([zeros, steps * direction, zeros[..., :1]], dim=-1)
        subgoal = torch.where(detour, 0.0, steps.clamp_max(5) * direction)
        to_go, timestep = -torch.where(detour, 2 * steps, steps), torch.zeros(256, 1, dtype=torch.int64)
        return Batch(observation, zeros, zeros, flags[..., 0], to_go, timestep, ~flags, subgoal)

    condition.changes[:] = 3.0
    for step in range(600):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 - step / 600)
        loss, *_ = agent(batch())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seen, agent = batch(), agent.eval()
    with torch.no_grad():
        target = torch.full_like(seen.return_to_go, math.inf)
        _, _, value = agent.predict(target, seen.observation, zeros, seen.timestep, ~flags)
    distance = seen.observation[..., 2:4].norm(dim=-1, keepdim=True)
    expected = seen.observation[..., 2:4] * (distance.clamp_max(5) / distance)
    assert (value[..., 1:] - expected).norm(dim=-1).quantile(0.9) < 1.0
    assert (value[..., :1] + distance).abs().quantile(0.9) < 2.5  # the time of the straight way, not of the detour

"""The return in reach: its quantiles against numpy's, what it limits, and a state that does not know the target."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from test_agent import OBSERVATIONS, make_agent, make_slice

from decision_rnn.agent import AgentConfig, DecisionAgent, ReturnToGoConfig
from decision_rnn.agent.reach import LEVELS, ReturnInReach
from decision_rnn.utils.errors import InputError

AT_HEAD = AgentConfig(condition_at="head")


def test_quantiles_of_the_return_to_go_are_those_of_the_data() -> None:
    """In two situations, returns of which are drawn from a normal and from an exponential distribution."""
    torch.manual_seed(0)
    draws = np.random.default_rng(0)
    returns = np.stack([2 + 0.5 * draws.standard_normal(20_000), draws.exponential(1.0, 20_000)])
    hidden = torch.eye(2, 32)[:, None].expand(2, 256, 32)
    reach, timestep = ReturnInReach(32), torch.zeros(2, 256)
    optimizer = torch.optim.Adam(reach.parameters(), 1e-2)
    for step in range(300):
        chosen = torch.from_numpy(returns[:, draws.integers(20_000, size=256)]).float()
        loss = reach.loss(hidden, timestep, chosen.unsqueeze(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / 300)
        optimizer.step()
    with torch.no_grad():
        found = reach.quantiles(hidden[:, 0], timestep[:, 0]).numpy()
        between = reach(hidden[:, 0], timestep[:, 0], 0.92).numpy()
    exceeded = (returns[:, None, :] > found[..., None]).mean(-1)
    np.testing.assert_allclose(exceeded, np.tile(1 - np.array(LEVELS), (2, 1)), atol=0.03)
    assert (np.diff(found) > 0).all()
    fourth, fifth = LEVELS.index(0.9), LEVELS.index(0.95)
    np.testing.assert_allclose(between[:, 0], 0.6 * found[:, fourth] + 0.4 * found[:, fifth], rtol=1e-5)


@torch.no_grad()
def test_state_of_an_agent_conditioned_at_the_head_does_not_depend_on_the_target() -> None:
    agent, token = (make_agent(AgentConfig(condition_at=at)).eval() for at in ("head", "token"))
    observation = torch.randn(6, 2, OBSERVATIONS)
    for tested, same in ((agent, True), (token, False)):
        state = tested.initial_state(torch.tensor([10.0, 300.0]))
        for seen in observation[:, :1].expand(-1, 2, -1):
            action, state = tested.act(seen, torch.ones(2), None, state)
        assert not torch.allclose(action[0], action[1])
        assert all(torch.allclose(part[0], part[1], atol=1e-6) for part in state.memory) is same


@torch.no_grad()
def test_target_above_the_return_in_reach_acts_like_it() -> None:
    agent, observation = make_agent(AT_HEAD, condition=ReturnToGoConfig(reach=0.9)).eval(), torch.randn(1, OBSERVATIONS)
    reach = reach_at(agent, observation)
    beyond, best, at, below = (
        agent.act(observation, torch.zeros(1), None, agent.initial_state(torch.tensor([target])))[0]
        for target in (reach + 50, math.inf, reach, reach - 50)
    )
    torch.testing.assert_close(beyond, at, rtol=0, atol=1e-6)
    torch.testing.assert_close(best, at, rtol=0, atol=1e-6)
    assert not torch.allclose(below, at)


def reach_at(agent: DecisionAgent, observation: torch.Tensor) -> float:
    inputs: dict[str, Any] = {**make_slice(1, 1), "observation": agent.encoder(observation[:, None])}
    hidden, _ = agent._remember(*(inputs[name] for name in inputs), None)
    condition: Any = agent.condition
    return float(100 * condition.reach(hidden[:, 0, -1], torch.zeros(1), 0.9))  # the return scale is 100


def test_reach_of_an_agent_that_is_conditioned_by_a_token_raises() -> None:
    with pytest.raises(InputError, match=r"condition.reach .* agent.condition_at head"):
        ReturnToGoConfig(reach=0.9).completed(at_head=False)
    with pytest.raises(InputError, match=r"condition.reach is 0.3: .* from 0.5 to 0.995"):
        ReturnToGoConfig(reach=0.3)

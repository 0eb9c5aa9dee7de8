"""Flow matching: its loss and its steps where the velocities are known, data that go two ways, acting in a box."""

import gymnasium
import numpy as np
import pytest
import torch
from small_objective import ACTIONS, WIDTH, slices, small_objective
from torch import Tensor

from decision_rnn import AgentConfig, DecisionAgent, InputError
from decision_rnn.agent import (
    FlowMatchingConfig,
    MSEConfig,
    NoConditionConfig,
    Objective,
    ObjectiveConfig,
    agent_spec,
)
from decision_rnn.agent.objectives.flow_matching import FlowMatching
from decision_rnn.backbones import registered
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream


def make(config: ObjectiveConfig | None = None, actions: gymnasium.Space | None = None) -> Objective:
    return small_objective(config or FlowMatchingConfig(width=64), actions)


@pytest.mark.parametrize("flow_steps", [1, 2, 10])
def test_velocities_towards_one_action_have_no_loss_and_lead_there(
    monkeypatch: pytest.MonkeyPatch, flow_steps: int
) -> None:
    """Of x_t = (1 - t) z + t a, the velocity is a - z = (a - x_t) / (1 - t), of which Euler steps are exact."""
    goal = torch.tensor([0.3, -0.9, 0.5])
    monkeypatch.setattr(FlowMatching, "velocity", lambda self, embedded, noisy, time: (goal - noisy) / (1 - time))
    flow, hidden = make(FlowMatchingConfig(flow_steps=flow_steps)), torch.randn(2, 5, WIDTH)
    loss, metrics = flow.loss(hidden, slices(goal.expand(2, 5, ACTIONS)))
    assert loss.item() < 1e-6
    assert metrics["squared_error"].item() < 1e-6
    for taken in (flow.action(hidden), flow.sample(hidden)):
        torch.testing.assert_close(taken, goal.expand(2, 5, ACTIONS))


def test_loss_is_the_squared_error_of_velocities_between_noise_and_actions() -> None:
    """Against the velocity 0, it is the mean square of a - z: that of the actions and 1."""
    flow = make().requires_grad_(False)
    for parameter in flow.head[-1].parameters():
        parameter.zero_()
    action = torch.rand(500, 64, ACTIONS) - 0.2
    loss, metrics = flow.loss(torch.randn(500, 64, WIDTH), slices(action))
    assert loss.item() == pytest.approx(action.square().mean().item() + 1, abs=0.02)
    assert metrics["squared_error"].item() == pytest.approx(action[:, -1].square().mean().item(), rel=1e-5)


def fitted(objective: Objective, hidden: Tensor, action: Tensor, steps: int) -> Objective:
    optimizer = torch.optim.Adam(objective.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        loss, _ = objective.loss(hidden, slices(action))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return objective.requires_grad_(False)


def test_sampled_actions_go_both_ways_where_squared_error_goes_between() -> None:
    """Three quarters of the data go right by 0.6, the rest go left, at a state that does not say which comes."""
    right = torch.rand(32, 32, 1, generator=torch.Generator().manual_seed(0)) < 0.75
    action = torch.where(right, 0.6, -0.6) + 0.02 * torch.randn(32, 32, ACTIONS)
    hidden, here = torch.ones(32, 32, WIDTH), torch.ones(4000, WIDTH)
    flow = fitted(make(), hidden, action, 1000)
    drawn = flow.sample(here)
    assert (drawn.abs() < 0.3).float().mean() < 0.05  # of actions between, whose noise began between the two ways
    assert ((drawn.abs() - 0.6).abs() < 0.1).float().mean() > 0.9
    assert (drawn > 0).float().mean().item() == pytest.approx(right.float().mean().item(), abs=0.05)
    assert (flow.action(here) - 0.6).abs().max() < 0.1
    mean = fitted(make(MSEConfig()), hidden, action, 400).action(here)
    assert (mean - action.mean((0, 1))).abs().max() < 0.05


def test_flow_of_one_batch_leads_from_any_noise_to_its_actions() -> None:
    hidden, action = torch.randn(2, 8, WIDTH), 2 * torch.rand(2, 8, ACTIONS) - 1
    flow = fitted(make(FlowMatchingConfig()), hidden, action, 800)
    assert (flow.action(hidden) - action).abs().max() < 0.1
    assert (flow.sample(hidden) - action).square().mean().sqrt() < 0.1


def test_acting_step_by_step_takes_the_actions_of_a_slice_and_stays_in_the_box(store: EpisodeStore) -> None:
    torch.manual_seed(0)
    box = gymnasium.spaces.Box(np.float32([-2, 0, -0.1]), np.float32([2, 1, 0.3]))
    backbone = registered("mingru").config(width=16, layers=1)
    spec = agent_spec(torch.zeros(11), torch.ones(11), box)
    agent = DecisionAgent(AgentConfig(), backbone, spec, NoConditionConfig(), FlowMatchingConfig()).eval()
    agent.objective.head[-1].weight.data *= 20  # so that velocities lead out of it
    batch = StepStream(store, 30, 4, 0).sample()
    whole = torch.zeros(4, 30, dtype=torch.bool)
    inputs = agent.condition.from_batch(batch), batch.observation, batch.previous_action, batch.timestep, whole
    with torch.inference_mode():
        predicted, *_ = agent.predict(*inputs)
        state, taken = agent.initial_state(torch.zeros(4)), []
        for t in range(30):
            action, state, _ = agent.act(batch.observation[:, t], batch.reward[:, t], state)
            taken.append(action)
        torch.testing.assert_close(torch.stack(taken, dim=1), predicted, rtol=0, atol=1e-5)
        drawn, *_ = agent.predict(*inputs, sample=True)
    assert not torch.equal(predicted, drawn)
    low, high = torch.from_numpy(box.low), torch.from_numpy(box.high)
    for actions in (predicted, drawn):
        assert ((actions >= low) & (actions <= high)).all()
        assert (actions == high).any()


def test_flow_needs_a_box_and_steps() -> None:
    with pytest.raises(InputError, match="flow_matching"):
        make(actions=gymnasium.spaces.Discrete(2))
    with pytest.raises(ValueError, match="flow_steps"):
        FlowMatchingConfig(flow_steps=0)

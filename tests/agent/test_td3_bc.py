"""The objective with a critic: its n-step targets, whose gradients go where, and actions better than the data's."""

import copy

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from decision_rnn import AgentConfig, DecisionAgent, InputError
from decision_rnn.agent import NoConditionConfig, TD3BCConfig, agent_spec
from decision_rnn.agent.td3_bc import n_step_returns
from decision_rnn.backbones import Resets, registered
from decision_rnn.config import TrainingConfig
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch, StepStream
from decision_rnn.training.trainer import Trainer


def make_agent(value_weight: float = 1.0, observations: int = 11, actions: int = 3) -> DecisionAgent:
    torch.manual_seed(0)
    spec = agent_spec(torch.zeros(observations), torch.ones(observations), actions, return_scale=1.0)
    backbone, objective = (
        registered("mlp").config(width=16, layers=1),
        TD3BCConfig(value_weight=value_weight, width=32),
    )
    return DecisionAgent(AgentConfig(), backbone, spec, NoConditionConfig(), objective)


@pytest.mark.parametrize("flagged", [True, False])
def test_n_step_returns_equal_the_sum_of_each_step(flagged: bool) -> None:
    """Against the definition; where no flag ends an episode, the first step of the next one shows it."""
    generator = np.random.default_rng(0)
    batch, time, discount = 8, 12, 0.9
    timestep = (np.arange(time) + generator.integers(0, 5, (batch, 1))) % 5  # episodes of five steps
    ends = timestep == 4
    terminated = ends & (generator.random((batch, time)) < 0.5)
    truncated = ends & ~terminated & flagged
    reward, value = generator.normal(size=(2, batch, time))
    slices = Batch(
        *[torch.zeros(0)] * 5,
        *map(torch.from_numpy, (timestep, terminated, truncated)),
        Resets.from_mask(torch.zeros(batch, time, dtype=torch.bool)),
    )
    returns, known = n_step_returns(slices, torch.from_numpy(reward), torch.from_numpy(value), discount)
    for row in range(batch):
        for t in range(time):
            last = next((k for k in range(t, time) if ends[row, k]), time - 1)
            if terminated[row, last]:
                expected = sum(discount ** (k - t) * reward[row, k] for k in range(t, last + 1))
            else:
                expected = sum(discount ** (k - t) * reward[row, k] for k in range(t, last))
                expected += discount ** (last - t) * value[row, last]
            assert returns[row, t].item() == pytest.approx(expected, rel=1e-12)
            assert known[row, t].item() == (t < last or terminated[row, t])


def gradients(agent: DecisionAgent, batch: Batch) -> tuple[list[Tensor], list[Tensor]]:
    """Of the critic, and of the rest of the agent."""
    agent(batch).loss.backward()
    critic = {id(p) for p in agent.objective.critic.parameters()}
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    for parameter in agent.parameters():
        if parameter.grad is not None:
            found[id(parameter) not in critic].append(parameter.grad)
    return found


def test_critic_learns_from_the_data_alone_and_the_agent_from_the_critic(store: EpisodeStore) -> None:
    batch = StepStream(store, 8, 4, 0).sample()
    (critic, agent), (critic_alone, agent_alone) = (gradients(make_agent(weight), batch) for weight in (1.0, 0.0))
    assert len(critic) == 12
    assert all(torch.equal(a, b) for a, b in zip(critic, critic_alone, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(agent, agent_alone, strict=True))
    objective = make_agent().objective
    targets = copy.deepcopy(objective.target.state_dict())
    for parameter in objective.critic.parameters():
        parameter.grad = torch.ones_like(parameter)
    objective.after_step()
    for name, before in targets.items():
        moved = before + 0.005 * (objective.critic.state_dict()[name] - before)
        torch.testing.assert_close(objective.target.state_dict()[name], moved)
    assert all(parameter.grad is None for parameter in objective.critic.parameters())


def test_critic_finds_actions_that_are_better_than_the_mean_of_the_data() -> None:
    """Random actions, of which one entry of 0.5 earns most: cloning learns their mean of 0."""

    def trained(value_weight: float) -> float:
        agent, generator = make_agent(value_weight, observations=2, actions=1), torch.Generator().manual_seed(1)
        trainer = Trainer(agent, TrainingConfig(steps=300, warmup_steps=10, learning_rate=3e-3, precision="fp32"))
        trainer.optimizers[-1].register_step_post_hook(lambda *_: agent.objective.after_step())
        for group in agent.objective.optimizer.param_groups:
            group["lr"] = 3e-3
        ones = torch.ones(64, 1, dtype=torch.bool)
        for _ in range(300):
            action = torch.rand(64, 1, 1, generator=generator) * 2 - 1
            observation = torch.randn(64, 1, 2, generator=generator)
            reward = 1 - (action[..., 0] - 0.5).square()
            rest = reward.unsqueeze(-1), torch.zeros(64, 1, dtype=torch.int64), ones, ~ones
            trainer.step(Batch(observation, action, action * 0, reward, *rest, Resets.from_mask(ones)))
        inputs = observation, action * 0, torch.zeros(64, 1, dtype=torch.int64), Resets.from_mask(ones)
        asked = torch.zeros(64, 1, 0)
        return trainer.result.eval().predict(asked, *inputs)[0].mean().item()

    assert abs(trained(0.0)) < 0.1
    assert trained(1.0) > 0.2


def test_critic_needs_a_box_of_actions() -> None:
    spec = agent_spec(torch.zeros(2), torch.ones(2), gymnasium.spaces.Discrete(2))
    with pytest.raises(InputError, match=r"objective td3_bc: the actions are Discrete\(2\), where it needs a Box"):
        DecisionAgent(AgentConfig(), registered("mlp").config(width=8, layers=1), spec, objective=TD3BCConfig())


@pytest.mark.parametrize(
    ("key", "value"), [("value_weight", -1.0), ("discount", 1.0), ("learning_rate", 0.0), ("width", 0)]
)
def test_critic_settings_out_of_range_raise(key: str, value: float) -> None:
    with pytest.raises(InputError, match=f"objective.{key} is {value}: it must be"):
        TD3BCConfig(**{key: value})

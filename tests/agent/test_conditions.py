"""Conditions: what a slice shows of them, how they move while acting, and one of a user's own."""

from dataclasses import dataclass

import pytest
import torch
from test_agent import ACTIONS, make_agent, make_batch, make_slice
from torch import Tensor

from decision_rnn.agent import (
    AgentConfig,
    Condition,
    ConditionConfig,
    NoConditionConfig,
    ReturnToGoConfig,
    register_condition,
)
from decision_rnn.backbones import State
from decision_rnn.data.stream import Batch

pytestmark = pytest.mark.usefixtures("registries")


def test_condition_noise_shifts_whole_slices_and_only_in_training() -> None:
    agent = make_agent(condition=ReturnToGoConfig(noise=0.3))
    batch = make_batch(make_slice(2000, 4), torch.zeros(2000, 4, ACTIONS))
    assert torch.equal(agent.eval().condition.from_batch(batch), batch.return_to_go)
    noise = (agent.train().condition.from_batch(batch) - batch.return_to_go).squeeze(-1)
    torch.testing.assert_close(noise, noise[:, :1].expand(-1, 4), rtol=0, atol=1e-4)
    assert noise[:, 0].std().item() == pytest.approx(0.3 * 100, rel=0.1)  # the return scale is 100
    assert abs(noise[:, 0].mean().item()) < 4 * 30 / 2000**0.5


def test_condition_none_ignores_return_to_go_and_rewards() -> None:
    inputs = make_slice(2, 6)
    richer = {**inputs, "asked": inputs["asked"] + 500}
    conditioned, cloning = make_agent(), make_agent(condition=NoConditionConfig())
    assert not torch.allclose(conditioned.predict(**inputs)[0], conditioned.predict(**richer)[0])
    action = torch.zeros(2, 6, ACTIONS)
    loss, richer_loss = (cloning(make_batch(values, action)).loss for values in (inputs, richer))
    assert torch.equal(loss, richer_loss)
    states = [cloning.initial_state(torch.full((2,), target)) for target in (0.0, 1000.0)]
    observation = inputs["observation"][:, 0]
    first, second = (cloning.act(observation, torch.zeros(2), None, state)[0] for state in states)
    assert torch.equal(first, second)
    assert not any("condition" in name for name in cloning.state_dict())


@pytest.mark.parametrize("training", [True, False])
def test_loss_shows_returns_to_go_above_the_cap_of_their_timestep_as_that_cap(training: bool) -> None:
    cap = [150.0, 20.0, 10.0]
    capped, free = (agent.train(training) for agent in (make_agent(training_rtg_cap=cap), make_agent()))
    batch = make_batch(make_slice(3, 8), torch.zeros(3, 8, ACTIONS))
    lowered = batch.return_to_go.clone()
    for row, timesteps in enumerate(batch.timestep.tolist()):
        for i, timestep in enumerate(timesteps):
            lowered[row, i] = min(lowered[row, i].item(), cap[min(timestep, 2)])
    assert not torch.equal(lowered, batch.return_to_go)
    assert torch.equal(capped(batch).loss, free(batch._replace(return_to_go=lowered)).loss)
    assert not torch.equal(capped(batch).loss, free(batch).loss)


def test_cap_for_each_timestep_of_version_0_2_loads_into_an_agent_with_one_cap() -> None:
    """So that runs of 0.2 can be resumed."""
    former, agent = make_agent(rtg_cap=[150.0, 20.0, 10.0]), make_agent(rtg_cap=[40.0], training_rtg_cap=[40.0, 20.0])
    agent.load_state_dict(former.state_dict())
    assert agent.condition.cap.tolist() == [150, 20, 10]
    inputs = make_slice(2, 6)
    assert torch.equal(agent.eval().predict(**inputs)[0], former.eval().predict(**inputs)[0])


def test_embeddings_compute_in_float32_under_autocast() -> None:
    """In bfloat16 a scaled return-to-go of 12 has steps of 0.06."""
    agent = make_agent()
    inputs = make_slice(2, 5)
    inputs["asked"] = inputs["asked"] + 1200.0
    exact = (
        make_agent()
        .double()
        ._embed(
            *(inputs[name].double() for name in ("asked", "observation")),
            inputs["previous_action"].double(),
            inputs["timestep"],
        )
    )
    with torch.autocast("cpu", torch.bfloat16):
        found = agent._embed(inputs["asked"], inputs["observation"], inputs["previous_action"], inputs["timestep"])
    torch.testing.assert_close(found[0].double(), exact[0], rtol=1e-5, atol=1e-5)


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

    def restart(self, state: State) -> State:
        return self.initial_state(state[0])

    def advance(self, state: State, reward: Tensor, first: Tensor) -> tuple[Tensor, State]:
        target, left = state
        left = torch.where(first, torch.full_like(left, 10.0), left - 1)
        return torch.stack([target, left], dim=-1), (target, left)

    def accept(self, state: State, proposed: Tensor) -> State:
        return proposed[:, 0], state[1]


@pytest.mark.parametrize("tokens", ["step", "interleaved"])
@torch.no_grad()
def test_own_condition_with_two_values_acts_as_it_predicts(tokens: str) -> None:
    register_condition(CountdownConfig)(Countdown)
    agent = make_agent(AgentConfig(tokens=tokens, previous_action=True), condition=CountdownConfig()).double().eval()
    inputs = make_slice(2, 7)
    target = torch.tensor([3.0, 5.0], dtype=torch.float64)
    state, actions = agent.initial_state(target), []
    for t in range(7):
        action, state = agent.act(inputs["observation"][:, t].double(), torch.ones(2).double(), None, state)
        actions.append(action)
    acted = torch.stack(actions, dim=1)
    left = 10.0 - inputs["timestep"].double().unsqueeze(-1)
    asked = torch.cat([target.view(2, 1, 1).expand(2, 7, 1), left], dim=-1)
    previous = torch.cat([torch.zeros(2, 1, ACTIONS), acted[:, :-1]], dim=1)
    found, _ = agent.predict(asked, inputs["observation"].double(), previous, inputs["timestep"], inputs["reset"])
    torch.testing.assert_close(found, acted, rtol=0, atol=1e-12)

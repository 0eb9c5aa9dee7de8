"""The agent: what it predicts in parallel is what it does step by step, and it reads what it should."""

import pytest
import torch

from decision_rnn.agent import AgentConfig, DecisionAgent
from decision_rnn.backbones import registered, registered_names
from decision_rnn.data.stream import Batch
from decision_rnn.training.optimizer import optimizer_groups

OBSERVATIONS, ACTIONS = 5, 2
LAYOUTS = [
    AgentConfig(),
    AgentConfig(tokens="interleaved"),
    AgentConfig(return_conditioning=False),
    AgentConfig(tokens="interleaved", return_conditioning=False),
    AgentConfig(timestep_embedding=True),
]


def make_agent(config: AgentConfig = LAYOUTS[0], backbone: str = "mingru", width: int = 16) -> DecisionAgent:
    torch.manual_seed(0)
    mean, std = torch.linspace(-1, 1, OBSERVATIONS), torch.linspace(0.5, 2, OBSERVATIONS)
    return DecisionAgent(config, registered(backbone).config(width=width, layers=2), mean, std, ACTIONS, 100.0)


def make_slice(batch: int, time: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    reset = torch.zeros(batch, time, dtype=torch.bool)
    reset[:, 0] = True
    return {
        "return_to_go": 100 * torch.rand(batch, time, 1),
        "observation": torch.randn(batch, time, OBSERVATIONS),
        "previous_action": torch.rand(batch, time, ACTIONS) * ~reset.unsqueeze(-1),
        "timestep": torch.arange(time).expand(batch, time),
        "reset": reset,
    }


@pytest.mark.parametrize("backbone", registered_names())
@pytest.mark.parametrize("config", LAYOUTS, ids=str)
@torch.no_grad()
def test_acting_repeats_the_parallel_predictions(backbone: str, config: AgentConfig) -> None:
    """Three environments, one of which begins a second episode at step 7: its history is written out by hand, with
    returns-to-go from a running subtraction, and predicted in parallel."""
    agent = make_agent(config, backbone).double().eval()
    batch, time, second = 3, 30, 7
    generator = torch.Generator().manual_seed(2)
    observations = torch.randn(batch, time, OBSERVATIONS, generator=generator, dtype=torch.float64)
    rewards = torch.rand(batch, time, generator=generator, dtype=torch.float64)
    targets = torch.tensor([300.0, 200.0, 100.0], dtype=torch.float64)

    state = agent.initial_state(targets)
    acted = []
    for t in range(time):
        reset = torch.tensor([False, t == second, False]) if t else None
        earned = rewards[:, t - 1] if t else torch.full((batch,), 99.0, dtype=torch.float64)  # ignored at first
        action, state = agent.act(observations[:, t], earned, reset, state)
        acted.append(action)
    acted = torch.stack(acted, dim=1)

    returns_to_go = torch.zeros(batch, time, 1, dtype=torch.float64)
    previous = torch.zeros_like(acted)
    timestep = torch.zeros(batch, time, dtype=torch.int64)
    reset = torch.zeros(batch, time, dtype=torch.bool)
    for row in range(batch):
        for t in range(time):
            if t == 0 or (row == 1 and t == second):
                returns_to_go[row, t], reset[row, t] = targets[row], True
            else:
                returns_to_go[row, t] = returns_to_go[row, t - 1] - rewards[row, t - 1]
                previous[row, t] = acted[row, t - 1]
                timestep[row, t] = timestep[row, t - 1] + 1
    predicted, _ = agent.predict(returns_to_go, observations, previous, timestep, reset)
    torch.testing.assert_close(predicted, acted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("tokens", ["step", "interleaved"])
def test_a_prediction_reads_its_own_step_and_the_past_only(tokens: str) -> None:
    agent = make_agent(AgentConfig(tokens=tokens))
    inputs = make_slice(2, 8)
    for key in ("return_to_go", "observation", "previous_action"):
        inputs[key].requires_grad_()
    predicted, _ = agent.predict(**inputs)
    predicted[:, 4].sum().backward()
    for key in ("return_to_go", "observation", "previous_action"):
        read = inputs[key].grad.abs().sum(dim=(0, 2)) > 0
        first = 1 if key == "previous_action" and tokens == "interleaved" else 0  # cut off by the episode's start
        assert read.tolist() == [first <= t <= 4 for t in range(8)], key


def test_without_return_conditioning_the_return_changes_nothing() -> None:
    inputs = make_slice(2, 6)
    richer = {**inputs, "return_to_go": inputs["return_to_go"] + 500}
    conditioned, cloning = make_agent(), make_agent(AgentConfig(return_conditioning=False))
    assert not torch.allclose(conditioned.predict(**inputs)[0], conditioned.predict(**richer)[0])
    assert torch.equal(cloning.predict(**inputs)[0], cloning.predict(**richer)[0])


def test_observations_are_normalised_by_the_buffers_and_a_constant_dimension_stays_tame() -> None:
    raw = make_agent()
    inputs = make_slice(2, 4)
    shifted = make_agent()
    shifted.observation_mean += 10
    moved = {**inputs, "observation": inputs["observation"] + 10}
    torch.testing.assert_close(raw.predict(**inputs)[0], shifted.predict(**moved)[0], rtol=0, atol=1e-5)
    constant = DecisionAgent(
        AgentConfig(), registered("mingru").config(), torch.zeros(OBSERVATIONS), torch.zeros(OBSERVATIONS), 2, 1.0
    )
    assert constant.observation_std.min() >= 1e-3


@pytest.mark.parametrize("backbone", registered_names())
def test_one_batch_can_be_learnt_by_heart(backbone: str) -> None:
    agent = make_agent(backbone=backbone, width=32)
    inputs = make_slice(4, 10)
    action = torch.rand(4, 10, ACTIONS) * 1.6 - 0.8
    optimizer = torch.optim.AdamW(optimizer_groups(agent, 5e-3, 0.0, 1.0))
    batch = Batch(**inputs, action=action)
    before = agent(batch)[0].item()
    for _ in range(300):
        optimizer.zero_grad()
        loss, _ = agent(batch)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01 * before


@pytest.mark.parametrize("backbone", registered_names())
def test_the_optimiser_gets_every_parameter_once(backbone: str) -> None:
    agent = make_agent(backbone=backbone)
    groups = optimizer_groups(agent, 1e-3, 0.1, 0.5)
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in agent.parameters())
    rates = {id(p): (group["lr"], group["weight_decay"]) for group in groups for p in group["params"]}
    for name, parameter in agent.named_parameters():
        if name.split(".")[-1] in ("nu_log", "theta_log", "gamma_log"):
            assert rates[id(parameter)] == (0.5e-3, 0.0)
        elif name.endswith("bias"):
            assert rates[id(parameter)] == (1e-3, 0.0)
    assert rates[id(agent.objective.head.weight)] == (1e-3, 0.1)

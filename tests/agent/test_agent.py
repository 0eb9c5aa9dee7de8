"""DecisionAgent: its parallel predictions equal its stepwise actions, and it reads the inputs that it should."""

from typing import Any, Literal

import numpy as np
import pytest
import torch
from agent_specs import agent_spec
from gymnasium import spaces

from decision_rnn.agent import (
    AgentConfig,
    ConditionConfig,
    DecisionAgent,
    NoConditionConfig,
    ReturnToGoConfig,
    TimeToGoalConfig,
)
from decision_rnn.agent.network import ActionScale
from decision_rnn.backbones import BACKBONES, registered
from decision_rnn.config import RunConfig, TrainingConfig
from decision_rnn.data.stream import Batch
from decision_rnn.training.optimizer import optimizer_groups
from decision_rnn.utils.errors import InputError

OBSERVATIONS, ACTIONS = 5, 2
CLONING = NoConditionConfig()
LAYOUTS: list[tuple[AgentConfig, ConditionConfig | None]] = [
    (AgentConfig(), None),
    (AgentConfig(previous_action=True), None),
    (AgentConfig(), CLONING),
    (AgentConfig(timestep_embedding=True), None),
    (AgentConfig(tokens="interleaved"), None),
    (AgentConfig(tokens="interleaved", previous_action=True), None),
    (AgentConfig(tokens="interleaved"), CLONING),
    (AgentConfig(tokens="interleaved", previous_action=True), CLONING),
]


def make_agent(
    config: AgentConfig | None = None,
    backbone: str = "mingru",
    width: int = 16,
    condition: ConditionConfig | None = None,
    **caps: list[float],
) -> DecisionAgent:
    torch.manual_seed(0)
    mean, std = torch.linspace(-1, 1, OBSERVATIONS), torch.linspace(0.5, 2, OBSERVATIONS)
    tensors = {name: torch.tensor(cap) for name, cap in caps.items()}
    spec = agent_spec(mean, std, ACTIONS, return_scale=100.0, **tensors)
    return DecisionAgent(config or AgentConfig(), registered(backbone).config(width=width, layers=2), spec, condition)


def make_slice(batch: int, time: int) -> dict[str, Any]:
    torch.manual_seed(1)
    reset = torch.zeros(batch, time, dtype=torch.bool)
    reset[:, 0] = True
    return {
        "value": 100 * torch.rand(batch, time, 1),
        "observation": torch.randn(batch, time, OBSERVATIONS),
        "previous_action": torch.rand(batch, time, ACTIONS) * ~reset.unsqueeze(-1),
        "timestep": torch.arange(time).expand(batch, time),
        "reset": reset,
    }


def make_batch(inputs: dict[str, Any], action: torch.Tensor) -> Batch:
    fields = {
        **inputs,
        "return_to_go": inputs["value"],
        "action": action,
        "reward": torch.zeros(action.shape[:2]),
    }
    return Batch(**{name: fields[name] for name in Batch._fields if name in fields})


@pytest.mark.parametrize(
    ("backbone", "config", "condition"),
    [
        *((backbone, *layout) for layout in LAYOUTS for backbone in BACKBONES.names()),
        *((backbone, AgentConfig(conditioning="adaln"), None) for backbone in ("mingru", "conv")),
        ("mingru", AgentConfig(delta_actions=True, previous_action=True), None),
        ("mingru", AgentConfig(tokens="interleaved", previous_action=True), TimeToGoalConfig(time_quantile=0.1)),
        ("mingru", AgentConfig(previous_action=True), TimeToGoalConfig(dropout=0.1, guidance=3.0)),
    ],
    ids=str,
)
@torch.no_grad()
def test_act_step_by_step_equals_parallel_predict(
    backbone: str, config: AgentConfig, condition: ConditionConfig | None
) -> None:
    """Three environments, one of which starts a second episode at step 7. The history is built by hand, with
    returns-to-go by running subtraction, times to the goal by counting, and predicted in parallel."""
    agent = make_agent(config, backbone, condition=condition).double().eval()
    batch, time, second = 3, 30, 7
    generator = torch.Generator().manual_seed(2)
    observations = torch.randn(batch, time, OBSERVATIONS, generator=generator, dtype=torch.float64)
    rewards = torch.rand(batch, time, generator=generator, dtype=torch.float64)
    targets = torch.tensor([300.0, 200.0, -100.0], dtype=torch.float64)

    state = agent.initial_state(targets)
    acted = []
    for t in range(time):
        state = state.reset(agent.initial_state(targets), torch.tensor([False, t == second, False]))
        earned = (
            rewards[:, t - 1] if t else torch.full((batch,), 99.0, dtype=torch.float64)
        )  # ignored at the first step
        action, state, _ = agent.act(observations[:, t], earned, state)
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
                reward = -1.0 if isinstance(condition, TimeToGoalConfig) else rewards[row, t - 1]
                returns_to_go[row, t] = returns_to_go[row, t - 1] - reward
                previous[row, t] = acted[row, t - 1]
                timestep[row, t] = timestep[row, t - 1] + 1
    predicted, *_ = agent.predict(returns_to_go[..., : agent.condition.size], observations, previous, timestep, reset)
    torch.testing.assert_close(predicted, acted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("tokens", ["step", "interleaved"])
@pytest.mark.parametrize("previous_action", [False, True])
@pytest.mark.parametrize("conditioning", [None, "adaln"])
@pytest.mark.parametrize("condition", [ReturnToGoConfig(), TimeToGoalConfig(), CLONING])
def test_configuration_counts_the_tokens_of_a_step(
    tokens: Any, previous_action: bool, conditioning: Any, condition: ConditionConfig
) -> None:
    config = AgentConfig(tokens=tokens, previous_action=previous_action, conditioning=conditioning)
    agent, inputs = make_agent(config, condition=condition), make_slice(2, 3)
    inputs["value"] = inputs["value"][..., : agent.condition.size]
    embedded = agent.embed(*(inputs[name] for name in ("value", "observation", "previous_action", "timestep")))
    training = TrainingConfig(goal_relabeling="hindsight" if isinstance(condition, TimeToGoalConfig) else "none")
    backbone = registered("mlp").config()
    run = RunConfig(dataset="x", backbone=backbone, agent=config, condition=condition, training=training)
    assert run.tokens_per_step == len(embedded)


@pytest.mark.parametrize("tokens", ["step", "interleaved"])
@torch.no_grad()
def test_return_to_go_is_limited_per_timestep_in_predict_and_act(tokens: str) -> None:
    """Beyond the end of the limit, its last entry applies."""
    limit = [90.0, 70.0, 60.0, 10.0]
    agent = make_agent(AgentConfig(tokens=tokens), rtg_limit=limit).double().eval()
    free = make_agent(AgentConfig(tokens=tokens)).double().eval()
    data = make_slice(3, 6)
    data |= {name: data[name].double() for name in ("value", "observation", "previous_action")}
    by_hand = data["value"].clone()
    for row in range(3):
        for t in range(6):
            by_hand[row, t, 0] = min(float(by_hand[row, t, 0]), limit[min(t, 3)])
    assert not torch.equal(by_hand, data["value"])
    expected, *_ = free.predict(**(data | {"value": by_hand}))
    torch.testing.assert_close(agent.predict(**data)[0], expected, rtol=0, atol=0)

    # With target return 300 it sees 90 first; rewards are subtracted from the target, not from the limited value.
    target = torch.tensor([300.0], dtype=torch.float64)
    state, seen = agent.initial_state(target), free.initial_state(target)
    for t, (earned, to_go) in enumerate([(0.0, 90.0), (235.0, 65.0), (20.0, 45.0), (10.0, 10.0), (30.0, 5.0)]):
        observation = data["observation"][:1, t]
        action, state, _ = agent.act(observation, torch.tensor([earned], dtype=torch.float64), state)
        given = torch.tensor([to_go], dtype=torch.float64)
        hand = seen._replace(condition=(given,))  # overwrites the return-to-go in its state
        same, seen, _ = free.act(observation, torch.zeros(1, dtype=torch.float64), hand)
        torch.testing.assert_close(action, same, rtol=0, atol=0)


@pytest.mark.parametrize("tokens", ["step", "interleaved"])
def test_prediction_depends_only_on_current_and_past_steps(tokens: str) -> None:
    agent = make_agent(AgentConfig(tokens=tokens, previous_action=True))
    inputs = make_slice(2, 8)
    for key in ("value", "observation", "previous_action"):
        inputs[key].requires_grad_()
    predicted, *_ = agent.predict(**inputs)
    predicted[:, 4].sum().backward()
    for key in ("value", "observation", "previous_action"):
        read = inputs[key].grad.abs().sum(dim=(0, 2)) > 0
        first = 1 if key == "previous_action" and tokens == "interleaved" else 0  # cut off by the episode's start
        assert read.tolist() == [first <= t <= 4 for t in range(8)], key


@pytest.mark.parametrize("tokens", ["step", "interleaved"])
def test_previous_action_has_an_effect_only_as_an_option(tokens: Literal["step", "interleaved"]) -> None:
    inputs = make_slice(2, 6)
    other = {**inputs, "previous_action": -inputs["previous_action"]}
    seeing, blind = (make_agent(AgentConfig(tokens=tokens, previous_action=sees)) for sees in (True, False))
    assert not torch.allclose(seeing.predict(**inputs)[0], seeing.predict(**other)[0])
    assert torch.equal(blind.predict(**inputs)[0], blind.predict(**other)[0])
    assert not any("action" in name for name in blind.state_dict())


@torch.no_grad()
def test_state_does_not_depend_on_a_condition_by_adaln() -> None:
    observation = torch.randn(6, 1, OBSERVATIONS).expand(-1, 2, -1)
    for conditioning, same in (("adaln", True), ("token", False)):
        agent = make_agent(AgentConfig(conditioning=conditioning)).eval()
        state = agent.initial_state(torch.tensor([10.0, 300.0]))
        for row in observation:
            action, state, _ = agent.act(row, torch.ones(2), state)
        assert not torch.allclose(action[0], action[1])
        assert all(torch.allclose(part[0], part[1], atol=1e-6) for part in state.memory) is same


def test_observations_are_normalised_by_a_bounded_std() -> None:
    raw = make_agent()
    inputs = make_slice(2, 4)
    shifted = make_agent()
    shifted.encoder.mean += 10
    moved = {**inputs, "observation": inputs["observation"] + 10}
    torch.testing.assert_close(raw.predict(**inputs)[0], shifted.predict(**moved)[0], rtol=0, atol=1e-5)
    spec = agent_spec(torch.zeros(OBSERVATIONS), torch.zeros(OBSERVATIONS), 2)
    constant = DecisionAgent(AgentConfig(), registered("mingru").config(), spec)
    assert constant.encoder.std.min() >= 1e-3


@pytest.mark.parametrize("backbone", BACKBONES.names())
def test_every_backbone_overfits_one_batch(backbone: str) -> None:
    agent = make_agent(backbone=backbone, width=32)
    inputs = make_slice(4, 10)
    action = torch.rand(4, 10, ACTIONS) * 1.6 - 0.8
    optimizer = torch.optim.AdamW(optimizer_groups(agent, 5e-3, 0.0), fused=True)  # as in training
    batch = make_batch(inputs, action)
    before = agent(batch).loss.item()
    for _ in range(200):
        optimizer.zero_grad()
        loss = agent(batch).loss
        loss.backward()
        optimizer.step()
        if loss.item() < 0.01 * before:
            return
    raise AssertionError(f"the loss is still {loss.item() / before:.0%} of the first one")


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 3, (2,), np.int64),
        spaces.Box(-np.inf, np.inf, (2,)),
        spaces.MultiBinary(2),
        spaces.Tuple([spaces.Discrete(2)]),
    ],
    ids=str,
)
def test_unsupported_action_spaces_are_refused(space: spaces.Space) -> None:
    with pytest.raises(InputError, match="actions"):
        ActionScale(space)

"""Classifier-free guidance: the actions of every objective against its equation, and conditions that are left out."""

import gymnasium
import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from agent_specs import agent_spec
from test_agent import ACTIONS, make_agent, make_batch, make_slice
from test_heads import ACTIONS as ENTRIES
from test_heads import WIDTH, make_head

import decision_rnn
from decision_rnn import InputError
from decision_rnn.agent import (
    ActionChunkConfig,
    AgentConfig,
    DecisionAgent,
    FlowMatchingConfig,
    GMMConfig,
    MSEConfig,
    Objective,
    ObjectiveConfig,
    ReturnToGoConfig,
    TimeToGoalConfig,
)
from decision_rnn.backbones import registered

CHOICES = gymnasium.spaces.MultiDiscrete([2, 3])
HEADS = [(MSEConfig(), None), (MSEConfig(), CHOICES), (GMMConfig(), None), (FlowMatchingConfig(), None)]
HIDDEN, NONE = torch.randn(2, 50, 7, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("config", "actions"), HEADS, ids=str)
@torch.no_grad()
def test_weight_1_is_the_condition_and_weight_0_none(config: ObjectiveConfig, actions: gymnasium.Space | None) -> None:
    head = make_head(config, actions)
    torch.testing.assert_close(head.guided(HIDDEN, NONE, 1.0), head.action(HIDDEN), rtol=0, atol=1e-6)
    torch.testing.assert_close(head.guided(HIDDEN, NONE, 0.0), head.action(NONE), rtol=0, atol=1e-6)
    if type(head).sample is not Objective.sample:
        drawn = []
        for draw in (lambda: head.guided(HIDDEN, NONE, 1.0, sample=True), lambda: head.sample(HIDDEN)):
            torch.manual_seed(3)
            drawn.append(draw())
        torch.testing.assert_close(*drawn, rtol=0, atol=1e-6)
        assert not torch.allclose(drawn[0], head.action(HIDDEN))


@pytest.mark.parametrize("weight", [0.5, 3.0])
@torch.no_grad()
def test_flow_follows_the_guided_velocity(weight: float) -> None:
    head = make_head(FlowMatchingConfig(flow_steps=16)).double()
    head.head[-1].weight *= 5
    guided = head.guided(HIDDEN.double(), NONE.double(), weight)
    first, second, last = (head.head[i] for i in (0, 1, 3))
    for index in np.ndindex(4, 3):
        x = torch.zeros(ENTRIES, dtype=torch.float64)
        for step in range(16):
            noisy, velocities = torch.cat([x, torch.tensor([step / 16], dtype=torch.float64)]), []
            for hidden in (HIDDEN[index].double(), NONE[index].double()):
                inner = head.embed_hidden.weight @ hidden + head.embed_hidden.bias + head.embed_noisy.weight @ noisy
                inner = first(second.weight @ first(inner) + second.bias)
                velocities.append(last.weight @ inner + last.bias)
            conditional, none = velocities
            x = x + (none + weight * (conditional - none)) / 16
        torch.testing.assert_close(guided[index], x.clamp(-1, 1), rtol=0, atol=1e-10)
    assert (guided.abs() == 1).any()
    assert (guided.abs() < 1).any()


@pytest.mark.parametrize("weight", [0.5, 1.5, 3.0])
@torch.no_grad()
def test_mixture_weighs_components_by_the_likelihood_ratio(weight: float) -> None:
    head = make_head(GMMConfig(num_components=4, min_std=0.3)).double()
    head.head.weight *= 4
    changed = masked = 0

    def mixture(hidden: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        out = (head.head.weight @ hidden.double() + head.head.bias).numpy()
        logits, means, scales = np.split(out, [4, 4 + 4 * ENTRIES])
        return logits, np.tanh(means).reshape(4, ENTRIES), np.log1p(np.exp(scales)).reshape(4, ENTRIES) + 0.3

    def density(logits: np.ndarray, means: np.ndarray, deviations: np.ndarray, action: np.ndarray) -> float:
        return float(scipy.special.softmax(logits) @ scipy.stats.norm.pdf(action, means, deviations).prod(-1))

    guided = head.guided(HIDDEN.double(), NONE.double(), weight).numpy()
    for index in np.ndindex(20, 7):
        conditional, none = mixture(HIDDEN[index]), mixture(NONE[index])
        base, exponent = (none, weight) if weight < 1 else (conditional, weight - 1)
        ratios = [density(*conditional, action) / density(*none, action) for action in base[1]]
        shares = scipy.special.softmax(base[0])
        scores = shares * np.power(ratios, exponent)
        chosen = np.where(shares < 0.5 / 4, 0, scores).argmax()
        np.testing.assert_allclose(guided[index], base[1][chosen], atol=1e-12)
        changed += chosen != base[0].argmax()
        masked += chosen != scores.argmax()
    assert changed
    assert masked


@torch.no_grad()
def test_component_that_no_data_made_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    head, scales = make_head(GMMConfig(num_components=2)), torch.full((1, 2, ENTRIES), -10.0)
    mixtures = {
        HIDDEN: (torch.tensor([[0.0, -20.0]]), torch.tensor([0.5, -0.9]).view(1, 2, 1).expand_as(scales), scales),
        NONE: (torch.tensor([[0.0, 0.0]]), torch.tensor([0.5, 0.4]).view(1, 2, 1).expand_as(scales), scales),
    }
    monkeypatch.setattr(head, "_mixture", mixtures.get)
    torch.testing.assert_close(head.guided(HIDDEN, NONE, 3.0), torch.full((1, ENTRIES), 0.5))
    mixtures[HIDDEN], mixtures[NONE] = mixtures[NONE], mixtures[HIDDEN]
    torch.testing.assert_close(head.guided(HIDDEN, NONE, 0.5), torch.full((1, ENTRIES), 0.5))


@torch.no_grad()
def test_sampled_components_have_the_guided_probabilities() -> None:
    head, count = make_head(GMMConfig(num_components=3)), 20_000
    hidden, none = HIDDEN[0, 0], NONE[0, 0]
    logits, means, _ = head._mixture(hidden)
    ratio = [head.log_likelihood(head._mixture(each), means[:, None]).squeeze(-1) for each in (hidden, none)]
    expected = (logits + 2 * (ratio[0] - ratio[1])).softmax(-1) * (logits.softmax(-1) >= 0.5 / 3)
    drawn = head.guided(hidden.expand(count, -1), none.expand(count, -1), 3.0, sample=True)
    shares = (drawn[:, None] - means).abs().sum(-1).argmin(-1).bincount(minlength=3) / count
    torch.testing.assert_close(shares, expected / expected.sum(), rtol=0, atol=0.02)


@torch.no_grad()
def test_discrete_actions_have_guided_logits() -> None:
    head = make_head(MSEConfig(), CHOICES)
    weight, bias = head.head.weight.double().numpy(), head.head.bias.double().numpy()
    logits, none = (hidden.double().numpy() @ weight.T + bias for hidden in (HIDDEN, NONE))
    guided = none + 3 * (logits - none)
    action = head.guided(HIDDEN, NONE, 3.0).numpy()
    for entries in (slice(0, 2), slice(2, 5)):
        np.testing.assert_array_equal(action[..., entries].argmax(-1), guided[..., entries].argmax(-1))
    np.testing.assert_array_equal(action.sum(-1), 2)


def test_squared_error_goes_on_beyond_the_condition() -> None:
    head = make_head(MSEConfig())
    means = [torch.tanh(hidden @ head.head.weight.T + head.head.bias) for hidden in (HIDDEN, NONE)]
    expected = (means[1] + 3 * (means[0] - means[1])).clamp(-1, 1)
    torch.testing.assert_close(head.guided(HIDDEN, NONE, 3.0), expected)


@torch.no_grad()
def test_whole_segments_are_trained_without_the_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_agent(condition=TimeToGoalConfig(dropout=0.3))
    agent.adaln.none += torch.randn_like(agent.adaln.none)
    batch, inputs = make_batch(make_slice(2000, 4), torch.zeros(2000, 4, ACTIONS)), []
    loss = agent.objective.loss
    monkeypatch.setattr(agent.objective, "loss", lambda hidden, batch: inputs.append(hidden) or loss(hidden, batch))
    agent.train()(batch)
    agent.eval()(batch)
    trained, conditional = inputs
    value = agent.condition.from_batch(batch)
    tokens = agent.embed(value, batch.observation, batch.previous_action, batch.timestep)
    hidden, _ = agent.run_backbone(tokens, batch.reset, None)
    none = agent.modulate(None, hidden)
    assert torch.equal(conditional, agent.modulate(value, hidden))
    dropped = torch.isclose(trained, none, atol=1e-6).flatten(1).all(1)
    assert torch.allclose(trained[~dropped], conditional[~dropped], atol=1e-6)
    assert dropped.float().mean().item() == pytest.approx(0.3, abs=0.04)


def test_none_learns_and_is_absent_without_dropout() -> None:
    batch = make_batch(make_slice(50, 4), torch.ones(50, 4, ACTIONS))
    agent = make_agent(condition=TimeToGoalConfig(dropout=0.5)).train()
    agent(batch).loss.backward()
    assert agent.adaln.none.grad.abs().sum() > 0
    agent = make_agent(condition=TimeToGoalConfig()).train()
    before = torch.get_rng_state()
    agent(batch)
    assert torch.equal(torch.get_rng_state(), before)
    assert not any("none" in name for name in agent.state_dict())


def test_guidance_needs_what_it_is_learnt_by() -> None:
    for condition, agent, key in (
        ({"name": "return_to_go", "dropout": 0.1}, {}, "agent.conditioning"),
        ({"name": "none", "dropout": 0.1}, {"conditioning": "adaln"}, "condition.dropout"),
        ({"name": "return_to_go", "guidance": 2}, {"conditioning": "adaln"}, "condition.dropout"),
        ({"name": "return_to_go", "guidance": -1}, {"conditioning": "adaln"}, "condition.guidance"),
    ):
        with pytest.raises(InputError, match=key.replace(".", r"\.")):
            decision_rnn.train("hopper-medium", condition=condition, agent=agent)
    spec = agent_spec(torch.zeros(3), torch.ones(3), 2)
    backbone, condition = registered("mlp").config(width=8, layers=1), ReturnToGoConfig(dropout=0.1, guidance=2.0)
    agent = DecisionAgent(AgentConfig(conditioning="adaln"), backbone, spec, condition, ActionChunkConfig())
    with pytest.raises(InputError, match=r"ActionChunk.*condition\.guidance"):
        agent.check_acting("greedy", "recurrent")

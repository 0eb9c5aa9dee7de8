"""Heads: their losses against the equations, multimodal actions, and chunks of actions that are played open-loop."""

from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from agent_specs import agent_spec
from run_config import parse_run
from torch import Tensor

from decision_rnn import AgentConfig, DecisionAgent, InputError
from decision_rnn.agent import (
    OBJECTIVES,
    ActionChunkConfig,
    FlowMatchingConfig,
    GMMConfig,
    MSEConfig,
    NoConditionConfig,
    Objective,
    ObjectiveConfig,
)
from decision_rnn.agent.objectives.flow_matching import FlowMatching
from decision_rnn.agent.spaces import unit_box
from decision_rnn.backbones import registered
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch, StepStream
from decision_rnn.training.train import train

WIDTH, ACTIONS, CHUNK = 8, 3, 3


def make_head(config: ObjectiveConfig, actions: gymnasium.Space | None = None) -> Objective:
    torch.manual_seed(0)
    spec = replace(agent_spec(torch.zeros(2), torch.ones(2), actions or unit_box(ACTIONS)), width=WIDTH)
    return OBJECTIVES.registered(config.name).cls(config, spec)


def make_agent(objective: ObjectiveConfig, actions: gymnasium.Space | int = 3, **options: object) -> DecisionAgent:
    torch.manual_seed(0)
    spec = agent_spec(torch.zeros(11), torch.ones(11), actions, return_scale=100.0)
    backbone = registered("mingru").config(width=16, layers=1)
    return DecisionAgent(AgentConfig(**options), backbone, spec, NoConditionConfig(), objective).eval()


def make_batch(action: Tensor) -> Batch:
    """A batch of actions alone."""
    nothing = torch.zeros(0)
    return Batch(nothing, action, *[nothing] * 4, torch.zeros(action.shape[:2], dtype=torch.bool))


def fitted(head: Objective, hidden: Tensor, action: Tensor, steps: int, rate: float) -> Objective:
    optimizer = torch.optim.Adam(head.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        loss, _ = head.loss(hidden, make_batch(action))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return head.requires_grad_(False)


def test_gmm_loss_is_the_negative_log_likelihood() -> None:
    mixture = make_head(GMMConfig(num_components=4, min_std=0.3))
    hidden, action = torch.randn(2, 5, WIDTH), torch.rand(2, 5, ACTIONS) * 2 - 1
    loss, metrics = mixture.loss(hidden, make_batch(action))
    out = F.linear(hidden, mixture.head.weight, mixture.head.bias).detach().double().numpy()
    logits, means, scales = np.split(out, [4, 4 + 4 * ACTIONS], axis=-1)
    means, scales = (part.reshape(2, 5, 4, ACTIONS) for part in (np.tanh(means), scales))
    density = scipy.stats.norm.pdf(action.double().numpy()[:, :, None], means, np.log1p(np.exp(scales)) + 0.3)
    probability = (scipy.special.softmax(logits, axis=-1) * density.prod(-1)).sum(-1)
    assert loss.item() == pytest.approx(-np.log(probability).mean(), rel=1e-5)
    chosen = np.take_along_axis(means, logits.argmax(-1)[..., None, None], axis=2)[:, :, 0]
    np.testing.assert_allclose(mixture.action(hidden).detach(), chosen, atol=1e-6)
    error = np.square(chosen - action.double().numpy()).mean()
    assert metrics["squared_error"].item() == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize("config", [MSEConfig(), GMMConfig()], ids=lambda config: config.name)
def test_discrete_actions_have_the_cross_entropy(config: ObjectiveConfig) -> None:
    head = make_head(config, gymnasium.spaces.MultiDiscrete([2, 3]))
    taken = torch.randint(6, (2, 5), generator=torch.Generator().manual_seed(1))
    action = torch.cat([F.one_hot(taken % 2, 2), F.one_hot(taken % 3, 3)], dim=-1).float()
    hidden = torch.randn(2, 5, WIDTH)
    loss, metrics = head.loss(hidden, make_batch(action))
    weight, bias = (parameter.detach().double().numpy() for parameter in (head.head.weight, head.head.bias))
    scores = hidden.double().numpy() @ weight.T + bias
    entries = [scipy.special.log_softmax(entry, axis=-1) for entry in (scores[..., :2], scores[..., 2:])]
    expected = -(np.concatenate(entries, axis=-1) * action.numpy()).sum(-1).mean()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert set(metrics) == {"accuracy"}
    assert type(head).sample is not Objective.sample


@pytest.mark.parametrize("flow_steps", [1, 2, 10])
def test_velocities_towards_one_action_lead_there(monkeypatch: pytest.MonkeyPatch, flow_steps: int) -> None:
    """Of x_t = (1 - t) z + t a, the velocity is a - z = (a - x_t) / (1 - t), of which Euler steps are exact."""
    goal = torch.tensor([0.3, -0.9, 0.5])
    monkeypatch.setattr(FlowMatching, "velocity", lambda self, embedded, noisy, time: (goal - noisy) / (1 - time))
    flow, hidden = make_head(FlowMatchingConfig(flow_steps=flow_steps)), torch.randn(2, 5, WIDTH)
    loss, metrics = flow.loss(hidden, make_batch(goal.expand(2, 5, ACTIONS)))
    assert loss.item() < 1e-6
    assert metrics["squared_error"].item() < 1e-6
    for taken in (flow.action(hidden), flow.sample(hidden)):
        torch.testing.assert_close(taken, goal.expand(2, 5, ACTIONS))


def test_flow_loss_is_the_error_of_velocities() -> None:
    """Against the velocity 0, it is the mean square of a - z: that of the actions and 1."""
    flow = make_head(FlowMatchingConfig(width=64)).requires_grad_(False)
    for parameter in flow.head[-1].parameters():
        parameter.zero_()
    action = torch.rand(500, 64, ACTIONS) - 0.2
    loss, metrics = flow.loss(torch.randn(500, 64, WIDTH), make_batch(action))
    assert loss.item() == pytest.approx(action.square().mean().item() + 1, abs=0.02)
    assert metrics["squared_error"].item() == pytest.approx(action[:, -1].square().mean().item(), rel=1e-5)


@pytest.mark.parametrize(
    ("config", "steps", "rate", "tolerance", "share"),
    [
        (GMMConfig(num_components=4), 400, 0.02, 0.05, 1.0),
        (FlowMatchingConfig(width=64), 1000, 3e-3, 0.1, 0.9),  # noise between the two ways ends between them
    ],
    ids=["gmm", "flow_matching"],
)
def test_actions_go_both_ways_where_squared_error_goes_between(
    config: ObjectiveConfig, steps: int, rate: float, tolerance: float, share: float
) -> None:
    """Three quarters of the data go right by 0.6, the rest go left, at a state that does not say which comes."""
    right = torch.rand(32, 32, 1, generator=torch.Generator().manual_seed(0)) < 0.75
    action = torch.where(right, 0.6, -0.6) + 0.02 * torch.randn(32, 32, ACTIONS)
    hidden, here = torch.ones(32, 32, WIDTH), torch.ones(4000, WIDTH)
    head = fitted(make_head(config), hidden, action, steps, rate)
    assert (head.action(here) - 0.6).abs().max() < tolerance
    drawn = head.sample(here)
    assert ((drawn.abs() - 0.6).abs() < tolerance).float().mean() >= share
    assert (drawn.abs() < 0.3).float().mean() < 0.05
    assert (drawn > 0).float().mean().item() == pytest.approx(right.float().mean().item(), abs=0.05)
    mean = fitted(make_head(MSEConfig()), hidden, action, 400, 0.02).action(here)
    assert (mean - action.mean((0, 1))).abs().max() < 0.05


def test_flow_of_one_batch_leads_from_any_noise_to_its_actions() -> None:
    hidden, action = torch.randn(2, 8, WIDTH), 2 * torch.rand(2, 8, ACTIONS) - 1
    flow = fitted(make_head(FlowMatchingConfig()), hidden, action, 800, 3e-3)
    assert (flow.action(hidden) - action).abs().max() < 0.1
    assert (flow.sample(hidden) - action).square().mean().sqrt() < 0.1


def test_flow_stays_in_the_box_also_where_actions_are_drawn(store: EpisodeStore) -> None:
    box = gymnasium.spaces.Box(np.float32([-2, 0, -0.1]), np.float32([2, 1, 0.3]))
    agent = make_agent(FlowMatchingConfig(), box)
    agent.objective.head[-1].weight.data *= 20  # so that velocities lead out of it
    batch = StepStream(store, 30, 4, 0).sample()
    inputs = agent.condition.from_batch(batch), batch.observation, batch.previous_action, batch.timestep, batch.reset
    with torch.inference_mode():
        predicted, drawn = (agent.predict(*inputs, sample=sample)[0] for sample in (False, True))
    assert not torch.equal(predicted, drawn)
    low, high = torch.from_numpy(box.low), torch.from_numpy(box.high)
    for actions in (predicted, drawn):
        assert ((actions >= low) & (actions <= high)).all()
        assert (actions == high).any()


def test_chunk_loss_is_the_mean_within_episode_and_segment(store: EpisodeStore) -> None:
    head = make_agent(ActionChunkConfig(chunk_size=CHUNK)).objective
    batch = StepStream(store, 20, 8, 0).sample()
    hidden, errors, first = torch.randn(8, 20, 16), [], []
    weight, bias = (parameter.detach().double().numpy() for parameter in (head.head.weight, head.head.bias))
    plans = np.tanh(hidden.double().numpy() @ weight.T + bias).reshape(8, 20, CHUNK, 3)
    action, begins = batch.action.double().numpy(), batch.reset.numpy()
    assert begins[:, 1:].any()
    for row in range(8):
        for t in range(20):
            for ahead in range(CHUNK):
                if t + ahead == 20 or (ahead and begins[row, t + ahead]):
                    break
                errors.append(np.square(plans[row, t, ahead] - action[row, t + ahead]).mean())
                first.extend(errors[-1:] if ahead == 0 else [])
    loss, metrics = head.loss(hidden, batch)
    assert loss.item() == pytest.approx(np.mean(errors), rel=1e-5)
    assert metrics["squared_error"].item() == pytest.approx(np.mean(first), rel=1e-5)
    assert len(errors) < 8 * (20 * CHUNK - 3)  # the ends of segments, and those of episodes


@pytest.mark.parametrize("reads_previous", [False, True])
def test_agent_takes_a_whole_chunk_before_it_plans_again(reads_previous: bool) -> None:
    """Two rows, of which one begins a new episode in the middle of a chunk."""
    agent = make_agent(ActionChunkConfig(chunk_size=CHUNK), previous_action=reads_previous)
    outputs: list[Tensor] = []
    agent.objective.head.register_forward_hook(lambda head, inputs, output: outputs.append(output))
    state, plans, age = agent.initial_state(torch.ones(2)), [torch.empty(0)] * 2, [0, 0]
    with torch.inference_mode():
        for t in range(10):
            reset = torch.tensor([False, t == 4])
            state = state.reset(agent.initial_state(torch.ones(2)), reset)
            action, state, _ = agent.act(torch.randn(2, 11), torch.rand(2), state)
            assert torch.equal(state.previous_action, action)
            for row in range(2):
                age[row] = 0 if reset[row] else age[row]
                if age[row] % CHUNK == 0:
                    plans[row] = torch.tanh(outputs[-1][row]).reshape(CHUNK, 3)
                torch.testing.assert_close(action[row], plans[row][age[row] % CHUNK], rtol=0, atol=1e-5)
                age[row] += 1
    assert age == [10, 6]


def test_chunk_is_not_played_by_a_window(small_store: EpisodeStore, tmp_path: Path) -> None:
    words = ["hopper-medium", "--backbone.width", "16", "--training.steps", "2", "--evaluation.inference", "window"]
    config, _ = parse_run("test", [*words, "--objective", "action_chunk"])
    with pytest.raises(InputError, match=r"ActionChunk.*evaluation\.inference"):
        train(config, output=tmp_path / "run")


@pytest.mark.parametrize("config", [ActionChunkConfig(), FlowMatchingConfig()], ids=lambda config: config.name)
def test_chunks_and_flows_need_a_box(config: ObjectiveConfig) -> None:
    with pytest.raises(InputError, match=config.name):
        make_head(config, gymnasium.spaces.Discrete(2))

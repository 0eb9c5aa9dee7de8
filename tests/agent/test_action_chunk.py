"""Chunks of actions: the loss against a loop, and open-loop acting against an agent that looks at every step."""

from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from run_config import parse_run

from decision_rnn import AgentConfig, DecisionAgent, InputError
from decision_rnn.agent import ActionChunkConfig, MSEConfig, ObjectiveConfig, agent_spec
from decision_rnn.backbones import registered
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.training.train import train

CHUNK = 3


def make(objective: ObjectiveConfig, **options: object) -> DecisionAgent:
    torch.manual_seed(0)
    spec = agent_spec(torch.zeros(11), torch.ones(11), 3, return_scale=100.0)
    return DecisionAgent(AgentConfig(**options), registered("mingru").config(width=16, layers=1), spec, None, objective)


def test_loss_is_the_mean_over_the_chunks_actions_within_episode_and_slice(store: EpisodeStore) -> None:
    agent = make(ActionChunkConfig(chunk_size=CHUNK))
    batch = StepStream(store, 20, 8, 0).sample()
    hidden = torch.randn(8, 20, 16)
    head, errors, first = agent.objective.head, [], []
    weight, bias = (parameter.detach().double().numpy() for parameter in (head.weight, head.bias))
    plans = np.tanh(hidden.detach().double().numpy() @ weight.T + bias).reshape(8, 20, CHUNK, 3)
    action, begins = batch.action.double().numpy(), batch.reset.numpy()
    assert begins[:, 1:].any()
    for row in range(8):
        for t in range(20):
            for ahead in range(CHUNK):
                if t + ahead == 20 or (ahead and begins[row, t + ahead]):
                    break
                errors.append(np.square(plans[row, t, ahead] - action[row, t + ahead]).mean())
                first.extend(errors[-1:] if ahead == 0 else [])
    loss, metrics = agent.objective.loss(hidden, batch)
    assert loss.item() == pytest.approx(np.mean(errors), rel=1e-5)
    assert metrics["squared_error"].item() == pytest.approx(np.mean(first), rel=1e-5)
    assert len(errors) < 8 * (20 * CHUNK - 3)  # the ends of slices, and those of episodes


@pytest.mark.parametrize("sees_previous", [False, True])
def test_agent_takes_all_actions_of_a_chunk_before_it_plans_again(sees_previous: bool) -> None:
    """Two rows, of which one begins a new episode in the middle of a chunk."""
    agent = make(ActionChunkConfig(chunk_size=CHUNK), previous_action=sees_previous).eval()
    looking = make(MSEConfig(), previous_action=sees_previous).eval()  # its hidden states are the same
    shared = {key: value for key, value in agent.state_dict().items() if not key.startswith("objective")}
    looking.load_state_dict(shared, strict=False)
    outputs: list[torch.Tensor] = []
    looking.objective.head.register_forward_pre_hook(lambda _, inputs: outputs.append(inputs[0]))
    observations, rewards = torch.randn(10, 2, 11), torch.rand(10, 2)
    state, other = agent.initial_state(torch.ones(2)), looking.initial_state(torch.ones(2))
    plans, age = [[], []], [0, 0]
    with torch.inference_mode():
        for t in range(10):
            reset = torch.tensor([False, t == 4])
            state = state.reset(agent.initial_state(torch.ones(2)), reset)
            other = other.reset(looking.initial_state(torch.ones(2)), reset)
            action, state, _ = agent.act(observations[t], rewards[t], state)
            _, other, _ = looking.act(observations[t], rewards[t], other)
            other = other._replace(previous_action=action)
            for row in range(2):
                age[row] = 0 if reset[row] else age[row]
                if age[row] % CHUNK == 0:
                    plans[row] = torch.tanh(agent.objective.head.weight @ outputs[-1][row] + agent.objective.head.bias)
                expected = plans[row].reshape(CHUNK, 3)[age[row] % CHUNK]
                torch.testing.assert_close(action[row], expected, rtol=0, atol=1e-5)
                age[row] += 1
    assert age == [10, 6]


def test_chunk_of_one_action_is_the_supervised_objective(store: EpisodeStore) -> None:
    one, mse = make(ActionChunkConfig(chunk_size=1)), make(MSEConfig())
    batch = StepStream(store, 8, 4, 0).sample()
    torch.testing.assert_close(one(batch).loss, mse(batch).loss)


def test_chunk_is_not_played_by_a_window(small_store: EpisodeStore, tmp_path: Path) -> None:
    words = ["hopper-medium", "--backbone.width", "16", "--training.steps", "2", "--evaluation.inference", "window"]
    config, _ = parse_run("test", [*words, "--objective", "action_chunk"])
    with pytest.raises(InputError, match=r"ActionChunk.*evaluation\.inference"):
        train(config, output=tmp_path / "run")


def test_chunk_needs_a_box_and_an_action() -> None:
    with pytest.raises(ValueError, match="chunk_size"):
        ActionChunkConfig(chunk_size=0)
    spec = replace(agent_spec(torch.zeros(2), torch.ones(2), gymnasium.spaces.Discrete(2)), return_scale=1.0)
    with pytest.raises(InputError, match="action_chunk"):
        DecisionAgent(AgentConfig(), registered("mlp").config(width=8), spec, None, ActionChunkConfig())

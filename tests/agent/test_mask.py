"""`observation.mask velocity` hides the velocities, in the data and in the environment."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from agent_specs import agent_spec
from made_policy import made_agent
from run_config import parse_run
from torch import Tensor

from decision_rnn.agent import AgentConfig, DecisionAgent
from decision_rnn.backbones import registered
from decision_rnn.config import EvaluationConfig
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch, StepStream
from decision_rnn.environments.tasks import observation_index
from decision_rnn.evaluation.actor import EnvironmentActor
from decision_rnn.evaluation.evaluate import score
from decision_rnn.runs.checkpoint import load_agent
from decision_rnn.training.train import train
from decision_rnn.utils.errors import InputError

SMALL = ["--backbone.width", "16", "--training.steps", "2", "--observation.mask", "velocity"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # gymnasium recommends v5
@pytest.mark.parametrize("version", ["v4", "v5"])
@pytest.mark.parametrize("body", ["Hopper", "HalfCheetah", "Walker2d", "Ant"])
def test_velocity_mask_selects_the_simulators_positions(body: str, version: str) -> None:
    environment = gymnasium.make(f"{body}-{version}")
    environment.action_space.seed(0)
    observation, _ = environment.reset(seed=0)
    for _ in range(5):
        observation = environment.step(environment.action_space.sample())[0]
    simulated = environment.unwrapped.data
    index = observation_index("velocity", f"{body}-{version}")
    assert index is not None
    seen = len(index)
    np.testing.assert_array_equal(observation[index], simulated.qpos[len(simulated.qpos) - seen :])
    velocities = observation[seen : seen + len(simulated.qvel)]  # Hopper's and Walker2d's are clipped
    np.testing.assert_array_equal(np.clip(velocities, -10, 10), np.clip(simulated.qvel, -10, 10))
    assert observation_index("none", f"{body}-{version}") is None


def test_unknown_mask_or_environment_of_one_raises() -> None:
    with pytest.raises(InputError, match="Pendulum-v1"):
        observation_index("velocity", "Pendulum-v1")
    with pytest.raises(InputError, match="mask"):
        parse_run("test", ["hopper-medium", "--observation.mask", "speed"])


def make_agent(seen: int, index: Tensor | None) -> DecisionAgent:
    torch.manual_seed(0)
    statistics = torch.linspace(-1, 1, 11)[:seen], torch.linspace(0.5, 2, 11)[:seen]
    backbone = registered("mingru").config(width=16, layers=1)
    size = seen if index is None else 11
    spec = agent_spec(*statistics, 3, size, return_scale=100.0, observation_index=index)
    return DecisionAgent(AgentConfig(), backbone, spec)


def predicted(agent: DecisionAgent, batch: Batch) -> Tensor:
    asked = agent.condition.from_batch(batch)
    return agent.predict(asked, batch.observation, batch.previous_action, batch.timestep, batch.reset)[0]


def test_masked_agent_equals_a_smaller_one_on_visible_entries(store: EpisodeStore) -> None:
    """In the loss, `predict` and `act`."""
    index = torch.tensor([0, 1, 2, 3, 4])
    masked, smaller = make_agent(5, index), make_agent(5, None)
    whole = StepStream(store, 6, 4, 0).sample()
    visible = whole._replace(observation=whole.observation[..., index])
    assert torch.equal(masked(whole)[0], smaller(visible)[0])
    assert torch.equal(predicted(masked, whole), predicted(smaller, visible))
    states = [agent.initial_state(torch.ones(4)) for agent in (masked, smaller)]
    for t in range(3):
        reward = torch.full((4,), float(t))
        one, states[0], _ = masked.act(whole.observation[:, t], reward, states[0])
        other, states[1], _ = smaller.act(visible.observation[:, t], reward, states[1])
        assert torch.equal(one, other)


def test_observation_index_may_select_any_entries() -> None:
    index = torch.tensor([1, 9])
    agent = make_agent(2, index)
    assert agent.observation_dim == make_agent(11, None).observation_dim == 11
    observation = torch.randn(3, 11, requires_grad=True)
    action, _, _ = agent.act(observation, torch.zeros(3), agent.initial_state(torch.ones(3)))
    action.sum().backward()
    read = observation.grad.abs().sum(0) > 0
    assert read.nonzero().flatten().tolist() == [1, 9]


def test_masked_agent_is_trained_loaded_and_evaluated(small_store: EpisodeStore, tmp_path: Path) -> None:
    config, _ = parse_run("test", ["hopper-medium", "--training.context", "4", *SMALL])
    trained = train(config, output=tmp_path / "run").agent
    np.testing.assert_allclose(trained.agent.encoder.mean, small_store.observation_mean[:5], rtol=1e-6)
    loaded = load_agent(tmp_path / "run")
    assert loaded.agent.encoder.index.tolist() == [0, 1, 2, 3, 4]
    for inference in ("recurrent", "window"):
        settings = EvaluationConfig(episodes=1, target_returns=(100.0,), inference=inference, window=3)
        result, again = score(trained, settings), score(loaded, settings)
        assert result.targets == again.targets
        assert "sees no velocity" in str(result)


@pytest.mark.parametrize("size", [5, 10, 12, 40])
def test_masked_agent_refuses_observations_of_another_size(size: int) -> None:
    trained = made_agent(registered("mingru").config(width=8, layers=1), mask="velocity")
    with pytest.raises(InputError, match=rf"observation.*\({size},\).*\(11,\)"):
        EnvironmentActor(trained, 100)(np.zeros(size))

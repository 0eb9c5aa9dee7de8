"""`agent.delta_actions`: agents learn changes of actions and return actions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agent_specs import agent_spec
from gymnasium.spaces import Box, Discrete

import decision_rnn
from decision_rnn import Episode, InputError, write_store
from decision_rnn.agent import AgentConfig, DecisionAgent
from decision_rnn.backbones import registered
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.deploy.runtime import Policy
from decision_rnn.evaluation.held_out import held_out_score

DELTA = AgentConfig(delta_actions=True)
SMALL = {"name": "mlp", "width": 16, "layers": 1}


def drive(generator: np.random.Generator) -> Episode:
    """A log in which each action is that of the step before and a hundredth of the first observation, from about 5 on;
    the second action is a constant."""
    observations = generator.normal(size=(81, 3))
    throttle = 5 + 0.2 * generator.normal() + np.cumsum(observations[:-1, 0]) / 100
    actions = np.stack([throttle, np.full(80, -2.0)], axis=1)
    return Episode(observations, actions, np.zeros(80), False, True)


@pytest.fixture
def stores(folders: Path) -> tuple[EpisodeStore, EpisodeStore]:
    generator = np.random.default_rng(0)
    return tuple(
        write_store(f"local/{name}", [drive(generator) for _ in range(n)]) for name, n in (("log", 20), ("held", 4))
    )


def trained(folder: Path, **agent: Any) -> decision_rnn.Run:
    options = {"condition": "none", "agent": agent, "progress": False, "training": {"learning_rate": 1e-2}}
    return decision_rnn.train("local/log", SMALL, steps=100, output=folder, **options)


def test_targets_are_first_actions_and_then_changes_in_the_range_of_the_data(
    stores: tuple[EpisodeStore, EpisodeStore],
) -> None:
    episodes = list(stores[0])
    changes = np.concatenate([np.diff(episode.actions, axis=0) for episode in episodes])
    low, high = np.minimum(changes.min(0), 0), np.maximum(changes.max(0), 0)
    np.testing.assert_allclose(stores[0].action_changes(), [low, high], atol=1e-6)

    spec = agent_spec(torch.zeros(3), torch.ones(3), stores[0].action_space)
    agent = DecisionAgent(DELTA, registered("mlp").config(width=8), spec)
    agent.action_changes.copy_(torch.from_numpy(stores[0].action_changes()))
    batch = StepStream(stores[0], 20, 16, 0, "cpu").sample()
    targets = agent.with_targets(batch).action
    first, box = batch.timestep.numpy() == 0, stores[0].action_space
    start = np.where(first, box.low[0], batch.previous_action.double().numpy()[..., 0] + low[0])
    span = np.where(first, (box.high - box.low)[0], (high - low)[0])
    expected = 2 * (batch.action.double().numpy()[..., 0] - start) / span - 1
    np.testing.assert_allclose(targets[..., 0], expected, atol=1e-3)
    assert targets[..., 1].abs().max() == 0
    returned = agent.to_environment_actions(targets, batch.previous_action, batch.timestep)
    torch.testing.assert_close(returned, batch.action, atol=1e-5, rtol=0)


def test_changes_are_learnt_and_exported(stores: tuple[EpisodeStore, EpisodeStore], tmp_path: Path) -> None:
    """The observation determines the change alone, so that an agent without its previous action needs it."""
    run = trained(tmp_path / "delta", delta_actions=True)
    score = held_out_score(run.agent, stores[1], stores[0])
    plain = held_out_score(trained(tmp_path / "plain").agent, stores[1])
    assert plain.score() < 0.5
    assert score.score() > score.score("previous action") > 0.9

    export_onnx(run.agent, tmp_path / "policy.onnx")
    policy, actor, throttle = Policy.load(tmp_path / "policy.onnx"), run.actor(), []
    policy.reset()
    observations = np.random.default_rng(1).normal(size=(50, 3))
    for observation in observations:
        throttle.append(policy.act(observation, 0.0))
        np.testing.assert_allclose(actor(observation, 0.0), throttle[-1], atol=1e-4)
    taken, box = np.array(throttle), run.agent.provenance.action_space
    assert np.corrcoef(taken[:, 0], np.cumsum(observations[:, 0]))[0, 1] > 0.9  # changes add up
    assert ((taken >= box.low) & (taken <= box.high)).all()
    low, high = stores[0].action_changes()
    assert (np.diff(taken, axis=0) <= high + 1e-5).all()
    assert (np.diff(taken, axis=0) >= low - 1e-5).all()


def test_box_still_bounds_actions() -> None:
    spec = agent_spec(
        torch.zeros(3), torch.ones(3), Box(-1, 1, (2,)), action_changes=torch.tensor([[-9.0] * 2, [9.0] * 2])
    )
    agent = DecisionAgent(DELTA, registered("mlp").config(width=8), spec)
    assert agent.to_environment_actions(torch.ones(1, 2), torch.ones(1, 2), torch.ones(1)).tolist() == [[1, 1]]


def test_discrete_actions_have_no_changes() -> None:
    with pytest.raises(InputError, match=r"agent\.delta_actions"):
        DecisionAgent(DELTA, registered("mlp").config(), agent_spec(torch.zeros(3), torch.ones(3), Discrete(2)))

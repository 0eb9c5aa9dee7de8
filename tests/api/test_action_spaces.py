"""Environments with other action boxes than [-1, 1]: recorded, trained, acted in, and exported."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

import decision_rnn
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.deploy.runtime import Policy

SMALL = {
    "backbone": {"name": "mingru", "width": 16, "layers": 1},
    "training": {"context": 8, "batch_size": 8, "learning_rate": 0.01, "warmup_steps": 1, "schedule": "constant"},
    "progress": False,
}


class Lever(gymnasium.Env):
    """Rewards the action 0.75 in a Box(0, 1); the observation is noise."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Box(0.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.normal(size=2).astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action, np.float32))
        return self.np_random.normal(size=2).astype(np.float32), -abs(float(action[0]) - 0.75), False, False, {}


class OpenLever(Lever):
    """The same without bounds."""

    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))


class LeverAndSwitch(Lever):
    """The same beside a switch that must stay at 0.3."""

    action_space = gymnasium.spaces.Box(np.float32([0, 0.3]), np.float32([1, 0.3]))


@pytest.fixture(autouse=True)
def levers(monkeypatch, tmp_path):
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    gymnasium.register("test/Lever-v0", Lever, max_episode_steps=20)
    gymnasium.register("test/OpenLever-v0", OpenLever, max_episode_steps=20)
    gymnasium.register("test/LeverAndSwitch-v0", LeverAndSwitch, max_episode_steps=20)


@pytest.mark.parametrize(
    ("environment_id", "low", "high"),
    [
        ("Pendulum-v1", -2, 2),
        pytest.param("InvertedPendulum-v5", -3, 3, marks=pytest.mark.slow),  # as Pendulum
        ("Humanoid-v5", -0.4, 0.4),
        ("test/Lever-v0", 0, 1),
    ],
)
def test_agent_acts_within_the_environments_box_in_python_and_exported(environment_id, low, high, tmp_path: Path):
    """Trained on actions at the box's upper end: they come out there, and nowhere outside."""
    space = gymnasium.make(environment_id).action_space
    generator = np.random.default_rng(0)

    def push(observation):
        return space.high - 0.1 * (space.high - space.low) * generator.random(space.shape)

    dataset = decision_rnn.record(push, environment_id, "local/pushed", steps=200, progress=False)
    run = decision_rnn.train(dataset, steps=150, output=tmp_path / "run", evaluation={"episodes": 0}, **SMALL)
    assert run.agent.agent.action_space.low.min() == np.float32(low)
    assert run.agent.provenance.action_space == run.agent.agent.action_space
    loaded = decision_rnn.load_agent(tmp_path / "run")
    observations = dataset.store.observations[:50]
    actor = decision_rnn.EnvironmentActor(loaded, 0.0)
    actions = np.stack([actor(observation) for observation in observations])
    assert (actions >= np.float32(low)).all()
    assert (actions <= np.float32(high)).all()
    assert actions[10:].mean() == pytest.approx(high - 0.05 * (high - low), abs=0.05 * (high - low))
    wild = decision_rnn.EnvironmentActor(loaded, 1e6)
    assert space.contains(wild(1e3 * observations[0]).astype(np.float32))

    export_onnx(loaded, tmp_path / "policy.onnx")
    policy = Policy.load(tmp_path / "policy.onnx")
    policy.reset(0.0)
    exported = np.stack([policy(observation) for observation in observations])
    np.testing.assert_allclose(exported, actions, atol=1e-4 * (high - low))
    assert policy.metadata["action"]["low"] == [pytest.approx(low)] * space.shape[0]


def test_unbounded_actions_are_scaled_to_the_range_of_the_data_and_that_is_said(tmp_path: Path, capsys):
    generator = np.random.default_rng(0)
    dataset = decision_rnn.record(
        lambda observation: 100 + 5 * generator.random(1), "test/OpenLever-v0", "local/open", steps=200, progress=False
    )
    options = SMALL | {"progress": True}
    run = decision_rnn.train(dataset, steps=50, output=tmp_path / "run", evaluation={"episodes": 0}, **options)
    said = capsys.readouterr()
    assert "100 to 105" in said.out + said.err
    actor = run.actor(0.0)
    assert 100 <= actor(np.zeros(2)).item() <= 105


@pytest.mark.parametrize("objective", ["mse", "gmm", "flow_matching"])
def test_action_whose_bounds_are_equal_is_held_there_in_python_and_exported(objective: str, tmp_path: Path):
    space = LeverAndSwitch.action_space
    space.seed(0)
    dataset = decision_rnn.record(
        lambda observation: space.sample(), "test/LeverAndSwitch-v0", "local/switch", steps=200, progress=False
    )
    options = SMALL | {"objective": {"name": objective}, "agent": {"previous_action": True}}
    run = decision_rnn.train(dataset, steps=5, output=tmp_path / "run", evaluation={"episodes": 1}, **options)
    assert np.isfinite(run.metrics["loss"]).all()
    actor = run.actor(0.0)
    actions = np.stack([actor(observation) for observation in dataset.store.observations[:5]])
    assert (actions[:, 1] == np.float32(0.3)).all()
    assert all(space.contains(action.astype(np.float32)) for action in actions)
    if objective != "flow_matching":
        export_onnx(run.agent, tmp_path / "policy.onnx")
        policy = Policy.load(tmp_path / "policy.onnx")
        policy.reset(0.0)
        exported = np.stack([policy(observation) for observation in dataset.store.observations[:5]])
        np.testing.assert_allclose(exported, actions, atol=1e-4)


def test_actions_outside_the_box_are_clipped_to_it_in_training(tmp_path: Path):
    """As the environment does when it is given them."""
    episodes = [
        decision_rnn.Episode(np.zeros((21, 2)), np.full((20, 1), value), np.zeros(20), False, True)
        for value in (3.0, 1.0)
    ]
    agents = []
    for number, episode in enumerate(episodes):
        dataset = decision_rnn.write_store(f"local/clipped-{number}", [episode], "test/Lever-v0")
        run = decision_rnn.train(dataset, steps=5, output=tmp_path / str(number), evaluation={"episodes": 0}, **SMALL)
        agents.append(run.actor(0.0))
    first, second = (agent(np.ones(2)) for agent in agents)
    np.testing.assert_array_equal(first, second)

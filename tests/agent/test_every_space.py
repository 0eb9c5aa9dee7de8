"""Agents of every kind of space, recorded, trained, acting, exported: boxes, discrete actions, Dict observations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

import decision_rnn
from decision_rnn.cli.main import main
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.deploy.runtime import Policy
from decision_rnn.utils.errors import InputError

SMALL: dict[str, Any] = {
    "backbone": {"name": "mingru", "width": 32, "layers": 1},
    "training": {"context": 8, "batch_size": 32, "learning_rate": 0.01, "warmup_steps": 1, "schedule": "constant"},
    "evaluation": {"episodes": 0},
    "progress": False,
}
CLONING = SMALL | {"condition": "none"}
Best = Callable[[Any], Any]


class Answer(gymnasium.Env):
    """Each observation is drawn from its space, and the reward is minus the distance from the best action for it."""

    def __init__(self, observation_space: gymnasium.Space, action_space: gymnasium.Space, best: Best):
        self.observation_space, self.action_space, self.best = observation_space, action_space, best

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.observation = self.observation_space.sample()
        return self.observation, {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        assert isinstance(action, int | np.integer) or np.ndim(action)  # environments look discrete actions up in dicts
        reward = -float(np.abs(np.asarray(action, float) - self.best(self.observation)).sum())
        self.observation = self.observation_space.sample()
        return self.observation, reward, False, False, {}


def unit(*shape: int) -> Box:
    return Box(-1.0, 1.0, shape)


CASES: dict[str, tuple[gymnasium.Space, gymnasium.Space, Best]] = {
    "minigrid": (
        Dict(direction=Discrete(4), image=Box(0, 10, (3, 3, 2), np.uint8), mission=Text(8)),
        Discrete(7),
        lambda seen: int(seen["direction"]) + 1,
    ),
    "pointmaze": (
        Dict(achieved_goal=unit(2), desired_goal=unit(2), observation=unit(4)),
        unit(2),
        lambda seen: ((seen["desired_goal"] - seen["achieved_goal"]) / 2).astype(np.float32),
    ),
    "unsorted": (  # Gymnasium sorts the keys of a dictionary, not those of keywords
        Dict(target=unit(2), place=unit(2), mode=Discrete(3)),
        unit(2),
        lambda seen: ((seen["target"] - seen["place"]) / 2).astype(np.float32),
    ),
    "multidiscrete": (
        Tuple([Discrete(3, start=5), MultiBinary(2)]),
        MultiDiscrete([3, 2]),
        lambda seen: np.array([seen[0] - 5, seen[1][1]]),
    ),
    "matrix": (
        MultiDiscrete([3, 3]),
        unit(2, 2),
        lambda seen: ((seen[:, None] + seen - 2) / 4).astype(np.float32),
    ),
    "coin": (Discrete(2), Discrete(2), lambda seen: 0),
    "lever": (unit(2), Box(0.0, 1.0, (1,)), lambda seen: np.float32([0.75])),
    "lever-and-switch": (unit(2), Box(np.float32([0, 0.3]), np.float32([1, 0.3])), lambda seen: np.float32([1, 0.3])),
}
FAST = ("minigrid", "unsorted")
STRUCTURED = ("minigrid", "pointmaze", "unsorted", "multidiscrete", "matrix")


@pytest.fixture(autouse=True)
def tasks(monkeypatch: pytest.MonkeyPatch, folders: Path) -> None:
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    for name, (observations, actions, best) in CASES.items():
        task = {"observation_space": observations, "action_space": actions, "best": best}
        gymnasium.register(f"test/{name}-v0", Answer, max_episode_steps=10, kwargs=task)


def record(case: str, policy: Any, **options: Any) -> decision_rnn.Dataset:
    """The episodes of a policy in one of the cases, or in an environment of Gymnasium."""
    environment_id = f"test/{case}-v0" if case in CASES else case
    return decision_rnn.record(policy, environment_id, "local/recorded", progress=False, **options)


def exported(trained: decision_rnn.TrainedAgent, folder: Path) -> Policy:
    export_onnx(trained, folder / "policy.onnx")
    return Policy.load(folder / "policy.onnx")


def spread(space: gymnasium.Space) -> float:
    """The largest distance between two actions."""
    return float(np.sum(space.high - space.low)) if isinstance(space, Box) else float(np.size(space.sample()))


@pytest.mark.parametrize(
    "case", [case if case in FAST else pytest.param(case, marks=pytest.mark.slow) for case in STRUCTURED]
)
def test_agent_of_any_space_learns_and_is_exported(case: str, tmp_path: Path) -> None:
    observations, actions, best = CASES[case]
    run = decision_rnn.train(record(case, best, episodes=60), steps=100, output=tmp_path / "run", **CLONING)
    assert run.agent.agent.observation_space == observations or case == "minigrid"  # whose text is left out
    result = decision_rnn.evaluate(run, episodes=5, processes=1, progress=False).targets[0]
    assert result.return_mean / 10 > -0.1 * spread(actions)

    loaded, environment = decision_rnn.load_agent(tmp_path / "run"), gymnasium.make(f"test/{case}-v0")
    actor, policy = decision_rnn.EnvironmentActor(loaded, env=environment), exported(loaded, tmp_path)
    observation, done = environment.reset(seed=9)[0], False
    while not done:
        action = policy(observation)
        np.testing.assert_allclose(action, actor(observation), atol=1e-4)
        observation, _, _, done, _ = environment.step(action)

    played = decision_rnn.record(run, f"test/{case}-v0", "local/played", episodes=6, progress=False).store
    assert played.num_episodes == 6
    assert played.episode_returns.mean() / 10 > -0.1 * spread(actions)


@pytest.mark.parametrize("case", STRUCTURED)
def test_values_of_any_space_are_the_same_in_minaris_files(case: str) -> None:
    """Those that Minari's own library reads are the environment's, and those that are read back are the same rows."""
    best = CASES[case][2]
    store = record(case, best, episodes=2, seed=3).store
    assert main(["data", "export", "local/recorded", "--format", "minari", "--output", f"{case}/answers-v0"]) == 0
    np.testing.assert_array_equal(decision_rnn.open_dataset(f"minari/{case}/answers-v0").store.table, store.table)

    environment = gymnasium.make(f"test/{case}-v0")
    (episode, _) = minari.load_dataset(f"{case}/answers-v0").iterate_episodes()
    observation, _ = environment.reset(seed=3)
    for step in range(10):
        action = best(observation)
        np.testing.assert_array_equal(episode.actions[step], action)
        for key in ("direction", "image", "achieved_goal", "desired_goal", "observation"):
            if isinstance(observation, dict) and key in observation:
                np.testing.assert_array_equal(episode.observations[key][step], observation[key])
        observation, *_ = environment.step(action)


def test_number_that_is_not_finite_in_a_dict_is_named_by_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record("unsorted", CASES["unsorted"][2], episodes=2)
    run = decision_rnn.train("local/recorded", steps=1, output=tmp_path / "run", **CLONING)
    broken = {"target": [0, np.nan], "place": [0, 0], "mode": 1}
    with pytest.raises(InputError, match=r"entry 1 \(target, 1\) .*nan"):
        run.actor()(broken)
    monkeypatch.setattr(Answer, "step", lambda self, action: (broken, 0.0, False, False, {}))
    with pytest.raises(InputError, match="observations"):
        decision_rnn.record(lambda _: np.zeros(2), "test/unsorted-v0", "local/broken", episodes=1, progress=False)


def test_sampled_actions_have_the_frequencies_of_the_data(tmp_path: Path) -> None:
    """The action 0 has the probability 3/4 in the data, whatever is observed, and earns 0; the other, 1, earns -1."""
    generator = np.random.default_rng(0)
    dataset = record("coin", lambda observation: int(generator.random() < 0.25), episodes=150)
    run = decision_rnn.train(dataset, steps=200, output=tmp_path / "run", **CLONING)
    settings: dict[str, Any] = {"episodes": 150, "progress": False}
    assert decision_rnn.evaluate(run, processes=1, **settings).targets[0].return_mean == 0
    sampled = [decision_rnn.evaluate(run, actions="sampled", processes=count, **settings) for count in (1, 2)]
    assert sampled[0].targets[0].return_mean == pytest.approx(-10 / 4, abs=0.4)
    assert sampled[0].targets == sampled[1].targets


def test_sampled_actions_in_a_box_are_refused_before_training(tmp_path: Path) -> None:
    options = CLONING | {"evaluation": {"actions": "sampled"}}
    with pytest.raises(InputError, match="sampled"):
        decision_rnn.train(record("lever", "random", episodes=2), steps=1, output=tmp_path / "run", **options)
    assert not (tmp_path / "run" / "config.yaml").exists()


@pytest.mark.parametrize(
    ("environment_id", "low", "high"),
    [
        ("lever", 0, 1),
        pytest.param("Pendulum-v1", -2, 2, marks=pytest.mark.slow),
        pytest.param("Humanoid-v5", -0.4, 0.4, marks=pytest.mark.slow),
    ],
)
def test_agent_acts_within_the_box(environment_id: str, low: float, high: float, tmp_path: Path) -> None:
    """Trained on actions at the box's upper end: they come out there, and nowhere outside, and so from the file."""
    space, generator = Box(low, high, (17 if "Humanoid" in environment_id else 1,)), np.random.default_rng(0)

    def push(observation: np.ndarray) -> np.ndarray:
        return (high - 0.1 * (high - low) * generator.random(space.shape)).astype(np.float32)

    dataset = record(environment_id, push, steps=200)
    run = decision_rnn.train(dataset, steps=100, output=tmp_path / "run", **SMALL)
    assert run.agent.provenance.action_space == run.agent.agent.action_space == space
    loaded = decision_rnn.load_agent(tmp_path / "run")
    actor, observations = decision_rnn.EnvironmentActor(loaded, 0.0), dataset.store.observations[:50]
    actions = np.stack([actor(observation, 0.0) for observation in observations])
    assert ((actions >= np.float32(low)) & (actions <= np.float32(high))).all()
    assert actions[10:].mean() == pytest.approx(high - 0.05 * (high - low), abs=0.05 * (high - low))
    assert space.contains(decision_rnn.EnvironmentActor(loaded, 1e6)(1e3 * observations[0]).astype(np.float32))

    policy = exported(loaded, tmp_path)
    policy.reset(0.0)
    np.testing.assert_allclose(
        [policy(observation, 0.0) for observation in observations], actions, atol=1e-4 * (high - low)
    )
    assert policy.metadata["action"]["low"] == [pytest.approx(low)] * space.shape[0]


@pytest.mark.parametrize("objective", ["mse", "gmm", "flow_matching"])
def test_action_whose_bounds_are_equal_is_held_there(objective: str, tmp_path: Path) -> None:
    space = CASES["lever-and-switch"][1]
    dataset = record("lever-and-switch", "random", steps=200)
    options = SMALL | {"objective": objective, "agent": {"previous_action": True}}
    run = decision_rnn.train(dataset, steps=2, output=tmp_path / "run", **options)
    assert np.isfinite(run.metrics["loss"]).all()
    actor, observations = run.actor(0.0), dataset.store.observations[:5]
    actions = np.stack([actor(observation, 0.0) for observation in observations])
    assert (actions[:, 1] == np.float32(0.3)).all()
    assert all(space.contains(action.astype(np.float32)) for action in actions)
    if objective == "mse":
        policy = exported(run.agent, tmp_path)
        policy.reset(0.0)
        np.testing.assert_allclose([policy(observation, 0.0) for observation in observations], actions, atol=1e-4)


def test_actions_outside_the_box_are_clipped_to_it_in_training(tmp_path: Path) -> None:
    """As the environment does when it is given them."""
    actions = []
    for number, value in enumerate((3.0, 1.0)):
        episode = decision_rnn.Episode(np.zeros((21, 2)), np.full((20, 1), value), np.zeros(20), False, True)
        dataset = decision_rnn.write_store(f"local/clipped-{number}", [episode], "test/lever-v0")
        run = decision_rnn.train(dataset, steps=2, output=tmp_path / str(number), **SMALL)
        actions.append(run.actor(0.0)(np.ones(2)))
    np.testing.assert_array_equal(*actions)

"""Discrete actions, Dict, Tuple and integer observations from recording to exported policies and Minari's files."""

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
    "condition": "none",
    "progress": False,
}
Best = Callable[[Any], Any]


class Answer(gymnasium.Env):
    """Each observation is drawn from its space, and the reward is minus the distance from the best action for it."""

    def __init__(self, observation_space: gymnasium.Space, action_space: gymnasium.Space, best: Best):
        self.observation_space, self.action_space, self.best = observation_space, action_space, best

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.seen = self.observation_space.sample()
        return self.seen, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        assert isinstance(action, int | np.integer) or np.ndim(action)  # environments look discrete actions up in dicts
        reward = -float(np.abs(np.asarray(action, float) - self.best(self.seen)).sum())
        self.seen = self.observation_space.sample()
        return self.seen, reward, False, False, {}


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
}
FAST = ("minigrid", "unsorted")


@pytest.fixture(autouse=True)
def tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DECISION_RNN_DATA", "DECISION_RNN_CACHE", "MINARI_DATASETS_PATH"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    for name, (observations, actions, best) in CASES.items():
        task = {"observation_space": observations, "action_space": actions, "best": best}
        gymnasium.register(f"test/{name}-v0", Answer, max_episode_steps=10, kwargs=task)


def spread(space: gymnasium.Space) -> float:
    """The largest distance between two actions."""
    return float(np.sum(space.high - space.low)) if isinstance(space, Box) else float(np.size(space.sample()))


def histories(case: str, actor: Any, policy: Any) -> list[tuple[Any, Any]]:
    """What two policies do at the same observations of one episode; both must act in the space."""
    environment, both = gymnasium.make(f"test/{case}-v0"), []
    observation, done = environment.reset(seed=9)[0], False
    while not done:
        both.append((actor(observation), policy(observation)))
        observation, _, _, done, _ = environment.step(both[-1][1])
    return both


@pytest.mark.parametrize(
    "case", [case if case in FAST else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_agent_of_any_space_is_recorded_trained_evaluated_and_exported(case: str, tmp_path: Path) -> None:
    observations, actions, best = CASES[case]
    dataset = decision_rnn.record(best, f"test/{case}-v0", "local/asked", episodes=60, progress=False)
    run = decision_rnn.train(dataset, steps=100, output=tmp_path / "run", evaluation={"episodes": 0}, **SMALL)
    assert run.agent.agent.observation_space == observations or case == "minigrid"  # whose text is left out
    result = decision_rnn.evaluate(run, episodes=5, processes=1, progress=False).targets[0]
    assert result.return_mean / 10 > -0.1 * spread(actions)

    loaded = decision_rnn.load_agent(tmp_path / "run")
    export_onnx(loaded, tmp_path / "policy.onnx")
    actor = decision_rnn.EnvironmentActor(loaded, env=gymnasium.make(f"test/{case}-v0"))
    for chosen, exported in histories(case, actor, Policy.load(tmp_path / "policy.onnx")):
        np.testing.assert_allclose(exported, chosen, atol=1e-4)

    played = decision_rnn.record(run, f"test/{case}-v0", "local/played", episodes=6, progress=False).store
    assert played.num_episodes == 6
    assert played.episode_returns.mean() / 10 > -0.1 * spread(actions)


@pytest.mark.parametrize("case", CASES)
def test_values_of_any_space_are_the_same_in_minaris_files(case: str) -> None:
    """Those that Minari's own library reads are the environment's, and those that are read back are the same rows."""
    _, _, best = CASES[case]
    store = decision_rnn.record(best, f"test/{case}-v0", "local/asked", episodes=2, seed=3, progress=False).store
    assert main(["data", "export", "local/asked", "--format", "minari", "--output", f"{case}/answers-v0"]) == 0
    back = decision_rnn.open_dataset(f"minari/{case}/answers-v0").store
    np.testing.assert_array_equal(back.table, store.table)

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
    best = CASES["unsorted"][2]
    decision_rnn.record(best, "test/unsorted-v0", "local/asked", episodes=2, progress=False)
    run = decision_rnn.train("local/asked", steps=1, output=tmp_path / "run", evaluation={"episodes": 0}, **SMALL)
    broken = {"target": [0, np.nan], "place": [0, 0], "mode": 1}
    with pytest.raises(InputError, match=r"^entry 1 \(target, 1\) of the observation is nan"):
        run.actor()(broken)
    monkeypatch.setattr(Answer, "step", lambda self, action: (broken, 0.0, False, False, {}))
    with pytest.raises(InputError, match=r"observation.*entry 1 \(target, 1\) is nan"):
        decision_rnn.record(lambda _: np.zeros(2), "test/unsorted-v0", "local/broken", episodes=1, progress=False)


def test_sampled_actions_have_the_datas_frequencies_and_greedy_ones_the_most_frequent(tmp_path: Path) -> None:
    """The action 0 has the probability 3/4 in the data, whatever is seen, and earns 0; the other, 1, earns -1."""
    observations, actions = Discrete(2), Discrete(2)
    gymnasium.register(
        "test/coin-v0",
        Answer,
        max_episode_steps=25,
        kwargs={"observation_space": observations, "action_space": actions, "best": lambda seen: 0},
    )
    generator = np.random.default_rng(0)
    dataset = decision_rnn.record(
        lambda seen: int(generator.random() < 0.25), "test/coin-v0", "local/coin", episodes=60, progress=False
    )
    run = decision_rnn.train(dataset, steps=60, output=tmp_path / "run", evaluation={"episodes": 0}, **SMALL)
    settings: dict[str, Any] = {"episodes": 60, "progress": False}
    assert decision_rnn.evaluate(run, processes=1, **settings).targets[0].return_mean == 0
    sampled = [decision_rnn.evaluate(run, actions="sampled", processes=count, **settings) for count in (1, 2)]
    assert sampled[0].targets[0].return_mean == pytest.approx(-25 / 4, abs=1)
    assert sampled[0].targets == sampled[1].targets
    assert "sampled actions" in str(sampled[0])


def test_sampled_actions_in_a_box_are_refused_before_training(tmp_path: Path) -> None:
    decision_rnn.record(CASES["matrix"][2], "test/matrix-v0", "local/asked", episodes=2, progress=False)
    with pytest.raises(InputError, match="sampled"):
        decision_rnn.train("local/asked", steps=1, output=tmp_path / "run", evaluation={"actions": "sampled"}, **SMALL)
    assert not (tmp_path / "run" / "config.yaml").exists()

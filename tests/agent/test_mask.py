"""`observation.mask velocity`: what the agent does not see, in the data and in the environment."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from decision_rnn.backbones import State
from decision_rnn.cli.arguments import parse_run
from decision_rnn.config import EvaluationConfig
from decision_rnn.data.spec import seen_numbers
from decision_rnn.data.store.episodes import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.errors import InputError
from decision_rnn.evaluation.results import evaluate, format_result
from decision_rnn.evaluation.rollout import rollout
from decision_rnn.training import trainer as training
from decision_rnn.training.trainer import train

SMALL = ["--backbone.width", "16", "--training.steps", "2", "--observation.mask", "velocity"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # gymnasium would like v5
@pytest.mark.parametrize("version", ["v4", "v5"])
@pytest.mark.parametrize("body", ["Hopper", "HalfCheetah", "Walker2d", "Ant"])
def test_what_is_seen_are_the_simulators_positions(body: str, version: str) -> None:
    environment = gymnasium.make(f"{body}-{version}")
    environment.action_space.seed(0)
    observation, _ = environment.reset(seed=0)
    for _ in range(5):
        observation = environment.step(environment.action_space.sample())[0]
    simulated = environment.unwrapped.data
    seen = seen_numbers("velocity", f"{body}-{version}")
    assert seen is not None
    np.testing.assert_array_equal(observation[:seen], simulated.qpos[len(simulated.qpos) - seen :])
    velocities = observation[seen : seen + len(simulated.qvel)]  # Hopper's and Walker2d's are clipped
    np.testing.assert_array_equal(np.clip(velocities, -10, 10), np.clip(simulated.qvel, -10, 10))
    assert seen_numbers("none", f"{body}-{version}") is None


def test_unknown_velocities_cannot_be_hidden() -> None:
    with pytest.raises(InputError, match="Pendulum-v1 are is known only for Hopper"):
        seen_numbers("velocity", "Pendulum-v1")
    with pytest.raises(InputError, match="mask"):
        parse_run("test", ["hopper-medium", "--observation.mask", "speed"])


def test_batches_hold_what_is_seen(store: EpisodeStore) -> None:
    whole, masked = (StepStream(store, 4, 8, 0, seen=seen).sample() for seen in (None, 5))
    assert torch.equal(masked.observation, whole.observation[..., :5])
    assert torch.equal(masked.action, whole.action)


class Watcher:
    """Stands still and remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[Tensor] = []

    def initial_state(self, target_return: Tensor) -> State:
        return (target_return,)

    def act(self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: State) -> tuple[Tensor, State]:
        self.shown.append(observation.clone())
        return torch.zeros(len(observation), 3), state


def test_the_environment_shows_what_is_seen() -> None:
    watcher = Watcher()
    rollout(watcher, "Hopper-v5", [100.0], episodes=1, seed=3, seen=5)
    environment = gymnasium.make("Hopper-v5")
    observation, _ = environment.reset(seed=3)
    for shown in watcher.shown:
        np.testing.assert_array_equal(shown[0], observation[:5].astype(np.float32))
        observation = environment.step(np.zeros(3))[0]
    assert len(watcher.shown) > 5


@pytest.mark.parametrize("state", ["carry", "window"])
def test_an_agent_is_trained_and_evaluated_without_velocities(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(training, "open_store", lambda name, **options: store)
    config, _ = parse_run("test", ["hopper-medium", "--training.context", "4", *SMALL])
    trained = train(config, tmp_path / "run")
    assert trained.agent.embed_observation.in_features == 5
    np.testing.assert_allclose(trained.agent.observation_mean, store.observation_mean[:5], rtol=1e-6)
    result = evaluate(trained, EvaluationConfig(episodes=1, target_returns=(100.0,), state=state, window=3))
    assert result["config"]["observation"] == {"mask": "velocity"}
    assert "sees no velocity" in format_result(result)

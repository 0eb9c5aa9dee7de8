"""Training does not depend on the units of observations, actions and rewards."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agent_specs import agent_spec
from gymnasium.spaces import Box, Dict

from decision_rnn.agent.network import Encoder
from decision_rnn.config import from_dict
from decision_rnn.data.info import warn_of_returns
from decision_rnn.data.spec import spec_of_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.episode import Episode
from decision_rnn.training.prepare import prepare

ENTRIES = 6  # the fourth is constant, the fifth constant but for rounding
ONES = np.ones(ENTRIES), np.ones(2), 1.0
UNITS = {
    "small": (np.full(ENTRIES, 1e-6), np.full(2, 1e-6), 1e-6),
    "large": (np.full(ENTRIES, 1e6), np.full(2, 1e6), 1e6),
    "mixed": (np.logspace(-6, 6, ENTRIES), np.array([3e-6, 4e5]), 7e-4),
}
BASE: dict[str, Any] = {"training": {"precision": "fp32", "steps": 5, "context": 8, "batch_size": 16}}
RUNS: dict[str, dict[str, Any]] = {
    **{name: {"objective": name} for name in ("mse", "gmm", "flow_matching", "action_chunk")},
    "cloning": {"condition": "none", "agent": {"previous_action": True, "tokens": "interleaved"}},
    "limited": {"condition": {"name": "return_to_go", "rtg_quantile": 0.5}},
    "unlimited": {"condition": {"name": "return_to_go", "rtg_quantile": 0}, "agent": {"conditioning": "adaln"}},
    "beginnings": {"training": BASE["training"] | {"segment_start": "episode"}},
    "goals": {"training": BASE["training"] | {"goal_relabeling": "hindsight"}},
}


def write(
    path: Path, units: tuple[np.ndarray, np.ndarray, float], goals: bool = False, boxed: bool = False
) -> EpisodeStore:
    """Twelve episodes whose actions and rewards follow from observations, in these units; actions exceed [-1, 1]."""
    generator, episodes = np.random.default_rng(0), []
    for _ in range(12):
        observations = generator.normal(0.3, 1, (21, ENTRIES))
        observations[:, 3] = 3.0
        observations[:, 4] = 5 + 2e-7 * generator.integers(0, 2, 21)
        actions = 3 * np.tanh(observations[:-1, :2] - observations[:-1, 1:3])
        rewards = observations[:-1, 0] + generator.normal(1, 1)
        seen: Any = observations * units[0]
        if goals:
            half = ENTRIES // 2
            seen = {"achieved_goal": seen[:, :half], "desired_goal": seen[:, :half], "observation": seen}
        episodes.append(Episode(seen, actions * units[1], rewards * units[2], False, True))
    sizes = {"achieved_goal": ENTRIES // 2, "desired_goal": ENTRIES // 2, "observation": ENTRIES}
    observation_space = Dict({key: Box(-np.inf, np.inf, (size,)) for key, size in sizes.items()}) if goals else None
    action_space = Box(*(np.array([sign * 3 * units[1] for sign in (-1, 1)], "f4"))) if boxed else None
    spaces: Any = (observation_space, action_space)
    return EpisodeStore.write(path, episodes, environment_id=None, source={}, spaces=spaces)


def losses(store: EpisodeStore, options: dict[str, Any]) -> list[float]:
    backbone = {"name": "mingru", "width": 16, "layers": 1}
    config = from_dict({"dataset": "local/x", "backbone": backbone, **BASE, **options}, "test")
    _, trainer, stream = prepare(config, store, spec_of_store("local/x", store).return_scale)
    return [float(trainer.step(stream.sample()).loss) for _ in range(5)]


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("name", RUNS)
def test_losses_are_the_same_in_every_unit(name: str, units: Any, tmp_path: Path) -> None:
    goals, boxed = name == "goals", name == "cloning"
    expected = losses(write(tmp_path / "ones", ONES, goals, boxed), RUNS[name])
    scaled = losses(write(tmp_path / "units", units, goals, boxed), RUNS[name])
    assert scaled == pytest.approx(expected, rel=1e-3)


def test_scale_of_an_entry_is_its_deviation_unless_it_is_constant() -> None:
    mean = torch.tensor([0.0, 0.0, 1e9, -7e-9, 300.0, 0.0], dtype=torch.float64)
    std = torch.tensor([1e-9, 2e7, 1e-3, 0.0, 1e-3, 0.0], dtype=torch.float64)
    encoder = Encoder(agent_spec(mean, std, 2))
    torch.testing.assert_close(encoder.std.double(), torch.tensor([1e-9, 2e7, 1e9, 7e-9, 1e-3, 1.0]).double())


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_equal_returns_are_noticed_in_every_unit(unit: float, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rewards = [generator.permutation([0.1, 0.2, 0.3]) * unit for _ in range(4)]  # their sums differ by rounding
    episodes = [Episode(np.eye(4), np.ones((3, 1)), values, True, False) for values in rewards]
    store = EpisodeStore.write(tmp_path / "store", episodes, environment_id=None, source={})
    assert list(warn_of_returns(store))
    spec = spec_of_store("local/x", store)
    assert spec.normalised(spec.return_min) == pytest.approx(0, abs=1e-3)
    assert spec.reference_max == pytest.approx(2 * 0.6 * unit)
    assert math.isfinite(spec.return_scale)

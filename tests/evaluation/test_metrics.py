"""Metrics of episodes: against episodes stepped by hand, in results and tables, in several processes, and refused."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from guide import example
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.registration import EnvSpec

from decision_rnn import Metric, evaluate, register_metric
from decision_rnn.evaluation import rollout
from decision_rnn.evaluation.results import read_result, result_file, stored_result
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError

Make = Callable[..., TrainedAgent]
OPTIONS: dict[str, Any] = {"target_returns": [-200, -900], "episodes": 2, "seed": 7, "progress": False}


class Judged(PendulumEnv):
    """Pendulum that says where it is and, at the end of every episode, whether it turns to the left."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        judgement = {"x_position": observation[0], "is_success": self.state[1] > 0}
        return observation, reward, terminated, truncated, {**info, **judgement}


@pytest.fixture(autouse=True)
def plugin(registries: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers the environment, and the tutorial's metrics."""
    monkeypatch.setitem(gymnasium.registry, "Judged-v0", EnvSpec("Judged-v0", Judged, max_episode_steps=40))
    module = ModuleType("mymetric")
    monkeypatch.setitem(sys.modules, "mymetric", module)
    exec(example("mymetric.py"), module.__dict__)


@pytest.fixture
def judged(pendulum: Make) -> TrainedAgent:
    trained = pendulum()
    return replace(trained, provenance=replace(trained.provenance, environment_id="Judged-v0"))


def by_hand(trained: TrainedAgent, target: float, seed: int) -> tuple[float, float, float]:
    """The energy, the last position and the success of an episode."""
    env = gymnasium.make("Judged-v0")
    observation, _ = env.reset(seed=seed)
    state, energy, reward, truncated = trained.agent.initial_state(torch.tensor([target])), 0.0, 0.0, False
    while not truncated:
        row = torch.from_numpy(observation)[None]
        with torch.inference_mode():
            action, state, _ = trained.agent.act(row, torch.tensor([float(reward)]), state)
        observation, reward, _, truncated, info = env.step(action[0].numpy())
        energy += float(action[0, 0]) ** 2
    return energy, float(info["x_position"]), float(info["is_success"])


@pytest.mark.parametrize("processes", [1, 2])
def test_metrics_are_those_of_episodes_stepped_by_hand(
    judged: TrainedAgent, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "GROUP", 2)
    names = ["energy", "distance", "success"]
    result = evaluate(judged, metrics=names, processes=processes, output=tmp_path, **OPTIONS)
    head, *rows = str(result).splitlines()[1:4]
    assert head.split()[-3:] == names
    scalars = result.scalars("evaluation")
    for row, target in zip(rows, result.targets, strict=True):
        expected = np.array([by_hand(judged, target.target_return or 0.0, 7 + i) for i in range(2)])
        for values, (name, metric) in zip(expected.T, target.metrics.items(), strict=True):
            np.testing.assert_allclose(metric.values, values, rtol=1e-3, atol=1e-4, err_msg=name)
            assert (metric.mean, metric.sd) == pytest.approx((values.mean(), values.std()), rel=1e-3, abs=1e-4)
            assert f" {metric.mean:.4g} ± {metric.sd:.4g}" in row
            assert scalars[f"evaluation/{name}_at_{target.name}"] == metric.mean
    plain = evaluate(judged, processes=processes, output=tmp_path, **OPTIONS)
    assert [target.returns for target in plain.targets] == [target.returns for target in result.targets]
    assert read_result(result_file(tmp_path, result)) == result
    assert len(list((tmp_path / "results").iterdir())) == 2
    settings = replace(judged.config.evaluation, target_returns=(-200.0, -900.0), episodes=2, seed=7)
    about = judged.config, judged.provenance, judged.step
    measured = replace(settings, metrics=tuple(names))
    assert stored_result(tmp_path, *about, measured).targets == result.targets  # type: ignore[union-attr]
    assert stored_result(tmp_path, *about, settings).targets == plain.targets  # type: ignore[union-attr]


def test_cut_episode_is_truncated_for_its_metrics(judged: TrainedAgent, pendulum: Make) -> None:
    """`success` needs the environment to say so at the last step."""
    cut = evaluate(judged, metrics=["success"], max_episode_steps=5, processes=1, **OPTIONS)
    assert {value for target in cut.targets for value in target.metrics["success"].values} <= {0.0, 1.0}
    with pytest.raises(InputError, match=r"success.*Pendulum-v1"):
        evaluate(pendulum(), metrics=["success"], max_episode_steps=5, processes=1, **OPTIONS)


@pytest.mark.parametrize("value", [None, math.inf])
def test_metric_without_a_finite_number_or_unknown_is_refused(judged: TrainedAgent, value: Any) -> None:
    class Odd(Metric):
        name = "odd"

        def step(self, *step: Any) -> Any:
            return value

    register_metric(Odd)
    with pytest.raises(InputError, match="odd"):
        evaluate(judged, metrics=["odd"], max_episode_steps=2, processes=1, **OPTIONS)
    with pytest.raises(InputError, match=r"oddd.*odd.*success"):
        evaluate(judged, metrics=["oddd"], **OPTIONS)


@pytest.mark.parametrize("value", [np.array([True]), np.array(1.0), torch.ones(1), "yes", np.ones(2), None], ids=str)
def test_success_as_another_type(judged: TrainedAgent, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = PendulumEnv.step
    monkeypatch.setattr(Judged, "step", lambda self, action: (*step(self, action)[:4], {"success": value}))
    if np.shape(value) in ((), (1,)) and not isinstance(value, str | None):
        result = evaluate(judged, metrics=["success"], processes=1, **OPTIONS)
        assert result.targets[0].metrics["success"].mean == 1
    else:
        with pytest.raises(InputError, match="success"):
            evaluate(judged, metrics=["success"], processes=1, **OPTIONS)


def test_observation_that_is_not_finite_is_refused(judged: TrainedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    step = PendulumEnv.step
    monkeypatch.setattr(Judged, "step", lambda self, action: (step(self, action)[0] * np.nan, 0.0, False, False, {}))
    with pytest.raises(InputError, match=r"observation of .*Judged-v0"):
        evaluate(judged, processes=1, **OPTIONS)

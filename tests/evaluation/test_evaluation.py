"""`evaluate` and its report: target returns, agents trained by cloning, tasks, remarks, other environments."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import scipy.stats

from decision_rnn.config import EvaluationConfig
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.environments.spaces import described_spaces
from decision_rnn.environments.tasks import TASKS
from decision_rnn.evaluation import evaluate as module
from decision_rnn.evaluation.actor import actor_of
from decision_rnn.evaluation.evaluate import evaluate, score
from decision_rnn.evaluation.results import read_result
from decision_rnn.evaluation.rollout import EPISODE, rollout
from decision_rnn.evaluation.targets import describe_reach, evaluated_returns, spread_targets
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError

Make = Callable[..., TrainedAgent]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    """Replaces rollouts: returns go from the target, at most 100, down to half of it; it lists each call's targets."""
    calls: list[list[float]] = []

    def play(actor: object, environment: str, targets: list[float], episodes: int, *rest: object) -> np.ndarray:
        calls.append(list(targets))
        result = np.zeros((len(targets), episodes), np.dtype([*EPISODE]))
        result["return"] = np.minimum(targets, 100.0)[:, None] * np.linspace(1, 0.5, episodes)
        result["length"] = 7
        return result

    monkeypatch.setattr(module, "rollout", play)
    return calls


def rows(result: object) -> dict[str, str]:
    """The rows of the printed table above that of the data, by their first word."""
    return {line.split()[0]: line for line in str(result).partition("(the data)")[0].splitlines() if line.strip()}


def with_data(trained: TrainedAgent, **changes: object) -> TrainedAgent:
    return replace(trained, provenance=replace(trained.provenance, **changes))


def test_scores_of_hopper_use_the_references_of_d4rl() -> None:
    returns = {"return_mean": 0.0, "return_sd": 1.0, "return_min": 0.0, "return_max": 1.0}
    names = {"name": "hopper", "environment_id": "Hopper-v4", "comparable": "", "fingerprint": ""}
    spec = DatasetSpec(**names, **returns, **TASKS["hopper"].scores(), spaces={})
    assert spec.normalised(np.array([3234.3, -20.272305])) == pytest.approx([100, 0])
    assert spec.normalised(1422.0) == pytest.approx(44.3, abs=0.05)  # published with D4RL's hopper-medium


def test_targets_beyond_the_data_are_marked(pendulum: Make, played: list[list[float]]) -> None:
    targets = {"10": "beyond the data", "-50": "beyond the data", "-400": "inside the data", "-1600": "beyond the data"}
    settings = EvaluationConfig(episodes=2, target_returns=tuple(map(float, targets)))
    result = score(pendulum(), settings)
    assert [target.in_range for target in result.targets] == [place == "inside the data" for place in targets.values()]
    assert all(rows(result)[target].endswith(place) for target, place in targets.items())


@pytest.mark.parametrize(
    ("best", "quantile", "named", "expected"),
    [
        (-250.0, 0.0, None, [-200.0, -400.0, -250.0]),
        (-250.0, 0.0, (-300.0,), [-300.0]),
        (-250.0, 0.0, (-200.0, -300.0, -300.0), [-200.0, -300.0]),
        (-200.0, 0.0, None, [-200.0, -400.0]),  # it is a target already
        (-100.0, 0.9, None, [math.inf, -200.0, -400.0]),
        (-250.0, 0.9, None, [math.inf, -400.0]),  # the agent sees -200, too, as the data's 0.9 quantile at most
        (-250.0, 0.9, (-200.0, -250.0), [-200.0, -250.0]),
    ],
)
def test_the_best_return_is_added_to_default_targets_if_it_is_another(
    pendulum: Make, played: list[list[float]], best: float, quantile: float, named: Any, expected: list[float]
) -> None:
    settings = EvaluationConfig(episodes=2, target_returns=named)
    result = score(pendulum(return_max=best, rtg_quantile=quantile), settings)
    assert played == [expected]
    assert result.protocol.target_returns == tuple(expected)
    marked = [target for target, row in rows(result).items() if row.endswith("the data's best")]
    assert marked == [f"{target:g}" for target in expected if target == best]


def test_target_that_rounding_tells_from_the_best_is_the_best(pendulum: Make) -> None:
    """200 rewards of 1/200, in float32."""
    best = float(np.full(200, 1 / 200, np.float32).sum(dtype=np.float64))
    assert best < 1
    trained = with_data(pendulum(return_min=0.0, return_max=best), target_returns=(1.0, 0.5))
    for named, expected in ((None, (best, 0.5)), ((1.0, 1.001), (best, 1.001))):
        settings = EvaluationConfig(target_returns=named)
        assert evaluated_returns(settings, trained.provenance, trained.config) == expected


def test_spread_targets_are_round_numbers_evenly_inside_the_range() -> None:
    assert spread_targets(316.4, 3222.3, 5) == (800.0, 1290.0, 1770.0, 2250.0, 2740.0)
    assert spread_targets(0, 0.003, 2) == (0.001, 0.002)
    generator = np.random.default_rng(0)
    for _ in range(500):
        low = float(generator.normal() * 10 ** generator.uniform(-3, 5))
        high = low + float(10 ** generator.uniform(-3, 5))
        count = int(generator.integers(1, 20))
        targets, distance = spread_targets(low, high, count), (high - low) / (count + 1)
        assert all(low < target < high for target in targets)
        exact = [low + i * distance for i in range(1, count + 1)]
        assert np.abs(np.subtract(targets, exact)).max() <= distance / 20 * (1 + 1e-6)


def test_reach_counts_the_episodes_of_each_target() -> None:
    returns = np.array([*np.linspace(0, 99, 190), *[300.0] * 10])
    assert describe_reach((200.0, math.inf), returns) == "target 200: 10 of 200 episodes reach it (5%)"


def test_success_rate_has_wilsons_interval(pendulum: Make, played: list[list[float]]) -> None:
    """Of the pendulum's references -1600 and -150; where one episode scores otherwise there is none."""
    result = score(pendulum(), EvaluationConfig(episodes=7, target_returns=(-200.0,)))
    assert "Wilson" not in str(result)
    reached = replace(result, targets=(replace(result.targets[0], returns=(-150.0,) * 5 + (-1600.0,) * 2),))
    low, high = (100 * end for end in scipy.stats.binomtest(5, 7).proportion_ci(method="wilson"))
    assert f"-200: 5/7 episodes score 100, the others 0 (95% Wilson interval {low:.1f} to {high:.1f} " in str(reached)


def test_each_task_of_an_environment_has_a_score(pendulum: Make, played: list[list[float]]) -> None:
    """Episode i has task (seed + i) % 3, which the report counts from 1; another environment has tasks of its own."""
    agent = with_data(pendulum(), tasks=3)
    settings = EvaluationConfig(episodes=7, target_returns=(-200.0,), seed=1)
    result = score(agent, settings)
    scores = [100 * (-200 * factor + 1600) / 1450 for factor in np.linspace(1, 0.5, 7)]
    tasks = [(scores[2] + scores[5]) / 2, (scores[0] + scores[3] + scores[6]) / 3, (scores[1] + scores[4]) / 2]
    assert result.targets[0].task_scores == pytest.approx(tasks)
    assert f"-200: tasks 1 to 3 score {', '.join(f'{score:.1f}' for score in tasks)}\n" in str(result)
    for other in (replace(settings, environment_id="Pendulum-v1"), replace(settings, episodes=2)):
        assert score(agent, other).targets[0].task_scores == ()


def test_cloning_agents_are_played_once_without_a_target(pendulum: Make, played: list[list[float]]) -> None:
    trained = pendulum(cloning=True)
    result = score(trained, EvaluationConfig(episodes=2, target_returns=(1.0, 2.0, 3.0)))
    assert [len(targets) for targets in played] == [1]
    assert [(target.target_return, target.in_range) for target in result.targets] == [(None, None)]
    assert (result.protocol.target_returns, result.remarks) == ((None,), ())
    assert "BC" in rows(result)
    one, other = rollout(actor_of(trained, trained.config.evaluation), "Pendulum-v1", [0.0, -1000.0], 2, 0)
    assert one.tobytes() == other.tobytes()
    assert result.targets[0].initial_return_to_go is None
    with pytest.raises(InputError, match="target return"):
        evaluate(trained, 5.0)


def test_run_without_evaluation_is_evaluated_by_the_default(pendulum: Make, played: list[list[float]]) -> None:
    trained = pendulum()
    trained = replace(trained, config=replace(trained.config, evaluation=EvaluationConfig(episodes=0)))
    assert len(evaluate(trained).targets[0].returns) == EvaluationConfig().episodes
    with pytest.raises(InputError, match="episodess"):
        evaluate(trained, episodess=3)


def test_result_can_be_written_into_the_folder_of_a_project(pendulum: Make, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("project: mine\n")
    evaluate(pendulum(), episodes=1, output=tmp_path, progress=False)
    (file,) = (tmp_path / "results").iterdir()
    assert read_result(file).protocol.episodes == 1


def test_what_is_no_agent_is_refused(pendulum: Make) -> None:
    for other in (pendulum().agent, pendulum().provenance, [pendulum()], None):
        with pytest.raises(InputError, match=f"agent is a {type(other).__name__}"):
            evaluate(other)
    with pytest.raises(InputError, match=r"load_policy\('policy\.onnx'\)"):
        evaluate("policy.onnx")


def test_small_returns_have_more_digits(pendulum: Make, played: list[list[float]]) -> None:
    small = with_data(pendulum(), reference_min=0.0, reference_max=4e-4)
    result = score(small, EvaluationConfig(episodes=3, target_returns=(3e-4,)))
    scores = result.dataset.normalised(np.array(result.targets[0].returns))
    assert scores.tolist() == pytest.approx([75.0, 56.25, 37.5], abs=1e-3)
    half = score(pendulum(return_min=0.0, return_max=1.0), EvaluationConfig(episodes=2, target_returns=(0.5,)))
    assert "0.38 ± 0.12" in rows(half)["0.5"]  # of 0.5 and 0.25


def test_result_holds_returns_scores_steps_and_protocol(pendulum: Make) -> None:
    trained = with_data(pendulum(), score_meaning="0 is here, 100 there")
    result = score(trained, EvaluationConfig(episodes=2, seed=5))
    assert [target.target_return for target in result.targets] == [-200.0, -400.0, -100.0]
    assert (result.step, result.protocol.window) == (10, None)
    target = result.targets[0]
    assert target.return_mean == pytest.approx(sum(target.returns) / 2, abs=1e-3)
    assert target.score_mean == pytest.approx(100 * (target.return_mean + 1600) / 1450)
    assert all(text in str(result) for text in ("some note", "carried state", "score 0 is here, 100 there"))
    one = score(trained, EvaluationConfig(episodes=1, inference="window", window=3, max_episode_steps=5))
    assert "window of 3" in str(one)
    assert "±" not in rows(one)["-200"]  # no spread of a single episode


def test_episodes_that_are_cut_are_remarked_on(pendulum: Make) -> None:
    """Pendulum-v1 ends after 200 steps."""
    settings = EvaluationConfig(episodes=2, target_returns=(-200.0,))
    cut, whole = (score(pendulum(), replace(settings, max_episode_steps=steps)) for steps in (30, 200))
    assert (cut.targets[0].length_mean, whole.targets[0].length_mean) == (30, 200)
    assert ["2 of 2" in remark and "30 steps" in remark for remark in cut.remarks] == [True]
    assert whole.remarks == ()


def test_evaluation_in_another_environment(pendulum: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pendulum-v1 ends after 200 steps; the longest episode of the data has 30."""
    spec = replace(gymnasium.spec("Pendulum-v1"), id="LongPendulum-v0", max_episode_steps=250)
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    trained = with_data(pendulum(), longest_episode=30)
    settings = EvaluationConfig(episodes=1, target_returns=(-200.0,))
    one, other = score(trained, settings), score(trained, replace(settings, environment_id="LongPendulum-v0"))
    assert (one.targets[0].length_mean, other.targets[0].length_mean) == (200, 250)
    assert one.key != other.key
    assert str(other).count("LongPendulum-v0") == 2  # in the title, and in what scores may be compared with
    for name, words in (
        ("Hopper-v5", "size 3.*Hopper-v5.* 11"),
        ("CartPole-v1", "size 3.*CartPole-v1.* 4"),
        ("Absent-v0", "Absent-v0"),
    ):
        with pytest.raises(InputError, match=words):
            score(trained, replace(settings, environment_id=name))
    for size in (2, 4):  # also where a window would read the first entries of a longer observation
        spaces = described_spaces(gymnasium.spaces.Box(-1, 1, (size,)), gymnasium.spaces.Box(-1, 1, (1,)))
        with pytest.raises(InputError, match=f"size {size}.*Pendulum-v1.* 3"):
            score(with_data(trained, spaces=spaces), replace(settings, inference="window"), 1)

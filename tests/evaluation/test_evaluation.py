"""`evaluate` and its report: targets inside and beyond the data, added targets, cloning agents, remarks, errors."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import scipy.stats

from decision_rnn.config import EvaluationConfig
from decision_rnn.data.episode import Episode
from decision_rnn.data.spaces import described_spaces
from decision_rnn.data.spec import spec_of_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.evaluation import evaluate as module
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.rollout import RolloutResult
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError

Make = Callable[..., TrainedAgent]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    """Replaces rollouts: returns go from the target, at most 100, down to half of it; it lists each call's targets."""
    asked: list[list[float]] = []

    def rollout(actor: object, environment: str, targets: list[float], episodes: int, *rest: object, **more: object):
        asked.append(list(targets))
        factors = np.linspace(1, 0.5, episodes)
        lengths, cut = np.full(episodes, 7), np.zeros(episodes, bool)
        return [RolloutResult(target, min(target, 100.0) * factors, lengths, cut) for target in targets]

    monkeypatch.setattr(module, "rollout", rollout)
    return asked


def rows(text: str) -> dict[str, str]:
    """The lines of the table above the line of the data, by their first word."""
    return {line.split()[0]: line for line in text.partition("(the data)")[0].splitlines() if line.strip()}


def test_evaluate_marks_targets_inside_and_beyond_the_returns_of_the_data(
    pendulum: Make, played: list[list[float]]
) -> None:
    result = score(pendulum(), EvaluationConfig(episodes=2, target_returns=(-50.0, -400.0, -1600.0, -100.0)))
    assert [target.in_range for target in result.targets] == [False, True, False, True]
    assert result.remarks == (
        "-50 is beyond the data's best -100: its score measures extrapolation",
        "-1600 is beyond the data's worst -1500: its score measures extrapolation",
    )
    text = str(result)
    for asked, place in (("-50", "beyond the data"), ("-400", "inside the data"), ("-1600", "beyond the data")):
        assert rows(text)[asked].endswith(place)
    assert all(remark in text for remark in result.remarks)


def test_targets_beyond_the_data_are_remarked_on_in_one_line(pendulum: Make, played: list[list[float]]) -> None:
    asked = EvaluationConfig(episodes=1, target_returns=(-50.0, -400.0, 10.0))
    result = score(pendulum(rtg_quantile=1.0), asked)
    (remark,) = result.remarks
    assert remark.startswith("-50, 10 are beyond the data's best -100: their scores measure extrapolation")
    assert "step 10, 1 episode per target, " in str(result)


def test_remark_on_a_target_beyond_the_data_mentions_the_rtg_quantile(
    pendulum: Make, played: list[list[float]]
) -> None:
    asked = EvaluationConfig(episodes=2, target_returns=(-50.0, -1600.0))
    above, below = score(pendulum(rtg_quantile=1.0), asked).remarks
    assert "condition.rtg_quantile 1" in above
    assert "rtg_quantile" not in below
    assert "condition.rtg_quantile 0.95" in score(pendulum(rtg_quantile=0.95), asked).remarks[0]


@pytest.mark.parametrize(
    ("return_max", "rtg_quantile", "named", "asked"),
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
def test_evaluate_adds_the_best_return_to_default_targets_only_if_it_is_another(
    pendulum: Make,
    played: list[list[float]],
    return_max: float,
    rtg_quantile: float,
    named: tuple[float, ...] | None,
    asked: list[float],
) -> None:
    settings = EvaluationConfig(episodes=2, target_returns=named)
    result = score(pendulum(return_max=return_max, rtg_quantile=rtg_quantile), settings)
    assert played == [asked]
    assert result.protocol.target_returns == tuple(asked)
    best = [target for target, row in rows(str(result)).items() if row.endswith("the data's best")]
    assert best == [f"{target:g}" for target in asked if target == return_max]


def test_success_rate_of_episodes_that_score_0_or_100_has_an_interval(
    pendulum: Make, played: list[list[float]]
) -> None:
    """Of the pendulum's references -1600 and -150; where one episode scores otherwise there is none."""
    result = score(pendulum(), EvaluationConfig(episodes=7, target_returns=(-200.0,)))
    assert "95% Wilson interval" not in str(result)
    (target,) = result.targets
    reached = replace(result, targets=(replace(target, returns=(-150.0,) * 5 + (-1600.0,) * 2),))
    wilson = scipy.stats.binomtest(5, 7).proportion_ci(method="wilson")
    low, high = (100 * end for end in wilson)
    assert f"-200: 5/7 episodes score 100, the others 0 (95% Wilson interval {low:.1f} to {high:.1f} " in str(reached)


def test_evaluate_scores_each_task_of_an_environment_that_has_three(pendulum: Make, played: list[list[float]]) -> None:
    """Episode i has task (seed + i) % 3, which the report counts from 1; another environment has tasks of its own."""
    made = pendulum()
    agent = replace(made, provenance=replace(made.provenance, tasks=3))
    settings = EvaluationConfig(episodes=7, target_returns=(-200.0,), seed=1)
    result = score(agent, settings)
    scores = [100 * (-200 * factor + 1600) / 1450 for factor in np.linspace(1, 0.5, 7)]
    tasks = [(scores[2] + scores[5]) / 2, (scores[0] + scores[3] + scores[6]) / 3, (scores[1] + scores[4]) / 2]
    assert result.targets[0].task_scores == pytest.approx(tasks)
    assert f"-200: tasks 1 to 3 score {', '.join(f'{score:.1f}' for score in tasks)}\n" in str(result)
    for other in (replace(settings, environment_id="Pendulum-v1"), replace(settings, episodes=2)):
        assert score(agent, other).targets[0].task_scores == ()
    assert "tasks" not in str(score(made, settings))


def test_evaluate_plays_a_cloning_agent_once_without_target_return(pendulum: Make, played: list[list[float]]) -> None:
    result = score(pendulum(cloning=True), EvaluationConfig(episodes=2, target_returns=(1.0, 2.0, 3.0)))
    assert [len(targets) for targets in played] == [1]
    assert [(target.target_return, target.in_range) for target in result.targets] == [(None, None)]
    assert (result.protocol.target_returns, result.remarks) == ((None,), ())
    text = str(result)
    assert "BC" in rows(text)


def test_cloning_agent_ignores_the_target_return(pendulum: Make) -> None:
    """With real rollouts: the target makes no difference, so one evaluation is enough."""
    agent = pendulum(cloning=True).agent
    ones, others = (module.rollout(agent, "Pendulum-v1", [target], 2, 0)[0] for target in (0.0, -1000.0))
    assert ones.returns.tolist() == others.returns.tolist()


@pytest.mark.parametrize(
    ("backbone", "state", "tbptt_segments", "remarked"),
    [
        ("s4d", "recurrent", 1, True),
        ("s4d", "recurrent", 50, False),
        ("s4d", "window", 1, False),
        ("rnn", "recurrent", 1, False),
    ],
)
def test_remark_on_a_carried_state_that_outlasts_the_slices_trained_on(
    pendulum: Make, played: list[list[float]], backbone: str, state: str, tbptt_segments: int, remarked: bool
) -> None:
    trained = pendulum(backbone, tbptt_segments)
    result = score(trained, EvaluationConfig(episodes=1, inference=state))
    named = [line for line in str(result).splitlines() if "--inference window" in line]
    assert len(named) == remarked
    assert all("--training.tbptt_segments 50" in line for line in named)


def test_evaluate_with_0_episodes_or_without_the_plugins_of_the_run_raises(pendulum: Make) -> None:
    trained = pendulum()
    with pytest.raises(InputError, match="episodes is 0"):
        score(trained, EvaluationConfig(episodes=0))
    trained = replace(trained, config=replace(trained.config, plugins=("not_imported_yet",)))
    with pytest.raises(InputError, match="--plugins not_imported_yet"):
        score(trained, EvaluationConfig(episodes=1))


def test_result_keeps_the_digits_of_small_returns(pendulum: Make, played: list[list[float]]) -> None:
    trained = pendulum()
    small = replace(trained, provenance=replace(trained.provenance, reference_min=0.0, reference_max=4e-4))
    result = score(small, EvaluationConfig(episodes=3, target_returns=(3e-4,)))
    scores = result.dataset.normalised(np.array(result.targets[0].returns))
    assert scores.tolist() == pytest.approx([75.0, 56.25, 37.5], abs=1e-3)


def test_evaluate_returns_that_are_not_finite_raise(pendulum: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = RolloutResult(-200.0, np.array([np.nan]), np.array([3]), np.array([False]))
    monkeypatch.setattr(module, "rollout", lambda *arguments, **options: [broken])
    with pytest.raises(InputError, match="Pendulum-v1 have returns that are not finite"):
        score(pendulum(), EvaluationConfig(episodes=1, target_returns=(-200.0,)))


def test_evaluate_result_holds_returns_scores_steps_and_protocol(pendulum: Make) -> None:
    trained = pendulum()
    result = score(trained, EvaluationConfig(episodes=2, seed=5))
    assert [target.target_return for target in result.targets] == [-200.0, -400.0, -100.0]
    assert (result.step, result.protocol.window, result.environment_steps) == (10, None, 6 * 200)
    target = result.targets[0]
    assert target.return_mean == pytest.approx(sum(target.returns) / 2, abs=1e-3)
    assert target.score_mean == pytest.approx(100 * (target.return_mean + 1600) / 1450)
    text = str(result)
    assert "some note" in text
    assert "carried state" in text
    one = str(score(trained, EvaluationConfig(episodes=1, inference="window", window=3)))
    assert "window of 3" in one
    assert "±" not in rows(one)["-200"]  # no spread of a single episode


def test_remark_on_episodes_cut_before_the_environment_ended_them(pendulum: Make) -> None:
    """Pendulum-v1 ends after 200 steps."""
    asked = EvaluationConfig(episodes=2, target_returns=(-200.0,))
    cut, whole = (score(pendulum(), replace(asked, max_episode_steps=steps)) for steps in (30, 200))
    assert (cut.targets[0].length_mean, whole.targets[0].length_mean) == (30, 200)
    assert [remark for remark in cut.remarks if "2 of 2 episodes were cut off after 30 steps" in remark]
    assert whole.key != score(pendulum(), asked).key != cut.key


def test_evaluation_in_another_environment_with_the_same_spaces(
    pendulum: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pendulum-v1 ends after 200 steps; the longest episode of the data has 30."""
    spec = replace(gymnasium.spec("Pendulum-v1"), id="LongPendulum-v0", max_episode_steps=250)
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    trained = pendulum()
    trained = replace(trained, provenance=replace(trained.provenance, longest_episode=30))
    asked = EvaluationConfig(episodes=1, target_returns=(-200.0,))
    own, other = score(trained, asked), score(trained, replace(asked, environment_id="LongPendulum-v0"))
    assert (own.targets[0].length_mean, other.targets[0].length_mean) == (200, 250)
    assert own.key != other.key
    text = str(other)
    assert "carried state, LongPendulum-v0\n" in text
    assert "played in LongPendulum-v0, not in that of the data" in text
    for name, fault in (
        (
            "Hopper-v5",
            "trained on observations of 3 numbers, and Hopper-v5 .* has 11: choose an evaluation.environment_id",
        ),
        ("CartPole-v1", "trained on observations of 3 numbers, and CartPole-v1 .* has 4"),
        ("Absent-v0", "Absent-v0"),
    ):
        with pytest.raises(InputError, match=fault):
            score(trained, replace(asked, environment_id=name))


def test_result_prints_the_meaning_of_scores(pendulum: Make, played: list[list[float]]) -> None:
    trained = pendulum()
    data = replace(trained.provenance, score_meaning="0 is here, 100 there")
    assert "score 0 is here, 100 there" in str(score(replace(trained, provenance=data), EvaluationConfig(episodes=1)))


def test_format_result_shows_small_returns_with_more_decimals(pendulum: Make, played: list[list[float]]) -> None:
    trained = pendulum(return_min=0.0, return_max=1.0)
    text = str(score(trained, EvaluationConfig(episodes=2, target_returns=(0.5,))))
    assert "0.38 ± 0.12" in rows(text)["0.5"]  # of 0.5 and 0.25


def test_other_time_limit_of_the_data_than_of_the_evaluation_is_remarked_on(
    pendulum: Make, played: list[list[float]]
) -> None:
    """Pendulum-v1 is registered with 200 steps."""
    trained = pendulum()
    for limit, cap, said in ((200, None, False), (60, None, True), (60, 60, False), (200, 60, True), (None, 60, False)):
        data = replace(trained.provenance, time_limit=limit)
        asked = EvaluationConfig(episodes=1, target_returns=(-400.0,), max_episode_steps=cap)
        remarks = score(replace(trained, provenance=data), asked).remarks
        assert any("were truncated after" in remark for remark in remarks) is said, (limit, cap)
    assert remarks == ()


@pytest.mark.parametrize(
    ("lengths", "truncated", "limit"),
    [((60, 60, 12), (1, 1, 0), 60), ((60, 50, 40), (1, 1, 1), None), ((60, 50), (0, 0), None)],
)
def test_time_limit_of_data_is_the_length_at_which_most_episodes_were_truncated(
    lengths: tuple[int, ...], truncated: tuple[int, ...], limit: int | None, tmp_path: Path
) -> None:
    made = [
        Episode(np.random.rand(length + 1, 3), np.random.rand(length, 1), np.random.rand(length), not cut, bool(cut))
        for length, cut in zip(lengths, truncated, strict=True)
    ]
    store = EpisodeStore.write(tmp_path / "store", made, environment_id="Pendulum-v1", source={})
    assert spec_of_store("local/short", store).time_limit == limit


@pytest.mark.parametrize("size", [2, 4])
def test_evaluate_in_an_environment_of_other_sizes_says_so(pendulum: Make, size: int) -> None:
    """Also where a window would read the first entries of a longer observation: those of Pendulum are three."""
    box = gymnasium.spaces.Box
    spaces, trained = described_spaces(box(-1, 1, (size,)), box(-1, 1, (1,))), pendulum()
    trained = replace(trained, provenance=replace(trained.provenance, spaces=spaces))
    with pytest.raises(InputError, match=rf"observations of {size} numbers, and Pendulum-v1 as .* has 3: register"):
        score(trained, EvaluationConfig(episodes=1, inference="window"), 1)

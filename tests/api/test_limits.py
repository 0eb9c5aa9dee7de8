"""Evaluating an agent with another return limit than that of its run."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from swing import SMALL

import decision_rnn
from decision_rnn import InputError, Run, TrainedAgent, open_dataset
from decision_rnn.deploy.onnx import export_onnx
from decision_rnn.evaluation.limits import with_limits
from decision_rnn.evaluation.results import Result, results_of


@pytest.mark.parametrize("top_fraction", [1.0, 0.5])
def test_evaluate_with_limits_equals_the_same_weights_in_a_run_with_that_rtg_cap(
    inside: Path, folder: Path, top_fraction: float
) -> None:
    def trained(limit: float, output: str) -> Run:
        return decision_rnn.train(
            "local/swing",
            SMALL,
            steps=2,
            output=output,
            progress=False,
            top_fraction=top_fraction,
            condition={"rtg_cap": limit},
        )

    def scored(run: Run, limit: float | None) -> Result:
        return run.evaluate(90.0, episodes=2, processes=1, progress=False, rtg_cap=limit)

    run = trained(0.25, "run")
    for limit in (0.75, 0.0):
        other = trained(limit, f"other-{limit}")
        ours, theirs = with_limits(run.agent, limit).agent.state_dict(), other.agent.agent.state_dict()
        assert ours.keys() == theirs.keys()
        assert limit == 0 or torch.equal(ours["condition.cap"], theirs["condition.cap"])
        changed, expected = scored(run, limit), scored(other, None)
        assert (changed.key, changed.remarks) == (expected.key, expected.remarks)
        other.agent.agent.load_state_dict(
            {**theirs, **{name: weight for name, weight in run.agent.agent.state_dict().items() if "cap" not in name}}
        )
        same = decision_rnn.evaluate(other.agent, 90.0, episodes=2, processes=1, progress=False)
        assert changed.targets == same.targets
    assert len(list((run.folder / "results").iterdir())) == 2


def test_with_limits_is_a_quantile_of_the_returns_to_go_and_keeps_the_original_agent(run: Run) -> None:
    before = run.agent.agent.condition.cap
    changed = with_limits(run.agent, 0.5)
    rewards = [episode.rewards for episode in open_dataset("local/swing").open().read_episodes()]
    to_go = [np.cumsum(r[::-1].astype(np.float64))[::-1] for r in rewards]
    earned = np.array([one[0] for one in to_go])
    weight = np.maximum(np.round(10 * earned), 0).astype(int)  # the swing's rewards are tenths
    by_timestep = [
        np.median(np.repeat([one[t] for one in to_go if t < len(one)], weight[[t < len(one) for one in to_go]]))
        for t in range(max(map(len, to_go)))
    ]
    assert by_timestep[-1] > by_timestep[0]  # the swing's rewards are costs: the cap is that of the timestep
    np.testing.assert_allclose(changed.agent.condition.cap, by_timestep, atol=0.11)
    assert changed.config.condition.rtg_cap == 0.5
    assert run.agent.agent.condition.cap is before
    assert run.config.condition.rtg_cap == 0.8


def test_with_limits_of_what_is_in_reach_changes_what_best_asks_for(inside: Path) -> None:
    judging = decision_rnn.train(
        "local/swing", SMALL, steps=2, output="judging", progress=False, agent={"condition_at": "head"}
    )
    assert (judging.config.condition.reach, judging.config.condition.rtg_cap) == (0.99, 0.0)
    played: dict[str, Any] = {"episodes": 2, "processes": 1, "progress": False}
    default, changed = (judging.evaluate("best", reach=of, **played) for of in (None, 0.5))
    (high,), (low,) = default.targets, changed.targets
    assert (high.target_return, high.in_range, high.limited) == (math.inf, None, 1.0)
    assert low.asked_mean < high.asked_mean
    assert "best: at every step the limit, at first" in str(default)
    assert changed.config.condition.reach == 0.5
    assert default.key != changed.key
    again = judging.evaluate("best", **played)
    assert again.targets == default.targets
    (stored,) = [of for of in results_of(judging.folder, judging.agent) if of.protocol.target_returns == (math.inf,)]
    assert stored.targets == default.targets


def test_best_is_refused_where_nothing_limits_what_the_agent_sees(run: Run, inside: Path) -> None:
    unlimited = with_limits(run.agent, rtg_cap=0.0)
    for ask in (
        lambda: decision_rnn.evaluate(unlimited, "best", episodes=1, processes=1, progress=False),
        lambda: decision_rnn.EnvironmentActor(unlimited, "best"),
        lambda: export_onnx(unlimited, inside / "policy.onnx", math.inf),
    ):
        with pytest.raises(InputError, match=r"best, but nothing limits .* condition.rtg_cap above 0"):
            ask()
    with pytest.raises(InputError, match="has not learnt what is in reach"):
        with_limits(run.agent, reach=0.9)


def test_with_limits_0_needs_no_dataset(pendulum: Callable[..., TrainedAgent]) -> None:
    trained = pendulum(rtg_cap=0.5)
    assert with_limits(trained, 0.0).agent.condition.cap is None
    with pytest.raises(InputError, match="local/pendulum"):
        with_limits(trained, 0.9)


def test_rtg_cap_invalid_value_cloning_agent_or_other_data_raises_input_error(
    run: Run, pendulum: Callable[..., TrainedAgent]
) -> None:
    for limit in (1.5, np.float64(-1), float("nan"), "all", True, [0.5]):
        with pytest.raises(InputError, match=r"rtg_cap is .* from 0"):
            decision_rnn.evaluate(run, 90.0, episodes=1, processes=1, progress=False, rtg_cap=limit)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="condition none, which sees no return-to-go"):
        with_limits(pendulum(cloning=True), 0.0)
    other = replace(run.agent, provenance=replace(run.agent.provenance, fingerprint="0" * 64))
    with pytest.raises(InputError, match="other contents of local/swing"):
        with_limits(other, 0.9)

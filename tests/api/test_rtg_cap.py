"""Evaluating an agent with another return limit than that of its run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from swing import SMALL

import decision_rnn
from decision_rnn import InputError, Run, TrainedAgent, open_dataset
from decision_rnn.evaluation.results import Result
from decision_rnn.evaluation.rtg_cap import with_rtg_cap


@pytest.mark.parametrize("top_fraction", [1.0, 0.5])
def test_evaluate_with_rtg_cap_equals_a_run_trained_with_that_rtg_cap(
    inside: Path, folder: Path, top_fraction: float
) -> None:
    def trained(limit: float, output: str) -> Run:
        return decision_rnn.train(
            "own/swing",
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
        ours, theirs = with_rtg_cap(run.agent, limit).agent.state_dict(), other.agent.agent.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        changed, expected = scored(run, limit), scored(other, None)
        assert (changed.targets, changed.key) == (expected.targets, expected.key)
        assert changed.remarks == expected.remarks
    assert len(list((run.folder / "results").iterdir())) == 2


def test_with_rtg_cap_is_a_quantile_of_the_returns_to_go_and_keeps_the_original_agent(run: Run) -> None:
    before = run.agent.agent.condition.cap
    changed = with_rtg_cap(run.agent, 0.5)
    rewards = [episode.rewards for episode in open_dataset("own/swing").open().read_episodes()]
    to_go = [np.cumsum(r[::-1].astype(np.float64))[::-1] for r in rewards]
    expected = [np.median([one[t] for one in to_go if t < len(one)]) for t in range(max(map(len, to_go)))]
    np.testing.assert_allclose(changed.agent.condition.cap, expected, rtol=1e-5, atol=1e-5)
    assert changed.config.condition.rtg_cap == 0.5
    assert run.agent.agent.condition.cap is before
    assert run.config.condition.rtg_cap == 0.9


def test_with_rtg_cap_0_needs_no_dataset(pendulum: Callable[..., TrainedAgent]) -> None:
    trained = pendulum(rtg_cap=0.5)
    assert with_rtg_cap(trained, 0.0).agent.condition.cap is None
    with pytest.raises(InputError, match="own/pendulum"):
        with_rtg_cap(trained, 0.9)


def test_rtg_cap_invalid_value_cloning_agent_or_other_data_raises_input_error(
    run: Run, pendulum: Callable[..., TrainedAgent]
) -> None:
    for limit in (1.5, np.float64(-1), float("nan"), "all", True, [0.5]):
        with pytest.raises(InputError, match=r"rtg_cap is .* from 0"):
            decision_rnn.evaluate(run, 90.0, episodes=1, processes=1, progress=False, rtg_cap=limit)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="condition none, which sees no return-to-go"):
        with_rtg_cap(pendulum(cloning=True), 0.0)
    other = replace(run.agent, provenance=replace(run.agent.provenance, fingerprint="0" * 64))
    with pytest.raises(InputError, match="other contents of own/swing"):
        with_rtg_cap(other, 0.9)

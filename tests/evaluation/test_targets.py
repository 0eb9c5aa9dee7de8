"""How many episodes of the data reach a target return, and the warning if few do."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from decision_rnn.config import EvaluationConfig
from decision_rnn.evaluation.targets import asked_returns, describe_few, describe_reach
from decision_rnn.training.checkpoint import TrainedAgent


def thousand_and(*best: float) -> np.ndarray:
    """The returns of a thousand episodes below 100, and the given ones."""
    return np.array([*np.linspace(0, 99, 1000), *best])


def test_describe_reach_counts_the_episodes_that_reach_each_target() -> None:
    assert describe_reach((4.0, 3.0, 0.25, -5.0), np.array([3.0, 0.3, 0.3, -5.0, 3.0])) == (
        "target 4: no episode of 5 reaches it (best 3); "
        "target 3, the data's best: 2 of 5 episodes reach it (40%); "
        "target 0.25: 4 of 5 episodes reach it (80%); "
        "target -5: 5 of 5 episodes reach it (100%)"
    )
    returns = np.arange(2109.0)
    assert describe_reach((1000, 2108), returns) == (
        f"target 1000: 1,109 of 2,109 episodes reach it ({100 * np.mean(returns >= 1000):.1f}%); "
        "target 2108, the data's best: 1 of 2,109 episodes reaches it (0.0474%)"
    )


@pytest.mark.parametrize(
    ("returns", "few"),
    [
        (thousand_and(), True),
        (thousand_and(*[300] * 10), True),  # 10 of 1,010
        (thousand_and(*[300] * 11), False),
        (thousand_and()[::5], True),
        (np.array([*np.zeros(191), *[300] * 9]), True),  # more than one in a hundred, but fewer than ten
        (np.array([*np.zeros(190), *[300] * 10]), False),
        (np.array([0.0, 0, 0, 300]), False),  # one of four
        (np.array([0.0, 0, 0, 0]), True),
    ],
)
def test_describe_few_warns_of_targets_that_few_episodes_reach(returns: np.ndarray, few: bool) -> None:
    assert [describe_few(asked, returns) is not None for asked in ((200.0,), (200.0, -1.0), (-1.0,), ())] == [
        *(few, few, False, False)
    ]


def test_describe_few_names_targets_and_proposes_a_target_return() -> None:
    returns = thousand_and(250.0, 300.0)
    sentence = describe_few((3600.0, 300.0, 250.0, 50.0), returns)
    assert sentence is not None
    assert sentence.startswith("scores at 3600, 300, 250 would be based on little or nothing in the data: ")
    proposed = float(sentence.partition("such as [")[2].partition("]")[0])
    assert 0.1 <= np.mean(returns >= proposed) < 0.102
    assert sentence.endswith("], which 10% of the episodes reach")


def test_target_that_rounding_alone_tells_from_the_best_is_the_best(
    pendulum: Callable[..., TrainedAgent],
) -> None:
    """200 rewards of 1/200, in float32."""
    best = float(np.full(200, 1 / 200, np.float32).sum(dtype=np.float64))
    assert best < 1
    trained = pendulum(return_min=0.0, return_max=best)
    data = replace(trained.provenance, target_returns=(1.0, 0.5))
    assert asked_returns(EvaluationConfig(), data, trained.config) == (best, 0.5)
    assert asked_returns(EvaluationConfig(target_returns=(1.0, 1.001)), data, trained.config) == (best, 1.001)

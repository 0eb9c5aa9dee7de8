"""scripts/memory_table.py: what it says of a policy in all mazes at once, against the environment's own episodes."""

from collections.abc import Callable

import memory_table as script
import numpy as np
import pytest
import torch
from torch import Tensor

from decision_rnn.environments.memory.tmaze import DOWN, LEFT, RIGHT, UP, TMaze

Choose = Callable[[float, float, int, bool], int]
"""From the hint, the target, the step and whether the junction is reached to an action."""


class Rule:
    """An agent that predicts what a rule says; its state is the hint that it saw."""

    action_dim = 4

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def predict(
        self, asked: Tensor, observation: Tensor, previous: Tensor, timestep: Tensor, reset: object, state: object
    ) -> tuple[Tensor, object]:
        hint = observation[:, 0, 1] if state is None else state
        actions = torch.zeros(*timestep.shape, 4)
        for row, time in np.ndindex(*timestep.shape):
            values = hint[row], asked[row, time, 0], timestep[row, time], observation[row, time, 2]
            actions[row, time, self.choose(*(value.item() for value in values))] = 1
        return actions, hint


def obedient(hint: float, target: float, step: int, junction: bool) -> int:
    return (UP if (hint == 1) == (target == 1) else DOWN) if junction else RIGHT


def ignorant(hint: float, target: float, step: int, junction: bool) -> int:
    return UP if junction else RIGHT


def faithful(hint: float, target: float, step: int, junction: bool) -> int:
    return obedient(hint, 1, step, junction)


def forgetful(hint: float, target: float, step: int, junction: bool) -> int:
    return obedient(hint if step < 10 else 1, target, step, junction)


def astray(hint: float, target: float, step: int, junction: bool) -> int:
    return obedient(hint, target, step, junction) if step < 10 else LEFT


def outcome(choose: Choose, steps: int, target: int, seed: int) -> bool:
    """Whether an episode of the environment ends at the side that is asked for."""
    maze, time, over = TMaze(steps), 0, False
    observation, _ = maze.reset(seed=seed)
    hint = observation[1]
    while not over:
        observation, _, over, truncated, info = maze.step(choose(hint, target, time, observation[2]))
        over, time = over or truncated, time + 1
    return bool(maze.y and info["success"] == bool(target))


@pytest.mark.parametrize("choose", [obedient, ignorant, faithful, forgetful, astray])
def test_share_of_obeying_episodes_is_that_of_the_environment(choose: Choose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "STEPS", (3, 9, 30))
    monkeypatch.setattr(script, "BLOCK", 5)
    played = [
        np.mean([outcome(choose, steps, target, seed) for target in (1, 0) for seed in range(40)])
        for steps in script.STEPS
    ]
    np.testing.assert_allclose(script.obeyed(Rule(choose), episodes=4), 100 * np.array(played), atol=15)


def test_reach_ends_before_the_first_length_that_is_not_solved() -> None:
    obeys = dict(zip(script.STEPS, [[100, 100], [98, 96], [100], [60], [100], [50], [50]], strict=True))
    assert script.Row("x", obeys, script.Cost(1, 1, 1)).reach == 90
    assert script.Row("x", obeys | {9: [94]}, script.Cost(1, 1, 1)).reach == 0
    assert script.Row("x", {steps: [100] for steps in script.STEPS}, script.Cost(1, 1, 1)).reach == 9_600

"""Hindsight goals: what an episode achieves later takes the place of its desired goal."""

import math
from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor

from decision_rnn.data.spec import ACHIEVED, DESIRED
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.layouts import Layout
from decision_rnn.utils.errors import InputError


class GoalEntries(NamedTuple):
    """Which entries of an observation's row hold goals.

    Attributes:
        achieved: The entries of `achieved_goal`.
        desired: The entries of `desired_goal`, as many.
    """

    achieved: slice
    desired: slice

    @classmethod
    def of_space(cls, space: gymnasium.Space | None, dataset: str) -> "GoalEntries":
        """The entries of goals in an observation space; InputError, naming the dataset, if there are none."""
        layout = Layout.of_space(space, "observations")
        columns = {part.path: entries for part, entries in zip(layout.parts, layout.columns, strict=True)}
        achieved, desired = columns.get((ACHIEVED,)), columns.get((DESIRED,))
        if achieved is None or desired is None or achieved.stop - achieved.start != desired.stop - desired.start:
            raise InputError(
                f"training.goal_relabeling is hindsight, but the observations of {dataset} are {space}: they need "
                f"entries {ACHIEVED} and {DESIRED} of one size, as those of a GoalEnv have."
            )
        return cls(achieved, desired)


class HindsightGoals:
    """Draws the goals of segments: what the episode reaches at one of its later steps. A goal holds until the step at
    which it is reached; then another is drawn (hindsight experience replay with the strategy `future` of Andrychowicz
    et al., "Hindsight Experience Replay", 2017, with goals that last, as those of an environment do).

    With a discount of 1 all later steps are equally probable. Below 1, the goal is k steps ahead with a probability
    proportional to discount^(k - 1), among the later steps. OGBench's geometric goals (Park et al., "OGBench:
    Benchmarking Offline Goal-Conditioned RL", 2024) are the episode's end wherever k lies beyond it.

    With the probability `p_randomgoal`, the goal is instead what any episode reaches at any of its steps, uniformly, as
    OGBench's random goals, for as long as the goal would have held: so this is also their share of the steps.

    Args:
        store: The data.
        entries: Where its observations have goals.
        batch_size: The number of rows.
        generator: The source of random numbers.
        discount: The discount, above 0.
        p_randomgoal: The share of random goals.
    """

    def __init__(
        self,
        store: EpisodeStore,
        entries: GoalEntries,
        batch_size: int,
        generator: torch.Generator,
        discount: float,
        p_randomgoal: float,
    ) -> None:
        self.entries, self.generator, self.discount, self.p_randomgoal = entries, generator, discount, p_randomgoal
        self.offsets = torch.from_numpy(store.offsets)
        # An episode of L steps has L + 1 observations: those of all episodes, end to end.
        steps, final = store.observations[:, entries.achieved], store.final_observations[:, entries.achieved]
        self.achieved = torch.from_numpy(np.insert(steps, store.offsets[1:], final, axis=0))
        self.goal = torch.full((2, batch_size), -1)
        """(2, batch), for each row: the observation at which its goal expires, and the observation whose achieved goal
        it is, both as indices into `achieved`. A row without a goal has -1."""

    def draw(self, start: Tensor, is_first: Tensor, continues: Tensor | None, context: int) -> tuple[Tensor, Tensor]:
        """Draw the goals of segments.

        Args:
            start: (batch,) int64, the segments' first steps.
            is_first: (batch, context) bool, true at an episode's first step.
            continues: (batch,) bool, true for rows that continue the segment before; None if none does.
            context: Steps of a segment.

        Returns:
            The goals (batch, context), as rows of `achieved`, and for how many more steps each holds: until it is
            reached, unless it is random.
        """
        step = start[:, None] + torch.arange(context)
        episode = torch.searchsorted(self.offsets, step, right=True) - 1
        now, last = step + episode, self.offsets[episode + 1] + episode  # as indices of observations

        share = torch.rand(step.shape, dtype=torch.float64, generator=self.generator)
        if self.discount == 1:
            until = now + 1 + (share * (last - now)).long()
        else:
            within = 1 - self.discount ** (last - now).double()  # the probability of not lying beyond the end
            ahead = torch.log1p(-share * within) / math.log(self.discount)
            until = torch.minimum(now + 1 + ahead.long(), last)  # rounding may reach one step further
        goal = until
        if self.p_randomgoal:
            anywhere = torch.randint(len(self.achieved), step.shape, generator=self.generator)
            random = torch.rand(step.shape, generator=self.generator) < self.p_randomgoal
            goal = torch.where(random, anywhere, until)

        # A goal holds until it is reached, or the episode ends.
        new = torch.stack([until, goal])
        current = self.goal if continues is None else torch.where(continues, self.goal, -1)
        goals = []
        for t in range(context):
            current = torch.where(is_first[:, t] | (current[0] <= now[:, t]), new[..., t], current)
            goals.append(current)
        if continues is not None:
            self.goal = current
        until, goal = torch.stack(goals, dim=-1)
        return goal, until - now


def steps_ahead(store: EpisodeStore, discount: float) -> float:
    """About how many steps ahead goals in hindsight lie: their mean, but for the ends of episodes."""
    half = store.steps / len(store) / 2
    return half if discount == 1 else min(1 / (1 - discount), half)

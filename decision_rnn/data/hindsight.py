"""Hindsight goals: what an episode achieves later takes the place of its desired goal."""

import math
from typing import NamedTuple

import gymnasium
import numpy as np
import scipy  # its parts are imported when they are first used
import torch
from torch import Tensor

from decision_rnn.data.spec import ACHIEVED, DESIRED
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.layouts import Layout
from decision_rnn.utils.errors import InputError

CLUSTERS, CLUSTERED = 500, 20_000
"""Clusters of achieved goals, and how many of these their centers are computed from."""
MOST_STEPS, ROUNDING = 100_000, 1e-6
"""How many steps the changes of achieved goals are computed from, and the share of their size that is rounding."""


class GoalEntries(NamedTuple):
    """Which entries of an observation's row hold `achieved_goal`, and which `desired_goal`, as many."""

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

    With the probability `p_swappedgoal`, it is instead what another episode goes on to reach that passes by: from an
    observation in the same of `CLUSTERS` clusters, as many steps ahead as a goal of that episode, so that the steps to
    it are those of both parts (Ghugare et al., "Closing the Gap between TD Learning and Supervised Learning", 2024).
    With the same probability that goal is swapped again, and so on, which is ours: ways of many parts are then seen.

    Subgoals lie `subgoal_steps` ahead.
    """

    def __init__(
        self,
        store: EpisodeStore,
        entries: GoalEntries,
        batch_size: int,
        generator: torch.Generator,
        discount: float,
        p_swappedgoal: float = 0.0,
        subgoal_steps: int = 0,
    ) -> None:
        self.entries, self.generator, self.discount = entries, generator, discount
        self.p_swappedgoal, self.subgoal_steps = p_swappedgoal, subgoal_steps
        self.offsets = torch.from_numpy(store.offsets)
        self.achieved = torch.from_numpy(achieved_goals(store, entries))
        self.last = self.offsets[1:] + torch.arange(len(store))  # every episode's last observation
        self.clusters = Clusters(self.achieved.numpy()) if p_swappedgoal else None
        self.goal = torch.full((3, batch_size), -1)
        """(3, batch), for each row: the observation at which its goal expires, the observation whose achieved goal it
        is, both as indices into `achieved`, and the steps between them. A row without a goal has -1."""

    def draw(self, start: Tensor, is_first: Tensor, continues: Tensor | None, context: int) -> tuple[Tensor, ...]:
        """Draw the goals of segments.

        Args:
            start: (batch,) int64, the segments' first steps.
            is_first: (batch, context) bool, true at an episode's first step.
            continues: (batch,) bool, true for rows that continue the segment before; None if none does.
            context: Steps of a segment.

        Returns:
            The goals (batch, context), as rows of `achieved`, the steps to each, and the subgoals, as rows of
            `achieved`: none lies beyond the step at which the goal expires.
        """
        step = start[:, None] + torch.arange(context)
        episode = torch.searchsorted(self.offsets, step, right=True) - 1
        now = step + episode  # as indices of observations
        until = now + self._draw_ahead(self.last[episode] - now)
        goal, beyond = (until, torch.zeros_like(until)) if self.clusters is None else self._swap(until, self.clusters)

        # A goal holds until it is reached, or the episode ends.
        new = torch.stack([until, goal, beyond])
        current = self.goal if continues is None else torch.where(continues, self.goal, -1)
        goals = []
        for t in range(context):
            current = torch.where(is_first[:, t] | (current[0] <= now[:, t]), new[..., t], current)
            goals.append(current)
        if continues is not None:
            self.goal = current
        until, goal, beyond = torch.stack(goals, dim=-1)
        return goal, until - now + beyond, torch.minimum(now + self.subgoal_steps, until)

    def _swap(self, goal: Tensor, clusters: "Clusters") -> tuple[Tensor, Tensor]:
        """Swap goals, rows of `achieved`; the goals, and how many steps beyond the former ones they lie."""

        def chosen() -> Tensor:
            return torch.rand(goal.shape, generator=self.generator) < self.p_swappedgoal

        beyond, swapped = torch.zeros_like(goal), chosen()
        while swapped.any():
            passing = clusters.draw(goal, self.generator)
            remaining = self.last[torch.searchsorted(self.last, passing)] - passing
            ahead = torch.minimum(self._draw_ahead(remaining), remaining)  # 0 at an episode's end
            goal = torch.where(swapped, passing + ahead, goal)
            beyond = beyond + torch.where(swapped, ahead, 0)
            swapped = swapped & chosen()
        return goal, beyond

    def _draw_ahead(self, remaining: Tensor) -> Tensor:
        """Draw how many steps ahead goals lie, int64, from 1 to `remaining`."""
        share = torch.rand(remaining.shape, dtype=torch.float64, generator=self.generator)
        if self.discount == 1:
            return 1 + (share * remaining).long()
        within = 1 - self.discount ** remaining.double()  # the probability of not lying beyond the end
        ahead = torch.log1p(-share * within) / math.log(self.discount)
        return torch.minimum(1 + ahead.long(), remaining)  # rounding may reach one step further


class Clusters:
    """Observations whose achieved goals (observations, entries) are alike, by k-means on the entries divided by their
    standard deviations."""

    def __init__(self, achieved: np.ndarray) -> None:
        scale = achieved.std(0)
        goals = (achieved - achieved.mean(0)) / np.where(scale > 0, scale, 1)
        generator = np.random.default_rng(0)
        chosen = generator.choice(goals, min(CLUSTERED, len(goals)), replace=False)
        centers = generator.permutation(np.unique(chosen, axis=0))[:CLUSTERS]
        centers, _ = scipy.cluster.vq.kmeans2(chosen, centers, minit="matrix")
        labels, _ = scipy.cluster.vq.vq(goals, centers)
        self.labels, counts = torch.from_numpy(labels).long(), np.bincount(labels, minlength=len(centers))
        self.members = torch.from_numpy(np.argsort(labels, kind="stable"))  # cluster by cluster
        self.counts, self.first = torch.from_numpy(counts), torch.from_numpy(np.cumsum(counts) - counts)

    def draw(self, observation: Tensor, generator: torch.Generator) -> Tensor:
        """For each observation, one of its cluster, uniformly."""
        label = self.labels[observation]
        share = torch.rand(observation.shape, dtype=torch.float64, generator=generator)
        return self.members[self.first[label] + (share * self.counts[label]).long()]


def achieved_goals(store: EpisodeStore, entries: GoalEntries) -> np.ndarray:
    """The achieved goals, (observations, entries), of all episodes, end to end; one of L steps has L + 1."""
    steps, final = store.observations[:, entries.achieved], store.final_observations[:, entries.achieved]
    return np.insert(steps, store.offsets[1:], final, axis=0)


def goal_changes(store: EpisodeStore, entries: GoalEntries, steps: int) -> Tensor:
    """(entries,), the root mean square of the changes of achieved goals over a number of steps, or to the episode's
    end, at about `MOST_STEPS` of all steps or fewer. Those of entries that are constant, up to rounding, are 1."""
    achieved = achieved_goals(store, entries).astype(np.float64)
    step = np.arange(0, store.steps, -(-store.steps // MOST_STEPS))
    episode = np.searchsorted(store.offsets, step, side="right") - 1
    now, last = step + episode, store.offsets[episode + 1] + episode
    changes = achieved[np.minimum(now + steps, last)] - achieved[now]
    size = np.sqrt((changes**2).mean(0))
    return torch.from_numpy(np.where(size > ROUNDING * np.abs(achieved).max(0), size, 1.0)).float()


def steps_ahead(store: EpisodeStore, discount: float) -> float:
    """About how many steps ahead goals in hindsight lie: their mean, but for the ends of episodes."""
    half = store.steps / len(store) / 2
    return half if discount == 1 else min(1 / (1 - discount), half)

"""Rollouts: episodes are played in groups, each stepped as one batch; several cores play different groups."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch

from decision_rnn.agent import ActingState
from decision_rnn.environments.layouts import Layout
from decision_rnn.environments.playing import make_group, play_together, step_limit
from decision_rnn.environments.registry import episodes_at_once
from decision_rnn.evaluation.acting import Actor
from decision_rnn.evaluation.metrics import Metric
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import progress_bar
from decision_rnn.utils.workers import parallel_map

GROUP = 50
"""The most episodes that are stepped as one batch, unless an environment asks for fewer: many, since half of the
cost of an action does not depend on the batch size, but 100 episodes must be shared equally by two cores."""
EPISODE = (
    ("return", np.float64),  # undiscounted sum of rewards
    ("length", np.int64),  # steps
    ("cut", np.bool_),  # whether it was still going on after the largest number of steps
)
"""The fields of an episode that was played; those of its metrics follow."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch with one thread inside the block: one step of a small network is too little work to share, and on busy
    machines threads that wait for each other make it up to a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def episode_groups(count: int, environment_id: str) -> list[range]:
    """The numbers of a target's episodes that are stepped together, out of `count`. They depend on nothing else but the
    environment, since the last digits of an action depend on its batch."""
    groups = math.ceil(count / episodes_at_once(environment_id, GROUP))
    return [range(first, count, groups) for first in range(groups)]


def rollout(
    actor: Actor[Any],
    environment_id: str,
    target_returns: Sequence[float],
    episodes: int,
    seed: int,
    processes: int = 1,
    limits: tuple[int | None, int | None] = (None, None),
    metrics: Sequence[type[Metric]] = (),
) -> np.ndarray:
    """Play `episodes` episodes for each target return, in groups that are stepped as one batch.

    Each episode has its own environment; episode i of every target begins with reset(seed + i). When an episode ends,
    its row leaves the batch. Results are the same for any number of processes, and those of a target do not depend on
    the other targets.

    Args:
        actor: The agent; processes are forked, so that it need not be picklable.
        processes: Number of processes, each playing one group at a time; 1 plays in this process.
        limits: `max_steps` and `longest_episode` of `step_limit`.

    Returns:
        (target returns, episodes), a structured array with the fields `EPISODE` and one for each metric.

    Raises:
        InputError: If a return or a metric is not finite.
        MachineError: If a process dies.
    """
    numbers = episode_groups(episodes, environment_id)
    groups = [(i, group) for i in range(len(target_returns)) for group in numbers]
    tasks = [(float(target_returns[i]), [seed + number for number in group]) for i, group in groups]
    fields = np.dtype([*EPISODE, *((metric.name, np.float64) for metric in metrics)])
    play = partial(score_group, actor, environment_id, limits, metrics, fields)
    played = np.zeros((len(target_returns), episodes), fields)
    with one_thread(), progress_bar(total=played.size, desc="evaluating", unit="episode") as progress:
        results: Iterable[np.ndarray]
        if processes > 1 and len(groups) > 1:
            results = parallel_map(play, tasks, min(processes, len(groups)), "plays episodes")
        else:
            results = map(play, tasks)
        for (i, group), result in zip(groups, results, strict=True):
            played[i, group] = result
            progress.update(len(group))
    for name in ("return", *(metric.name for metric in metrics)):
        if not np.isfinite(played[name]).all():
            raise InputError(
                f"the {name} of an episode of {environment_id} is not finite: check the agent's weights, and that the "
                "environment reports what is measured"
            )
    return played


class GroupPolicy:
    """An actor as the policy of a group of episodes in such environments (`playing.Policy`)."""

    def __init__(self, actor: Actor[Any], environment: gymnasium.Env, target_returns: Sequence[float]) -> None:
        self.actor, self.environment, self.targets = actor, environment, np.array(target_returns, np.float32)
        self.observation_layout = Layout.of_space(environment.observation_space, "observations").ordered_as(
            actor.observation_layout
        )
        self.action_layout = Layout.of_space(environment.action_space, "actions")
        self.state, self.first = actor.initial_state(len(self.targets)), np.ones(len(self.targets), bool)

    def __call__(self, observations: Sequence[Any], rewards: np.ndarray, remaining: np.ndarray | None) -> Any:
        if remaining is not None:  # the others are over
            self.targets, self.first = self.targets[remaining], self.first[remaining]
            tensors, rows = isinstance(self.state, ActingState), torch.from_numpy(remaining)
            self.state = self.state.select(rows) if tensors else [part[remaining] for part in self.state]
        values = self.observation_layout.rows_of(observations, "the observation").astype(np.float32, copy=False)
        if not np.isfinite(values).all():  # its actions would not be finite either, and the scores of these no measure
            raise InputError(f"an observation of {self.environment.unwrapped} is not finite in float32.")
        inputs = values, rewards.astype(np.float32), self.first, self.targets
        actions, self.state = self.actor.step(*inputs, self.state)
        self.first = np.zeros_like(self.first)
        return self.action_layout.values(actions)


@one_thread()
def score_group(
    actor: Actor[Any],
    environment_id: str,
    limits: tuple[int | None, int | None],
    metrics: Sequence[type[Metric]],
    fields: np.dtype,
    group: tuple[float, Sequence[int]],
) -> np.ndarray:
    """Play a group of episodes, of a target return and seeds, as one batch; (episodes,) with these fields. The first
    seed is also that of torch's generator."""
    target, seeds = group
    played, measured = np.zeros(len(seeds), fields), [[metric() for metric in metrics] for _ in seeds]
    with make_group(environment_id, len(seeds)) as environments, torch.random.fork_rng(devices=[]):
        observations = [each.reset(seed=seed)[0] for each, seed in zip(environments, seeds, strict=True)]
        environment = environments[0]
        policy = GroupPolicy(actor, environment, [target] * len(seeds))
        torch.default_generator.manual_seed(seeds[0])
        for step in play_together(environments, observations, policy, step_limit(environment, *limits)):
            episodes = played[step.rows]
            episodes["return"] += step.rewards
            episodes["length"] += 1
            episodes["cut"] = step.cut & ~step.over
            for i, row in enumerate(step.rows if metrics else ()):
                ends = bool(step.terminated[i]), bool(step.truncated[i] or (step.cut and not step.terminated[i]))
                for metric in measured[row]:
                    outcome = step.actions[i], step.observations[i], float(step.rewards[i]), *ends, step.infos[i]
                    episodes[metric.name][i] = metric.step(*outcome)
            played[step.rows] = episodes
    return played

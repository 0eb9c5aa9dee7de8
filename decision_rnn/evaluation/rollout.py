"""Rollouts: episodes are played in groups, each stepped as one batch; several cores play different groups."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch

from decision_rnn.data.layouts import Layout
from decision_rnn.environments.playing import Step, play_together, step_limit
from decision_rnn.environments.registry import episodes_at_once, open_environments
from decision_rnn.evaluation.actor import Actor
from decision_rnn.evaluation.metrics import Metric, value_after
from decision_rnn.utils.messages import bar
from decision_rnn.utils.plugins import import_plugins
from decision_rnn.utils.workers import parallel_map

ROUNDING = 1e-4
"""The relative difference up to which a return-to-go, a sum of up to thousands of float32 rewards, is the same."""
GROUP = 50
"""The most episodes that are stepped as one batch, unless an environment asks for fewer. Groups should be large, since
part of an action's cost does not depend on the batch size (0.4 of 0.8 ms for 31 episodes); but 100 episodes must be
shared equally by two cores."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch with one thread inside the block.

    One step of a small network is too little work to share between threads: on a busy machine, waiting for each other
    has been seen to make it a hundred times slower.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class RolloutResult:
    """Returns and lengths of the episodes played for one target return.

    Attributes:
        target_return: The target return.
        returns: (episodes,), undiscounted sums of rewards.
        lengths: (episodes,), steps.
        cut: (episodes,) bool, true where the episode was still going on after the largest number of steps.
        metrics: (episodes,) values by the metric's name.
        asked: (episodes,), the return-to-go that the agent saw at the first step; None if it saw none.
        limited: (episodes,), in how many steps it saw less than the target less the rewards so far; likewise.
    """

    target_return: float
    returns: np.ndarray
    lengths: np.ndarray
    cut: np.ndarray
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    asked: np.ndarray | None = None
    limited: np.ndarray | None = None


def episode_groups(count: int, environment_id: str) -> list[range]:
    """The numbers of the episodes of a target return that are stepped together, out of `count`.

    They depend only on the number of episodes and the environment, since the last digits of an action depend on its
    batch.
    """
    groups = math.ceil(count / episodes_at_once(environment_id, GROUP))
    return [range(first, count, groups) for first in range(groups)]


def rollout(
    actor: Actor,
    environment_id: str,
    target_returns: Sequence[float],
    episodes: int,
    seed: int,
    processes: int = 1,
    plugins: Sequence[str] = (),
    max_episode_steps: int | None = None,
    longest_episode: int | None = None,
    metrics: Sequence[type[Metric]] = (),
) -> list[RolloutResult]:
    """Play `episodes` episodes for each target return, in groups that are stepped as one batch.

    Each episode has its own environment; episode i of every target begins with reset(seed + i). When an episode ends,
    its row leaves the batch. Results are the same for any number of processes, and those of a target do not depend on
    the other targets.

    Args:
        actor: In evaluation mode, on the CPU; it is pickled where there is more than one process.
        environment_id: Gymnasium id of the environment.
        target_returns: Target returns.
        episodes: Episodes per target return.
        seed: Seed of the first episode.
        processes: Number of processes, each playing one group at a time; 1 plays in this process.
        plugins: Modules that worker processes import first: those that register the environment or define the actor.
        max_episode_steps: As in `EvaluationConfig`.
        longest_episode: As in `DatasetSpec`.
        metrics: What else is measured in every episode.

    Returns:
        One result per target return.

    Raises:
        EnvironmentFailure: If a process dies.
    """
    count = len(target_returns) * episodes
    numbers = episode_groups(episodes, environment_id)
    groups = [np.add(group, i * episodes) for i in range(len(target_returns)) for group in numbers]
    tasks = [
        (seed + group[0], [(seed + number, float(target)) for number in group])
        for target in target_returns
        for group in numbers
    ]
    play = partial(play_group, actor, environment_id, (max_episode_steps, longest_episode), metrics)
    found = (
        *(np.zeros(count), np.zeros(count, np.int64), np.zeros(count, bool)),
        *(np.zeros(count), np.zeros(count, np.int64), np.zeros((count, len(metrics)))),
    )
    with one_thread(), bar(total=count, desc="evaluating", unit="episode") as shown:
        if processes > 1 and len(groups) > 1:
            prepare = partial(import_plugins, plugins)
            played = parallel_map(play, tasks, min(processes, len(groups)), "plays episodes", shown.update, prepare)
        else:
            played = (play(task, shown.update) for task in tasks)
        for group, results in zip(groups, played, strict=True):
            for all_of_them, of_group in zip(found, results, strict=True):
                all_of_them[group] = of_group
    *parts, asked, limited, values = (part.reshape(len(target_returns), episodes, *part.shape[1:]) for part in found)
    names = [metric.name for metric in metrics]
    measured = [dict(zip(names, of_target.T, strict=True)) for of_target in values]
    sees = not np.isnan(asked).any()
    of_targets = zip(target_returns, *parts, measured, *((asked, limited) if sees else ()), strict=True)
    return [RolloutResult(*of_target) for of_target in of_targets]


class GroupPolicy:
    """An actor as the policy of a group of episodes in such environments, whose state loses the rows of those that are
    over."""

    def __init__(self, actor: Actor, environment: gymnasium.Env, target_returns: Sequence[float]) -> None:
        self.actor = actor
        spaces = environment.observation_space, environment.action_space
        self.seen, self.acted = map(Layout.of_space, spaces, ("observations", "actions"))
        self.state = actor.initial_state(torch.tensor(target_returns, dtype=torch.float32))
        self.condition: torch.Tensor | None = None

    @torch.inference_mode()
    def __call__(self, observations: list[Any], rewards: np.ndarray, kept: np.ndarray | None) -> Any:
        if kept is not None:
            self.state = self.state.select(torch.from_numpy(kept))
        rows = self.seen.rows_of(observations, "the observation")
        seen, earned = torch.from_numpy(rows.astype(np.float32, copy=False)), torch.from_numpy(rewards).float()
        action, self.state, self.condition = self.actor.act(seen, earned, self.state)
        return self.acted.values(action.numpy())


@one_thread()
def play_group(
    actor: Actor,
    environment_id: str,
    limits: tuple[int | None, int | None],
    metrics: Sequence[type[Metric]],
    group: tuple[int, list[tuple[int, float]]],
    ended: Callable[[int], object],
) -> tuple[np.ndarray, ...]:
    """Play a group of episodes as one batch: their returns, lengths, whether `step_limit` cut them, what they were
    asked for at first and how often less than their target, (episodes,), and their metrics, (episodes, metrics).

    `group` has the seed of torch's generator, with which an actor may sample, and each episode's own seed and target
    return. `ended` is called with the number of episodes that have just ended.
    """
    random_seed, episodes = group
    count = len(episodes)
    returns, lengths, cut = np.zeros(count), np.zeros(count, np.int64), np.zeros(count, bool)
    asked, limited, targets = np.full(count, np.nan), np.zeros(count, np.int64), np.array([of for _, of in episodes])
    values, measuring = np.zeros((count, len(metrics))), [[metric() for metric in metrics] for _ in episodes]
    with open_environments(environment_id, count) as environments, torch.random.fork_rng(devices=[]):
        firsts = [env.reset(seed=seed)[0] for env, (seed, _) in zip(environments, episodes, strict=True)]
        policy = GroupPolicy(actor, environments[0], [target for _, target in episodes])
        torch.default_generator.manual_seed(random_seed)
        for step in play_together(environments, firsts, policy, step_limit(environments[0], *limits)):
            condition = policy.condition
            if condition is not None and condition.shape[-1] == 1:
                seen, to_go = condition[:, 0].numpy(), targets[step.rows] - returns[step.rows]
                limited[step.rows] += seen < to_go - ROUNDING * np.maximum(1.0, np.abs(seen))
                asked[step.rows] = np.where(lengths[step.rows] == 0, seen, asked[step.rows])
            returns[step.rows] += step.rewards
            lengths[step.rows] += 1
            cut[step.rows] = step.cut & ~step.over
            if metrics:
                for i, row in enumerate(step.rows):
                    values[row] = [value_after(metric, *outcome(step, i)) for metric in measuring[row]]
            if step.cut or step.over.any():
                ended(int((step.over | step.cut).sum()))
    return returns, lengths, cut, asked, limited, values


def outcome(step: Step, index: int) -> tuple[Any, ...]:
    """The arguments of a metric's `step` for one of the environments."""
    cut = step.cut and not step.terminated[index]
    return (
        step.actions[index],
        step.observations[index],
        float(step.rewards[index]),
        bool(step.terminated[index]),
        bool(step.truncated[index] or cut),
        step.infos[index],
    )

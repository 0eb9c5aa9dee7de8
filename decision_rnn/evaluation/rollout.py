"""Rollouts: episodes are played in groups, each stepped as one batch; several cores play different groups."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from decision_rnn.data.environments import make_environment
from decision_rnn.evaluation.actor import Actor
from decision_rnn.messages import bar
from decision_rnn.plugins import import_plugins
from decision_rnn.workers import spread

OnStep = Callable[[Sequence[int], np.ndarray], None]

GROUP = 50
"""The most episodes that are stepped as one batch. Groups should be large, since part of an action's cost does not
depend on the batch size (0.4 of 0.8 ms for 31 episodes); but 100 episodes must be shared equally by two cores."""


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
    """

    target_return: float
    returns: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class Task:
    """What the episodes of a rollout have in common.

    Attributes:
        actor: In evaluation mode, on the CPU.
        environment_id: Gymnasium id of an environment with Box spaces.
        target_returns: Target returns.
        episodes: Episodes per target return.
        seed: Seed of the first episode.
    """

    actor: Actor
    environment_id: str
    target_returns: tuple[float, ...]
    episodes: int
    seed: int

    def groups(self) -> list[range]:
        """The numbers of the episodes that are stepped together; each group mixes the episodes of all targets.

        They depend only on the number of episodes, since the last digits of an action depend on its batch.
        """
        count = len(self.target_returns) * self.episodes
        groups = math.ceil(count / GROUP)
        return [range(first, count, groups) for first in range(groups)]


def rollout(
    actor: Actor,
    environment_id: str,
    target_returns: Sequence[float],
    episodes: int,
    seed: int,
    processes: int = 1,
    plugins: Sequence[str] = (),
    on_step: OnStep | None = None,
) -> list[RolloutResult]:
    """Play `episodes` episodes for each target return, in groups that are stepped as one batch.

    Each episode has its own environment; episode i of every target begins with reset(seed + i). When an episode ends,
    its row leaves the batch. Results are the same for any number of processes.

    Args:
        actor: In evaluation mode, on the CPU; it is pickled where there is more than one process.
        environment_id: Gymnasium id of an environment with Box spaces.
        target_returns: Target returns.
        episodes: Episodes per target return.
        seed: Seed of the first episode.
        processes: Number of processes, each playing one group at a time; 1 plays in this process.
        plugins: Modules that worker processes import first: those that register the environment or define the actor.
        on_step: Called before each step with the numbers of the environments that are stepped and their actions; only
            with one process.

    Returns:
        One result per target return.

    Raises:
        InputError: If a process dies.
    """
    if on_step is not None and processes > 1:
        raise ValueError("on_step is called in this process, so that no other may play")
    task = Task(actor, environment_id, tuple(target_returns), episodes, seed)
    groups, count = task.groups(), len(target_returns) * episodes
    returns, lengths = np.zeros(count), np.zeros(count, np.int64)
    with one_thread(), bar(total=count, desc="evaluating", unit="episode") as shown:
        if processes > 1 and len(groups) > 1:
            prepare = partial(import_plugins, plugins)
            played = spread(partial(play_group, task), groups, processes, "plays episodes", shown.update, prepare)
        else:
            played = [play_group(task, group, shown.update, on_step) for group in groups]
    for group, (of_returns, of_lengths) in zip(groups, played, strict=True):
        returns[group], lengths[group] = of_returns, of_lengths
    per_target = [slice(i, i + episodes) for i in range(0, count, episodes)]
    return [
        RolloutResult(target, returns[part], lengths[part])
        for target, part in zip(target_returns, per_target, strict=True)
    ]


@one_thread()
@torch.inference_mode()
def play_group(
    task: Task, group: Sequence[int], ended: Callable[[int], object], on_step: OnStep | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Play the episodes with these numbers as one batch; returns their returns and lengths, both (len(group),).

    `ended` is called with the number of episodes that have just ended. An actor that samples uses torch's global
    generator, seeded for the group.
    """
    environments = [make_environment(task.environment_id) for _ in group]
    firsts = [env.reset(seed=task.seed + i % task.episodes)[0] for i, env in zip(group, environments, strict=True)]
    observations = np.asarray(firsts, np.float32)
    rewards = np.zeros(len(group), np.float32)
    returns, lengths = np.zeros(len(group)), np.zeros(len(group), np.int64)
    running, numbers = np.arange(len(group)), np.asarray(group)
    playing = list(environments)
    state = task.actor.initial_state(torch.tensor([task.target_returns[i // task.episodes] for i in group]))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(task.seed + group[0])
        while playing:
            action, state = task.actor.act(torch.from_numpy(observations), torch.from_numpy(rewards), None, state)
            actions = action.numpy()
            if on_step is not None:
                on_step(numbers[running].tolist(), actions)
            steps = [env.step(row) for env, row in zip(playing, actions, strict=True)]
            observed, earned, terminated, truncated, _ = zip(*steps, strict=True)
            observations, rewards = np.array(observed, np.float32), np.array(earned, np.float32).reshape(-1)
            returns[running] += np.array(earned, np.float64).reshape(-1)
            lengths[running] += 1
            over = np.logical_or(terminated, truncated)
            if over.any():
                ended(int(over.sum()))
                going = np.flatnonzero(~over)
                state = state.select(torch.from_numpy(going))
                observations, rewards, running = observations[going], rewards[going], running[going]
                playing = [playing[row] for row in going]
    for env in environments:
        env.close()
    return returns, lengths

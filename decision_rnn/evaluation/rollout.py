"""Episodes in the environment: every episode of every target return, stepped together as one batch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from decision_rnn.backbones import select_rows
from decision_rnn.data.environments import make_environment
from decision_rnn.evaluation.actor import Actor


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread inside the block.

    One step of a small network is too little work to share, and threads that wait for each other on a busy machine
    have been seen to make it a hundred times slower.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class RolloutResult:
    """What the episodes of one target return came to.

    Attributes:
        target_return: The return that was asked for.
        returns: (episodes,), undiscounted sums of rewards.
        lengths: (episodes,), steps.
    """

    target_return: float
    returns: np.ndarray
    lengths: np.ndarray


@one_thread()
@torch.inference_mode()
def rollout(
    actor: Actor,
    environment_id: str,
    target_returns: Sequence[float],
    episodes: int,
    seed: int,
    device: torch.device | str = "cpu",
    on_step: Callable[[Sequence[int], np.ndarray], None] | None = None,
) -> list[RolloutResult]:
    """Play `episodes` episodes for each target return, all at once.

    Each has its own environment, begun by reset(seed + its number), the same for every target; one that has ended
    is no longer stepped, and its row leaves the batch.

    Args:
        actor: In evaluation mode, on `device`.
        environment_id: A Gymnasium id with Box spaces.
        target_returns: What to ask for.
        episodes: Per target return.
        seed: Of the first environment.
        device: Of the actor.
        on_step: Called before each step with the numbers of the environments still running and their actions.

    Returns:
        One result per target return.
    """
    count = len(target_returns) * episodes
    environments = [make_environment(environment_id) for _ in range(count)]
    firsts = [env.reset(seed=seed + i % episodes)[0] for i, env in enumerate(environments)]
    observations = np.asarray(firsts, np.float32)
    rewards = np.zeros(count, np.float32)
    returns, lengths = np.zeros(count), np.zeros(count, np.int64)
    running = list(range(count))
    targets = torch.tensor(target_returns, dtype=torch.float32).repeat_interleave(episodes)
    state = actor.initial_state(targets.to(device))
    with tqdm(total=count, desc="evaluating", unit="episode", disable=None) as bar:
        while running:
            action, state = actor.act(
                torch.from_numpy(observations).to(device), torch.from_numpy(rewards).to(device), None, state
            )
            actions = action.cpu().numpy()
            if on_step is not None:
                on_step(running, actions)
            going = []
            for row, i in enumerate(running):
                observation, reward, terminated, truncated, _ = environments[i].step(actions[row])
                observations[row], rewards[row] = observation, reward
                returns[i] += reward
                lengths[i] += 1
                if not (terminated or truncated):
                    going.append(row)
            if len(going) < len(running):
                bar.update(len(running) - len(going))
                state = select_rows(state, torch.tensor(going, dtype=torch.int64, device=device))
                observations, rewards = observations[going], rewards[going]
                running = [running[row] for row in going]
    for env in environments:
        env.close()
    per_target = [slice(i, i + episodes) for i in range(0, count, episodes)]
    return [
        RolloutResult(target, returns[part], lengths[part])
        for target, part in zip(target_returns, per_target, strict=True)
    ]

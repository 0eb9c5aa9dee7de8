"""The cost of one action: its time, and the size of the state kept between actions."""

import statistics
import time

import torch

from decision_rnn.evaluation.actor import Actor
from decision_rnn.evaluation.rollout import one_thread


def action_cost(actor: Actor, observation_dim: int, actions: int = 200) -> tuple[float, int]:
    """Median microseconds of one `act` in one environment, on one thread, and the bytes of state after the last.

    Args:
        actor: An agent as it acts, see `prepare_to_act`, or its `WindowActor`.
        observation_dim: Entries of an observation.
        actions: Number of consecutive actions.
    """
    observation, reward = torch.zeros(1, observation_dim), torch.zeros(1)
    times = []
    with one_thread(), torch.inference_mode():
        state = actor.initial_state(torch.ones(1))
        for _ in range(actions):
            begun = time.perf_counter()
            _, state = actor.act(observation, reward, None, state)
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6, sum(part.numel() * part.element_size() for part in state.flatten())

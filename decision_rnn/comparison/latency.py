"""The cost of one action: its time, and the size of the state kept between actions."""

import statistics
import time

import torch

from decision_rnn.agent import DecisionAgent
from decision_rnn.evaluation.actor import Actor
from decision_rnn.evaluation.rollout import one_thread


def action_cost(agent: DecisionAgent, actor: Actor, actions: int = 300) -> tuple[float, int]:
    """Median microseconds of one `act` in one environment, on one thread, and the bytes of state after the last.

    Args:
        agent: The agent, for its observation size and device.
        actor: The agent, or its `WindowActor`.
        actions: Number of consecutive actions.
    """
    device = next(agent.parameters()).device
    observation, reward = torch.zeros(1, agent.observation_dim, device=device), torch.zeros(1, device=device)
    times = []
    with one_thread(), torch.inference_mode():
        state = actor.initial_state(torch.ones(1, device=device))
        for _ in range(actions):
            begun = time.perf_counter()
            _, state = actor.act(observation, reward, None, state)
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6, sum(part.numel() * part.element_size() for part in state.flatten())
